"""Who is allowed and who is denied at each collection, inheritance included, and until when.

Nothing here rests on the present moment: a line keeps its end, and whoever reads the rules
says what time it is. So the end of a grant makes nothing stale.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from math import inf

from sqlalchemy import select
from sqlalchemy.orm import Session

from acl.errors import RightsUnavailable
from acl.tables import CollectionRow, GrantRow
from acl.types import Action, Effect, Level

# (principal, effect, end in Unix seconds, inf for none)
Line = tuple[int, str, float]
# (level, row id of the resource, 0 for the tenant)
_Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Rules:
    """For each principal with a rule at one node: the last moment (Unix seconds) it holds."""

    allow: Mapping[int, float]
    deny: Mapping[int, float]

    def below(self, own: Iterable[Line], *, cut: bool) -> Rules:
        """Give the rules one node further down: denies stay, a cut drops inherited allows."""
        own = tuple(own)
        if not own and not (cut and self.allow):
            return self
        allow = {} if cut else dict(self.allow)
        deny = dict(self.deny)
        for principal, effect, end_s in own:
            held = allow if effect == Effect.ALLOW else deny
            held[principal] = max(end_s, held.get(principal, end_s))
        return Rules(allow, deny)


def live_ends(held: Mapping[int, float], members: Set[int], now_s: float) -> list[float]:
    """Give the ends of what is held by these members and is not over; none if nothing is."""
    return [held[each] for each in members & held.keys() if held[each] > now_s]


@dataclass(frozen=True, slots=True)
class Tree:
    """The collections and the read grants above the documents, as their rows say."""

    grants: tuple[tuple[str, int, int, str, float | None], ...]
    collections: tuple[tuple[int, int | None, bool], ...]

    @classmethod
    def read(cls, session: Session) -> Tree:
        """Read the session's tenant: two queries, over hundreds or thousands of small rows."""
        # Levels are named one by one, so that the index on them skips documents' own grants.
        grants = session.execute(
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
        collections = session.execute(
            select(CollectionRow.id, CollectionRow.parent_id, CollectionRow.cut).order_by(
                CollectionRow.id
            )
        )
        return cls(tuple(grants.tuples()), tuple(collections.tuples()))

    def areas(self) -> tuple[tuple[Rules, tuple[int, ...]], ...]:
        """Give the rules of every collection; collections under the same rules stand together.

        Raises: RightsUnavailable if the collections form a cycle.
        """
        lines: defaultdict[_Place, list[Line]] = defaultdict(list)
        for level, resource, principal, effect, end_s in self.grants:
            lines[level, resource].append((principal, effect, inf if end_s is None else end_s))
        top = Rules({}, {}).below(lines.get((Level.TENANT.value, 0), ()), cut=False)
        nodes = {number: (parent, cut) for number, parent, cut in self.collections}
        rules: dict[int, Rules] = {}
        for start in nodes:
            # Walk up to the nearest node that is done, then come down; any depth, no recursion.
            path: dict[int, None] = {}
            node: int | None = start
            while node is not None and node not in rules:
                if node in path:
                    raise RightsUnavailable("the collections of the tenant form a cycle")
                path[node] = None
                node = nodes[node][0]
            above = top if node is None else rules[node]
            for each in reversed(path):
                own = lines.get((Level.COLLECTION.value, each), ())
                above = rules[each] = above.below(own, cut=nodes[each][1])
        # A node without lines of its own has the very object of the node above it.
        grouped: dict[int, tuple[Rules, list[int]]] = {}
        for number, each_rules in rules.items():
            grouped.setdefault(id(each_rules), (each_rules, []))[1].append(number)
        return tuple((held, tuple(numbers)) for held, numbers in grouped.values())
