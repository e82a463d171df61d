"""The compiled read path: which classes a principal may read, out of bitmaps.

What is compiled is never changed in place and does not rest on the present moment. Bringing
it up to date reads the few small rows that rules are made of anew, and of the access classes,
of which there may be 100,000, only those that are new. So no change can be missed, and the
result is what compiling from nothing gives.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from math import inf

from pyroaring import FrozenBitMap
from sqlalchemy.orm import Session

from acl.class_sets import ClassSets
from acl.rules import RuleTree, Source


@dataclass(frozen=True, slots=True)
class Readable:
    """The classes somebody may read, and until when (Unix seconds, inf for no end) at least."""

    classes: FrozenBitMap
    until_s: float


@dataclass(frozen=True, slots=True)
class CompiledRights:
    """A tenant's read rights in one snapshot, for the classes up to a horizon or beyond."""

    tree: RuleTree
    sets: ClassSets

    @classmethod
    def compiled(cls, session: Session, horizon: int) -> CompiledRights:
        """Compile the session's tenant from its tables, in the session's snapshot."""
        return cls.nothing().brought_up(session, horizon)

    @classmethod
    def nothing(cls) -> CompiledRights:
        """Give the rights of a tenant in which nothing is."""
        return cls(RuleTree.bare(), ClassSets.none())

    def brought_up(self, session: Session, horizon: int) -> CompiledRights:
        """Give the rights as the session's snapshot has them.

        Raises: RightsUnavailable if what is stored can't be evaluated.
        """
        tree = self.tree.updated(Source.read(session))
        return CompiledRights(tree, self.sets.up_to(session, horizon))

    def extended(self, session: Session, horizon: int) -> CompiledRights:
        """Give the rights with the classes that were made since, where no rule has changed."""
        return CompiledRights(self.tree, self.sets.up_to(session, horizon))

    def readable(self, members: Set[int], now_s: float, horizon: int) -> Readable:
        """Unite what a principal and its groups are allowed, less what any is denied.

        `members` is what `acl.groups.around` gives; classes above `horizon` are left out.
        """
        allowed, denied, ends = [FrozenBitMap()], [FrozenBitMap()], [inf]
        for rules, collections in self.tree.areas:
            for held, sets, found in (
                (rules.allow, self.sets.inheriting, allowed),
                (rules.deny, self.sets.inside, denied),
            ):
                live = [held[each] for each in held.keys() & members if held[each] > now_s]
                if live:
                    ends += live
                    found += [sets[each] for each in collections if each in sets]
        for member in members & self.sets.own.keys():
            for (allows, end_s), classes in self.sets.own[member].items():
                if end_s > now_s:
                    ends.append(end_s)
                    (allowed if allows else denied).append(classes)
        classes = FrozenBitMap.union(*allowed) - FrozenBitMap.union(*denied)
        if self.sets.horizon > horizon:
            # A snapshot of the past must not see the classes of its future.
            classes &= FrozenBitMap(range(horizon + 1))
        return Readable(classes, min(ends))
