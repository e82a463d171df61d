"""What a set of classes has in an index, found once for every search of the same scope."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

from pyroaring import FrozenBitMap

from retrieval.layout import Reach
from retrieval.types import Ids

_SCOPES = 256  # scopes whose reach in an index is remembered


@dataclass(frozen=True, slots=True)
class ScopeReach:
    """What a set of classes has in an index, part by part. classes: int64, ascending, unique."""

    classes: Ids
    parts: tuple[Reach, ...]


@dataclass(slots=True)
class Reaches:
    """The reach of the last scopes. A set of classes never changes, so neither does its reach.

    Sets are known by identity: comparing two would cost as much as finding the reach.
    """

    held: OrderedDict[int, tuple[FrozenBitMap, ScopeReach]] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def get(self, classes: FrozenBitMap) -> ScopeReach | None:
        """Give the reach of this very set, if it is remembered."""
        with self.lock:
            found = self.held.get(id(classes))
            if found is None:
                return None
            self.held.move_to_end(id(classes))
            return found[1]

    def keep(self, classes: FrozenBitMap, reach: ScopeReach) -> None:
        """Remember the reach of a set."""
        with self.lock:
            self.held[id(classes)] = (classes, reach)
            if len(self.held) > _SCOPES:
                self.held.popitem(last=False)
