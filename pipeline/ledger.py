"""Bytes before allocation (law 8): what is planned is held here before it is taken."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from threading import Lock
from types import TracebackType

from pipeline.errors import LedgerFull

RAM = "ram"
"""The device of memory that is the process's own, and can't be had back from a file."""
MAPPED = "mapped"
"""The device of what lies in files and is mapped: the system takes it back when it must."""


class Holding:
    """Bytes that are held until they are released: at the end of a `with`, or once by name."""

    def __init__(self, gone: deque[tuple[str, str, int]], device: str, owner: str, n: int) -> None:
        self._gone = gone
        self._held = [(device, owner, n)]

    def release(self) -> None:
        """Give the bytes back; again does nothing. Takes no lock, so a finalizer may call it."""
        try:
            self._gone.append(self._held.pop())
        except IndexError:
            return

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Ledger:
    """Who holds how many bytes of which device. Safe for use by several threads.

    An owner is a path, the kind first: "encoder/NAME", "index/TENANT/dense".

    Args: capacity: bytes that may be held, by device ("ram", "gpu:0"); a device that is not
        named has none.
    """

    def __init__(self, capacity: Mapping[str, int]) -> None:
        self._capacity = dict(capacity)
        self._held: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        # Released bytes wait here: a finalizer may run inside any of our own blocks.
        self._gone: deque[tuple[str, str, int]] = deque()
        self._lock = Lock()

    def hold(self, device: str, owner: str, nbytes: int) -> Holding:
        """Hold bytes that are about to be taken, from now on.

        Raises: LedgerFull, with numbers, if they do not fit; then nothing is held.
        """
        with self._lock:
            self._settle()
            free = self._free(device)
            if nbytes > free:
                raise LedgerFull(
                    f"{owner} needs {nbytes} bytes on {device}; {free} of "
                    f"{self._capacity.get(device, 0)} are free"
                )
            return self._write(device, owner, nbytes)

    def note(self, device: str, owner: str, nbytes: int) -> Holding:
        """Write down bytes that are there already: refusing them would not make them go."""
        with self._lock:
            self._settle()
            return self._write(device, owner, nbytes)

    def held(self) -> dict[str, dict[str, int]]:
        """Say who holds how many bytes, by device and owner."""
        with self._lock:
            self._settle()
            return {
                device: {owner: nbytes for owner, nbytes in owners.items() if nbytes}
                for device, owners in self._held.items()
            }

    def capacity(self, device: str) -> int:
        """Say how many bytes of a device may be held."""
        return self._capacity.get(device, 0)

    def free(self, device: str) -> int:
        """Say how many bytes may still be held; below 0 if more is there than was planned."""
        with self._lock:
            self._settle()
            return self._free(device)

    def _free(self, device: str) -> int:
        return self._capacity.get(device, 0) - sum(self._held[device].values())

    def _write(self, device: str, owner: str, nbytes: int) -> Holding:
        self._held[device][owner] += nbytes
        return Holding(self._gone, device, owner, nbytes)

    def _settle(self) -> None:
        while self._gone:
            device, owner, nbytes = self._gone.popleft()
            self._held[device][owner] -= nbytes
            if not self._held[device][owner]:
                del self._held[device][owner]
