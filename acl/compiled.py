"""The compiled read path: which classes each principal may, and must not, read, as bitmaps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from pyroaring import BitMap, FrozenBitMap
from sqlalchemy import select
from sqlalchemy.orm import Session

from acl.errors import RightsUnavailable
from acl.groups import closure, everyone_id, parents
from acl.tables import AccessClassRow, CollectionRow, GrantRow, PrincipalRow
from acl.types import Action, Effect, Level

# (principal, effect, expires_s), as an access class stores its own grants
Line = tuple[int, str, float | None]


@dataclass(frozen=True, slots=True)
class Rules:
    """Who is allowed and who is denied at one node, inheritance included."""

    allow: frozenset[int]
    deny: frozenset[int]

    def below(self, own: Iterable[Line], cut: bool, now_s: float) -> Rules:
        """Give the rules one node further down: denies stay, a cut drops inherited allows."""
        lines = [line for line in own if line[2] is None or line[2] > now_s]
        allow = frozenset(p for p, effect, _ in lines if effect == Effect.ALLOW)
        deny = frozenset(p for p, effect, _ in lines if effect == Effect.DENY)
        return Rules(allow if cut else self.allow | allow, self.deny | deny)


@dataclass(slots=True)
class CompiledRights:
    """A tenant's read rights at one rights epoch, for the classes up to `horizon`."""

    known: frozenset[int]
    contained_in: Mapping[int, list[int]]
    everyone: int
    at_collection: Mapping[int, Rules]
    valid_until_s: float
    horizon: int
    allow: defaultdict[int, BitMap]
    deny: defaultdict[int, BitMap]

    def readable(self, principal: int) -> FrozenBitMap:
        """Unite what the principal and its groups are allowed, less what any is denied."""
        allowed, denied = BitMap(), BitMap()
        for member in closure(principal, self.contained_in, self.everyone):
            if member in self.allow:
                allowed |= self.allow[member]
            if member in self.deny:
                denied |= self.deny[member]
        return FrozenBitMap(allowed - denied)

    def extend(self, session: Session, horizon: int, now_s: float) -> None:
        """Take in the classes that were made since; rights on older ones can't have changed."""
        new = session.execute(
            select(
                AccessClassRow.id, AccessClassRow.collection_id, AccessClassRow.cut,
                AccessClassRow.own,
            ).where(AccessClassRow.id > self.horizon, AccessClassRow.id <= horizon)
        )  # fmt: skip
        allow: defaultdict[int, list[int]] = defaultdict(list)
        deny: defaultdict[int, list[int]] = defaultdict(list)
        for number, collection, cut, own in new:
            rules = self.at_collection[collection].below(own, cut, now_s)
            self.valid_until_s = min(self.valid_until_s, _first_expiry(own, now_s))
            for principal in rules.allow:
                allow[principal].append(number)
            for principal in rules.deny:
                deny[principal].append(number)
        for principal, numbers in allow.items():
            self.allow[principal] |= BitMap(numbers)
        for principal, numbers in deny.items():
            self.deny[principal] |= BitMap(numbers)
        self.horizon = horizon


def compile_rights(session: Session, horizon: int, now_s: float) -> CompiledRights:
    """Compile the session's tenant from its tables, in the session's snapshot."""
    lines: defaultdict[tuple[str, int], list[Line]] = defaultdict(list)
    grants = session.execute(
        select(
            GrantRow.level, GrantRow.resource_id, GrantRow.principal_id, GrantRow.effect,
            GrantRow.expires_s,
        ).where(GrantRow.action == Action.READ.value, GrantRow.level != Level.DOCUMENT.value)
    )  # fmt: skip
    for level, resource, principal, effect, expires_s in grants:
        lines[level, resource].append((principal, effect, expires_s))
    compiled = CompiledRights(
        known=frozenset(session.scalars(select(PrincipalRow.id))),
        contained_in=parents(session),
        everyone=everyone_id(session),
        at_collection=_collections(session, lines, now_s),
        valid_until_s=min(
            (_first_expiry(each, now_s) for each in lines.values()), default=inf
        ),
        horizon=0,
        allow=defaultdict(BitMap),
        deny=defaultdict(BitMap),
    )  # fmt: skip
    compiled.extend(session, horizon, now_s)
    return compiled


def _collections(
    session: Session, lines: Mapping[tuple[str, int], list[Line]], now_s: float
) -> dict[int, Rules]:
    nothing = Rules(frozenset(), frozenset())
    top = nothing.below(lines.get((Level.TENANT.value, 0), ()), cut=False, now_s=now_s)
    rows = session.execute(select(CollectionRow.id, CollectionRow.parent_id, CollectionRow.cut))
    nodes = {number: (parent, cut) for number, parent, cut in rows}
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
            above = above.below(own, nodes[each][1], now_s)
            rules[each] = above
    return rules


def _first_expiry(lines: Iterable[Line], now_s: float) -> float:
    return min((end for _, _, end in lines if end is not None and end > now_s), default=inf)
