"""The current index of each tenant, caught up with the database when it is asked for."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Protocol, TypeGuard

from retrieval.errors import IndexNotReady
from retrieval.tenant_index import TenantIndex
from retrieval.types import Changes
from retrieval.words import Lexicon


class Source(Protocol):
    """Where changes come from: the corpus in SQL."""

    def changes(self, tenant: str, since: int | None) -> Changes:
        """Give what happened after `since`; None for all the tenant has, as one change."""
        ...


@dataclass(frozen=True, slots=True)
class _Held:
    incarnation: str
    index: TenantIndex


class Shelf:
    """Holds one index a tenant. Who finds it new enough takes it without a lock.

    Args: width: columns of the encoder's vectors. merge_rows: see `TenantIndex.apply`.
    """

    def __init__(self, source: Source, lexicon: Lexicon, *, width: int, merge_rows: int) -> None:
        self._source = source
        self._lexicon = lexicon
        self._width = width
        self._merge_rows = merge_rows
        self._current: dict[str, _Held] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._locks_lock = threading.Lock()

    def at(self, tenant: str, sequence: int, incarnation: str) -> TenantIndex:
        """Give the tenant's index, at this content sequence or a later one.

        An index from another incarnation of the database, or from beyond what the database
        now knows, is a restored backup's future: it is thrown away and built anew.

        Raises: IndexNotReady if the source does not reach the sequence; IndexMismatch if the
            stored vectors are not the encoder's. The index held before then stays.
        """
        held = self._current.get(tenant)
        if _serves(held, sequence, incarnation):
            return held.index
        with self._lock(tenant):
            held = self._current.get(tenant)
            if _serves(held, sequence, incarnation):
                return held.index
            index = self._caught_up(tenant, held, incarnation)
            self._current[tenant] = _Held(incarnation, index)
        if index.sequence < sequence:
            raise IndexNotReady(
                f"tenant {tenant}: index is at content sequence {index.sequence}; needed {sequence}"
            )
        return index

    def drop(self, tenant: str) -> None:
        """Forget the tenant's index; searches under way keep theirs."""
        with self._lock(tenant):
            self._current.pop(tenant, None)

    def held(self) -> dict[str, int]:
        """Say how many bytes each tenant's index holds."""
        return {tenant: held.index.nbytes for tenant, held in dict(self._current).items()}

    def _caught_up(self, tenant: str, held: _Held | None, incarnation: str) -> TenantIndex:
        if held is not None and held.incarnation == incarnation:
            changes = self._source.changes(tenant, held.index.sequence)
            if changes.sequence >= held.index.sequence:
                return held.index.apply(changes, self._lexicon, self._merge_rows)
        everything = self._source.changes(tenant, None)
        return TenantIndex.empty(self._width).apply(everything, self._lexicon, self._merge_rows)

    def _lock(self, tenant: str) -> threading.Lock:
        with self._locks_lock:
            return self._locks[tenant]


def _serves(held: _Held | None, sequence: int, incarnation: str) -> TypeGuard[_Held]:
    if held is None or held.incarnation != incarnation:
        return False
    return held.index.sequence >= sequence
