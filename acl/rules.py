"""Who is allowed and who is denied at each collection, inheritance included, and until when.

Nothing here rests on the present moment: a line keeps its end, and whoever reads the rules
says what time it is. So the end of a grant makes nothing stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from sqlalchemy import Integer, Text, case, cast, func, select
from sqlalchemy.orm import Session

from acl.errors import RightsUnavailable
from acl.tables import CollectionRow, GrantRow
from acl.types import Action, Effect, Level

# Until when (Unix seconds, inf for no end) each principal holds something.
Held = Mapping[int, float]
# A collection's parent and cut; the collections in each.
_Node = tuple[int, bool]
Nodes = Mapping[int, _Node]
Below = Mapping[int, tuple[int, ...]]
# (level, row id of the resource, principal, effect, end)
_Line = tuple[str, int, int, str, float]

# Stands for the tenant among the row ids of collections, which count from 1.
_TENANT = 0
_ABOVE = -1
# Nodes that are better done one by one, though one may stand below another, than all anew.
_FEW = 16
_ON_THE_WAY = (
    # Levels are named one by one, so that the index on them skips documents' own grants.
    GrantRow.level.in_([Level.TENANT.value, Level.COLLECTION.value]),
    GrantRow.action == Action.READ.value,
)
_GRANT = (
    GrantRow.level + " " + cast(GrantRow.resource_id, Text)
    + " " + cast(GrantRow.principal_id, Text) + " " + GrantRow.effect
)  # fmt: skip
_COLLECTION = (
    cast(CollectionRow.id, Text)
    + " " + cast(func.coalesce(CollectionRow.parent_id, _TENANT), Text)
    + " " + cast(cast(CollectionRow.cut, Integer), Text)
)  # fmt: skip
# One row of two texts takes half the time of a thousand row objects, and is compared at once.
# A text of a moment would be rounded by SQLite: grants that end come as rows.
_STANDING = select(
    func.aggregate_strings(case((GrantRow.expires_s.is_(None), _GRANT)), ","),
    func.count(GrantRow.expires_s),
    select(func.aggregate_strings(_COLLECTION, ",")).scalar_subquery(),
).where(*_ON_THE_WAY)
_ENDING = select(
    GrantRow.level, GrantRow.resource_id, GrantRow.principal_id, GrantRow.effect,
    GrantRow.expires_s,
).where(*_ON_THE_WAY, GrantRow.expires_s.is_not(None))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rules:
    """Who is allowed and who is denied at one node."""

    allow: Held
    deny: Held

    def below(self, own: Rules, *, cut: bool) -> Rules:
        """Give the rules one node further down: denies stay, a cut drops inherited allows."""
        if not (own.allow or own.deny or (cut and self.allow)):
            return self
        allow = own.allow if cut else _longest(self.allow, own.allow)
        return Rules(allow, _longest(self.deny, own.deny))


_NONE = Rules({}, {})


@dataclass(frozen=True, slots=True)
class Source:
    """What rules are made of, as the tables of one snapshot have it."""

    unending: str = ""
    ending: frozenset[_Line] = frozenset()
    collections: str = ""

    @classmethod
    def read(cls, session: Session) -> Source:
        """Read the session's tenant: one query, and one more if a grant will end."""
        unending, n_ending, collections = session.execute(_STANDING).one()
        rows = session.execute(_ENDING) if n_ending else ()
        ending = frozenset((*row[:4], float(row[4] or 0.0)) for row in rows)
        return cls(unending or "", ending, collections or "")

    def beyond(self, other: Source) -> set[_Line]:
        """Give the grants that stand here and not in the other."""
        lines: set[_Line] = set(self.ending - other.ending)
        for text in _only_first(self.unending, other.unending):
            level, resource, principal, effect = text.split(" ")
            lines.add((level, int(resource), int(principal), effect, inf))
        return lines

    def collections_beyond(self, other: Source) -> dict[int, _Node]:
        """Give the collections that are here and not, or not so, in the other."""
        found = {}
        for text in _only_first(self.collections, other.collections):
            number, parent, cut = map(int, text.split(" "))
            found[number] = parent, bool(cut)
        return found


_EMPTY = Source()


@dataclass(frozen=True, slots=True)
class RuleTree:
    """The rules of every collection of a tenant, and what they were worked out from.

    `nodes` has the parent and the cut of each collection, `below` the collections in each,
    `own` the lines on each that has some, `rules` what counts there. `areas` are the
    collections under the same rules.
    """

    source: Source
    nodes: Nodes
    below: Below
    own: Mapping[int, Rules]
    rules: Mapping[int, Rules]
    areas: tuple[tuple[Rules, tuple[int, ...]], ...]

    @classmethod
    def bare(cls) -> RuleTree:
        """Give the tree of a tenant without grants and collections."""
        return cls(
            Source(), {_TENANT: (_ABOVE, False)}, {}, {}, {_ABOVE: _NONE, _TENANT: _NONE}, ()
        )

    def updated(self, source: Source) -> RuleTree:
        """Give the tree of another source; where only grants differ, what is below them is new.

        Raises: RightsUnavailable if the collections form a cycle.
        """
        if source == self.source:
            return self
        own, changed = self._own(source)
        gone, come = self.source.collections_beyond(source), source.collections_beyond(self.source)
        nodes, below, rules = dict(self.nodes), self.below, dict(self.rules)
        if any(number not in come or come[number][0] != parent
               for number, (parent, _) in gone.items()):  # fmt: skip
            # One was moved or deleted: what stands below what is an open question.
            nodes, below = _joined(
                {_TENANT: (_ABOVE, False)}, {}, source.collections_beyond(_EMPTY)
            )
            rules, changed = {_ABOVE: _NONE}, {_TENANT}
        elif come:
            nodes, below = _joined(nodes, below, come)
            changed |= come.keys()
        if len(changed) > _FEW:
            changed = {_TENANT}
        # Whoever comes after what stands above it is right; what comes before is done again.
        waiting = [each for each in changed if each in nodes]
        while waiting:
            node = waiting.pop()
            parent, cut = nodes[node]
            if parent in rules:
                rules[node] = rules[parent].below(own.get(node, _NONE), cut=cut)
                waiting += below.get(node, ())
        if len(rules) != len(nodes) + 1:
            raise RightsUnavailable("the collections of the tenant form a cycle")
        return RuleTree(source, nodes, below, own, rules, _areas(rules))

    def _own(self, source: Source) -> tuple[dict[int, Rules], set[int]]:
        """Give the lines on each node, and the nodes on which they changed."""
        copied: dict[int, tuple[dict[int, float], dict[int, float]]] = {}

        def lines(level: str, resource: int, effect: str) -> dict[int, float]:
            node = _TENANT if level == Level.TENANT else resource
            if node not in copied:
                old = self.own.get(node, _NONE)
                copied[node] = dict(old.allow), dict(old.deny)
            return copied[node][0 if effect == Effect.ALLOW else 1]

        for level, resource, principal, effect, _ in self.source.beyond(source):
            del lines(level, resource, effect)[principal]
        for level, resource, principal, effect, end_s in source.beyond(self.source):
            lines(level, resource, effect)[principal] = end_s
        own = {**self.own, **{node: Rules(*both) for node, both in copied.items()}}
        for node, (allow, deny) in copied.items():
            if not (allow or deny):
                del own[node]
        return own, set(copied)


def _joined(nodes: Nodes, below: Below, come: Nodes) -> tuple[dict[int, _Node], Below]:
    """Add collections that are new, or have another cut."""
    new: dict[int, list[int]] = {}
    for number, (parent, _) in come.items():
        if number not in nodes:
            new.setdefault(parent, []).append(number)
    longer = {each: (*below.get(each, ()), *numbers) for each, numbers in new.items()}
    return {**nodes, **come}, {**below, **longer}


def _only_first(text: str, other: str) -> set[str]:
    """Give the lines of a text that the other lacks."""
    if text == other:
        return set()
    return set(text.split(",")).difference(other.split(","), [""])


def _areas(rules: Mapping[int, Rules]) -> tuple[tuple[Rules, tuple[int, ...]], ...]:
    # A collection without lines of its own has the very object of the one above it.
    found: dict[int, tuple[Rules, list[int]]] = {}
    for number, held in rules.items():
        if number > _TENANT:
            found.setdefault(id(held), (held, []))[1].append(number)
    return tuple((held, tuple(numbers)) for held, numbers in found.values())


def _longest(inherited: Held, own: Held) -> Held:
    if not own:
        return inherited
    if not inherited:
        return own
    both = {**inherited, **own}
    for each in inherited.keys() & own.keys():
        both[each] = max(inherited[each], own[each])
    return both
