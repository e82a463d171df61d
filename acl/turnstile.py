"""Whose turn it is to write an embedded database, among threads and processes.

SQLite lets a waiting writer look again after longer and longer sleeps, while a busy one takes
the lock again at once: a revocation once waited two seconds behind a bulk ingest. Here who
waits at the door goes next.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from acl.errors import StorageBusy, StorageFull

_LOOK_S = 0.001


@contextmanager
def turn(database: Path, timeout_s: float) -> Iterator[None]:
    """Wait for the turn to write, and keep it for as long as the block runs.

    Two locks make it fair: who waits for the room holds the door, and who has just left the
    room must come through the door again. A process that dies lets go of both.

    Raises: StorageBusy if the turn does not come in time; StorageFull if the locks can't be
    made beside the database.
    """
    end = time.monotonic() + timeout_s
    with ExitStack() as room, ExitStack() as door:
        door.enter_context(_held(Path(f"{database}-door"), end))
        room.enter_context(_held(Path(f"{database}-room"), end))
        door.close()
        yield


@contextmanager
def _held(path: Path, end: float) -> Iterator[None]:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as failure:
        raise StorageFull(f"the database can't be written ({failure.strerror})") from failure
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise StorageBusy("the database is busy with other writes; come back") from None
                time.sleep(_LOOK_S)
        yield
    finally:
        os.close(handle)
