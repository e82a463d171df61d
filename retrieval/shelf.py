"""The current index of each tenant, caught up with the database when it is asked for."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

from retrieval.errors import IndexNotReady
from retrieval.in_use import InUse, serves
from retrieval.index import DensePart
from retrieval.room import Accounts, Room, Unbounded
from retrieval.snapshot import SnapshotFolder
from retrieval.tenant_index import TenantIndex, merged
from retrieval.types import Changes
from retrieval.warmth import Warmth
from retrieval.words import Lexicon

_log = logging.getLogger(__name__)


class Source(Protocol):
    """Where changes come from: the corpus in SQL."""

    def changes(self, tenant: str, since: int | None) -> Changes:
        """Give what happened after `since`; None for all the tenant has, as one change."""
        ...


class Shelf:
    """Holds one index a tenant. Who finds it new enough takes it without a lock.

    Parts are merged and snapshots written by one thread beside the searches; among processes
    that share the folder, by the one that gets the tenant's lease: the others take over what
    it wrote. Closing waits for it.

    Args: width: columns of the encoder's vectors. merge_rows: see `TenantIndex.apply`.
        folder: where snapshots lie; None keeps all in memory, rebuilt at each start.
        place: puts a big part on a device as well, or gives it back as it is. room: where
        bytes are held before they are taken. measure: says how many passages and letters a
        tenant has, for a whole build; without it that is not held before it is read.
    """

    def __init__(
        self,
        source: Source,
        lexicon: Lexicon,
        *,
        width: int,
        merge_rows: int,
        folder: SnapshotFolder | None = None,
        place: Callable[[DensePart], DensePart] | None = None,
        room: Room | None = None,
        measure: Callable[[str], tuple[int, int]] | None = None,
        warmth: Warmth | None = None,
    ) -> None:
        self._source = source
        self._lexicon = lexicon
        self._width = width
        self._merge_rows = merge_rows
        self._folder = folder
        self._place = place
        self._accounts = Accounts(room or Unbounded(), width)
        self._measure = measure or (lambda _: (0, 0))
        self._warmth = warmth or Warmth()
        self._current: dict[str, InUse] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._locks_lock = threading.Lock()
        self._merger = ThreadPoolExecutor(1, thread_name_prefix="index-merger")
        self._merging: dict[str, Future[None]] = {}

    def at(
        self, tenant: str, sequence: int, incarnation: str, *, asked: bool = True
    ) -> TenantIndex:
        """Give the tenant's index, at this content sequence or a later one.

        Args: asked: for a question; what is only kept up can be cooled.

        An index from another incarnation of the database, or from beyond what the database
        now knows, is a restored backup's future: it is thrown away and built anew.

        Raises: IndexNotReady if the source does not reach the sequence; IndexMismatch if the
            stored vectors are not the encoder's; what the room raises if there is none. The
            index held before then stays, for the searches that have it.
        """
        if asked:
            self._warmth.use(tenant)
        held = self._current.get(tenant)
        if serves(held, sequence, incarnation):
            return held.index
        with self._lock(tenant):
            held = self._current.get(tenant)
            if serves(held, sequence, incarnation):
                return held.index
            held = self._caught_up(tenant, held, incarnation)
            self._current[tenant] = held
            self._tend(tenant, held)
        if held.index.sequence < sequence:
            raise IndexNotReady(
                f"tenant {tenant}: index is at content sequence {held.index.sequence}; "
                f"needed {sequence}"
            )
        return held.index

    def drop(self, tenant: str) -> None:
        """Forget the tenant's index; searches under way keep theirs."""
        with self._lock(tenant):
            self._current.pop(tenant, None)
            if self._folder is not None:
                self._folder.drop(tenant)

    def cool(self, tenant: str) -> bool:
        """Let go of one index for the sake of this tenant's; gives whether there was one.

        Only of one in files that nobody asked for lately: it is opened again when it is asked
        for. Waits for nobody, and searches under way keep theirs.
        """
        for other in self._warmth.cold(set(self._current) - {tenant}):
            busy, lock = self._merging.get(other), self._lock(other)
            if (busy is None or busy.done()) and lock.acquire(blocking=False):
                try:
                    held = self._current.get(other)
                    if held is not None and held.saved:
                        del self._current[other], held
                        _log.info("the index of tenant %s is in its files alone now", other)
                        return True
                finally:
                    lock.release()
        return False

    def held(self) -> dict[str, int]:
        """Say how many bytes each tenant's index holds."""
        return {tenant: held.index.nbytes for tenant, held in dict(self._current).items()}

    def settle(self) -> None:
        """Wait until nothing is being merged or written."""
        while merging := [each for each in self._merging.values() if not each.done()]:
            merging[0].result()

    def close(self) -> None:
        """Wait for the merger and stop it."""
        self._merger.shutdown(wait=True)

    def _caught_up(self, tenant: str, held: InUse | None, incarnation: str) -> InUse:
        if held is None or held.incarnation != incarnation:
            held = self._opened(tenant, incarnation)
        if held is not None:
            changes = self._source.changes(tenant, held.index.sequence)
            if changes.sequence >= held.index.sequence:
                rows = changes.rows
                n_letters = sum(map(len, rows.texts))
                with self._accounts.building(tenant, len(rows.ids), n_letters):
                    index = held.index.apply(changes, self._lexicon, self._merge_rows)
                    self._accounts.write(tenant, index.parts)
                n_new = held.n_new + len(rows.ids) + len(changes.documents)
                return replace(held, index=index, n_new=n_new)
        return self._built(tenant, incarnation)

    def _built(self, tenant: str, incarnation: str) -> InUse:
        with self._accounts.building(tenant, *self._measure(tenant)):
            everything = self._source.changes(tenant, None)
            empty = TenantIndex.empty(self._width)
            index = empty.apply(everything, self._lexicon, self._merge_rows)
            self._accounts.write(tenant, index.parts)
        del everything
        if index.n_rows > self._merge_rows:
            self._accounts.tidy()
        return InUse(incarnation, index, n_new=index.n_rows)

    def _opened(self, tenant: str, incarnation: str) -> InUse | None:
        if self._folder is None:
            return None
        needed = self._folder.opened_nbytes(tenant, incarnation)
        with self._accounts.opening(tenant, needed):
            index = self._folder.open(tenant, incarnation)
            if index is None:
                return None
            self._accounts.write(tenant, index.parts)
        return InUse(incarnation, index, saved=index.sequence)

    def _tend(self, tenant: str, held: InUse) -> None:
        """Have the merger look at the tenant if there is something to do. Under its lock."""
        busy = self._merging.get(tenant)
        if busy is not None and not busy.done():
            return
        # A part is looked at again after each change: only the placing knows which are big.
        unplaced = any(part.dense.device is None for part in held.index.parts)
        if self._has_work(held) or (self._place is not None and unplaced):
            self._merging[tenant] = self._merger.submit(self._merge, tenant)

    def _has_work(self, held: InUse) -> bool:
        return self._wants_saving(held) or bool(held.index.due(self._merge_rows))

    def _wants_saving(self, held: InUse) -> bool:
        return self._folder is not None and held.n_new > self._merge_rows

    def _merge(self, tenant: str) -> None:
        held = self._current.get(tenant)
        worked = held is not None and self._has_work(held)
        del held
        self._merge_all(tenant)
        self._put_on_device(tenant)
        if worked:
            self._accounts.tidy()

    def _put_on_device(self, tenant: str) -> None:
        held = self._current.get(tenant)
        if self._place is None or held is None:
            return
        try:
            parts = held.index.parts
            placed = [replace(part, dense=self._place(part.dense)) for part in parts]
        # The processor finds the same, more slowly.
        except Exception:
            _log.exception("the index of tenant %s could not be put on the device", tenant)
            return
        with self._lock(tenant):
            now = self._current.get(tenant)
            if now is not None and now.incarnation == held.incarnation:
                index = now.index.remapped(parts, placed)
                self._current[tenant] = replace(now, index=index)

    def _merge_all(self, tenant: str) -> None:
        try:
            while (held := self._current.get(tenant)) is not None and self._has_work(held):
                if self._folder is None:
                    self._merge_here(tenant)
                    continue
                with self._folder.lease(tenant) as ours:
                    if not ours:
                        return
                    if not self._taken_over(tenant):
                        self._merge_here(tenant)
                        self._save(tenant)
        # The index in use stays, and is merged with the next change.
        except Exception:
            _log.exception("the index of tenant %s could not be merged or saved", tenant)

    def _merge_here(self, tenant: str) -> None:
        held = self._current.get(tenant)
        while held is not None and (old := held.index.due(self._merge_rows)):
            with self._accounts.merging(tenant, old):
                new = merged(old)
                self._accounts.write(tenant, (new,))
            with self._lock(tenant):
                now = self._current.get(tenant)
                if now is None or now.incarnation != held.incarnation:
                    return
                held = replace(now, index=now.index.exchanged(old, new))
                self._current[tenant] = held

    def _taken_over(self, tenant: str) -> bool:
        """Take what another process merged and saved since we last read or wrote there."""
        held = self._current.get(tenant)
        if self._folder is None or held is None:
            return True
        sequence = self._folder.sequence(tenant, held.incarnation)
        # One from beyond what the database knows is of a life before a restored backup.
        if sequence is None or not held.saved < sequence <= held.index.sequence:
            return False
        opened = self._opened(tenant, held.incarnation)
        if opened is None:
            return False
        with self._lock(tenant):
            now = self._current.get(tenant)
            if now is not None and now.incarnation == opened.incarnation:
                self._current[tenant] = self._caught_up(tenant, opened, opened.incarnation)
        return True

    def _save(self, tenant: str) -> None:
        held = self._current.get(tenant)
        if self._folder is None or held is None or not self._wants_saving(held):
            return
        index = held.index
        written = self._folder.save(tenant, held.incarnation, index)
        self._accounts.write(tenant, written.parts)
        with self._lock(tenant):
            now = self._current.get(tenant)
            if now is not None and now.incarnation == held.incarnation:
                self._current[tenant] = replace(
                    now,
                    index=now.index.remapped(index.parts, written.parts),
                    saved=index.sequence,
                    n_new=now.n_new - held.n_new,
                )

    def _lock(self, tenant: str) -> threading.Lock:
        with self._locks_lock:
            return self._locks[tenant]
