"""Bytes before allocation (law 8): what is planned is held here before it is taken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

from pipeline.errors import LedgerFull


class Ledger:
    """Who holds how many bytes of which device. Safe for use by several threads.

    Args: capacity: bytes that may be held, by device ("cpu", "gpu:0"); a device that is not
        named has none.
    """

    def __init__(self, capacity: Mapping[str, int]) -> None:
        self._capacity = dict(capacity)
        self._held: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._lock = Lock()

    @contextmanager
    def hold(self, device: str, owner: str, nbytes: int) -> Iterator[None]:
        """Hold bytes for as long as the block runs.

        Raises: LedgerFull, with numbers, if they do not fit; then nothing is held.
        """
        with self._lock:
            capacity = self._capacity.get(device, 0)
            free = capacity - sum(self._held[device].values())
            if nbytes > free:
                raise LedgerFull(
                    f"{owner} needs {nbytes} bytes on {device}; {free} of {capacity} are free"
                )
            self._held[device][owner] += nbytes
        try:
            yield
        finally:
            with self._lock:
                self._held[device][owner] -= nbytes

    def held(self) -> dict[str, dict[str, int]]:
        """Say who holds how many bytes, by device and owner."""
        with self._lock:
            return {
                device: {owner: nbytes for owner, nbytes in owners.items() if nbytes}
                for device, owners in self._held.items()
            }
