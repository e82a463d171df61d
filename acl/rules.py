"""Who is allowed and who is denied at each collection, inheritance included, and until when.

Nothing here rests on the present moment: a line keeps its end, and whoever reads the rules
says what time it is. So the end of a grant makes nothing stale.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from acl.errors import RightsUnavailable
from acl.tables import CollectionRow, GrantRow
from acl.types import Action, Effect, Level

# Stands for the tenant among the row ids of collections, which count from 1.
_TOP = 0
# Levels are named one by one, so that the index on them skips documents' own grants.
_GRANTS = (
    select(
        GrantRow.level, GrantRow.resource_id, GrantRow.principal_id, GrantRow.effect,
        GrantRow.expires_s,
    )
    .where(
        GrantRow.level.in_([Level.TENANT.value, Level.COLLECTION.value]),
        GrantRow.action == Action.READ.value,
    )
    .order_by(GrantRow.id)
)  # fmt: skip
_COLLECTIONS = select(CollectionRow.id, CollectionRow.parent_id, CollectionRow.cut).order_by(
    CollectionRow.id
)
# Until when (Unix seconds, inf for no end) each principal holds something.
Held = Mapping[int, float]
_NOBODY: Held = {}


@dataclass(frozen=True, slots=True)
class Rules:
    """Who is allowed and who is denied at one node."""

    allow: Held
    deny: Held

    def below(self, allow: Held, deny: Held, *, cut: bool) -> Rules:
        """Give the rules one node further down: denies stay, a cut drops inherited allows.

        allow, deny: what stands on that node itself.
        """
        if not (allow or deny or (cut and self.allow)):
            return self
        return Rules(allow if cut else _longest(self.allow, allow), _longest(self.deny, deny))


@dataclass(frozen=True, slots=True)
class Tree:
    """The collections and the read grants above the documents, as their rows say."""

    grants: Sequence[Row[str, int, int, str, float | None]]
    collections: Sequence[Row[int, int | None, bool]]

    @classmethod
    def read(cls, session: Session) -> Tree:
        """Read the session's tenant: two queries, over hundreds or thousands of small rows."""
        return cls(session.execute(_GRANTS).all(), session.execute(_COLLECTIONS).all())

    def areas(self) -> tuple[tuple[Rules, tuple[int, ...]], ...]:
        """Give the rules of every collection; collections under the same rules stand together.

        Raises: RightsUnavailable if the collections form a cycle.
        """
        allow: defaultdict[int, dict[int, float]] = defaultdict(dict)
        deny: defaultdict[int, dict[int, float]] = defaultdict(dict)
        allows, tenant = Effect.ALLOW.value, Level.TENANT.value
        for level, resource, principal, effect, end_s in self.grants:
            node = _TOP if level == tenant else resource
            held = allow[node] if effect == allows else deny[node]
            held[principal] = inf if end_s is None else end_s
        rules = {_TOP: Rules(allow.get(_TOP, _NOBODY), deny.get(_TOP, _NOBODY))}
        nodes = {number: (parent or _TOP, cut) for number, parent, cut in self.collections}
        for start in nodes:
            # Walk up to the nearest node that is done, then come down; any depth, no recursion.
            path: dict[int, None] = {}
            node = start
            while node not in rules:
                if node in path:
                    raise RightsUnavailable("the collections of the tenant form a cycle")
                path[node] = None
                node = nodes[node][0]
            above = rules[node]
            for each in reversed(path):
                own = allow.get(each, _NOBODY), deny.get(each, _NOBODY)
                above = rules[each] = above.below(*own, cut=nodes[each][1])
        del rules[_TOP]
        # A node without lines of its own has the very object of the node above it.
        grouped: dict[int, tuple[Rules, list[int]]] = {}
        for number, each_rules in rules.items():
            grouped.setdefault(id(each_rules), (each_rules, []))[1].append(number)
        return tuple((held, tuple(numbers)) for held, numbers in grouped.values())


def _longest(inherited: Held, own: Held) -> Held:
    if not own:
        return inherited
    if not inherited:
        return own
    both = {**inherited, **own}
    for each in inherited.keys() & own.keys():
        both[each] = max(inherited[each], own[each])
    return both
