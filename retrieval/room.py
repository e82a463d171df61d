"""Where the index asks for memory before it takes it; the ledger is behind this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Protocol
from weakref import WeakSet, finalize

from retrieval.layout import Layout
from retrieval.part import Part
from retrieval.sizes import building_nbytes, merging_nbytes


class Room(Protocol):
    """Bytes of this process's memory. Owners are paths: "index/TENANT/dense"."""

    def hold(self, owner: str, nbytes: int) -> AbstractContextManager[None]:
        """Hold bytes while a block runs; raises, with numbers, if they do not fit."""
        ...

    def note(self, owner: str, nbytes: int, mapped_nbytes: int = 0) -> Callable[[], None]:
        """Write down what is there; gives what takes it back, once, from any thread."""
        ...

    def tidy(self) -> None:
        """Return what was freed to the system."""
        ...


class Unbounded:
    """Room without a bound, for tools and tests that hold no ledger."""

    def hold(self, owner: str, nbytes: int) -> AbstractContextManager[None]:
        """Let everything pass."""
        return nullcontext()

    def note(self, owner: str, nbytes: int, mapped_nbytes: int = 0) -> Callable[[], None]:
        """Write nothing down."""
        return lambda: None

    def tidy(self) -> None:
        """Leave memory as it is."""


class Accounts:
    """Keeps the room told of what a shelf's indexes take: before it is taken, while it lives."""

    def __init__(self, room: Room, width: int) -> None:
        self._room = room
        self._width = width
        self._known: WeakSet[Layout] = WeakSet()
        self._lock = Lock()

    def building(self, tenant: str, n_rows: int, n_letters: int) -> AbstractContextManager[None]:
        """Hold what a part of so many passages takes while it is read and built."""
        nbytes = building_nbytes(n_rows, self._width, n_letters) if n_rows else 0
        return self._room.hold(f"index/{tenant}/building", nbytes)

    def merging(self, tenant: str, parts: Sequence[Part]) -> AbstractContextManager[None]:
        """Hold what a merge of parts takes."""
        return self._room.hold(f"index/{tenant}/merging", merging_nbytes(parts))

    def opening(self, tenant: str, nbytes: int) -> AbstractContextManager[None]:
        """Hold what of a snapshot does not stay in its files."""
        return self._room.hold(f"index/{tenant}/opening", nbytes)

    def write(self, tenant: str, parts: Sequence[Part]) -> None:
        """Write down parts that are not yet, until the last search lets go of each."""
        for part in parts:
            with self._lock:
                if part.layout in self._known:
                    continue
                self._known.add(part.layout)
            mapped = part.mapped_nbytes
            for leg, nbytes in part.own_nbytes.items():
                release = self._room.note(f"index/{tenant}/{leg}", nbytes, mapped[leg])
                finalize(part.layout, release).atexit = False

    def tidy(self) -> None:
        """Return what was freed to the system."""
        self._room.tidy()
