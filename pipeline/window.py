"""What somebody on this machine may look at in a running process: a socket of its owner's.

It lies in the home folder, which only its owner may enter, so no network reaches it and no
key opens it: whoever may look could as well read the process's memory.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_log = logging.getLogger(__name__)

_WAIT_S = 10.0
_POLL_S = 0.25
_CHUNK_NBYTES = 1 << 16


@contextmanager
def window(home: Path, show: Callable[[], bytes]) -> Iterator[None]:
    """Show something to whoever on this machine owns the home, while the block runs.

    Where no socket can be made, nothing is shown and the block runs all the same.
    """
    folder = home / "run"
    path = folder / f"{os.getpid()}.sock"
    stop = threading.Event()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        listening = _bound(path)
    except OSError as failure:
        _log.warning("ostiary memory can't look in: %s", failure.strerror)
        yield
        return
    thread = threading.Thread(
        target=_serve, args=(listening, show, stop), name="ostiary-window", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        listening.close()
        path.unlink(missing_ok=True)


def look(home: Path) -> dict[int, bytes]:
    """Give what each running process of a home shows, by process id.

    What a killed process left behind is removed.
    """
    found: dict[int, bytes] = {}
    for path in sorted((home / "run").glob("*.sock")):
        try:
            found[int(path.stem)] = _read(path)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except (OSError, ValueError) as failure:
            _log.warning("%s does not answer: %s", path.name, failure)
    return found


def _serve(listening: socket.socket, show: Callable[[], bytes], stop: threading.Event) -> None:
    listening.settimeout(_POLL_S)
    while not stop.is_set():
        try:
            visitor, _ = listening.accept()
        except TimeoutError:
            continue
        # A visitor who goes away, or a figure that can't be had, must not end the window.
        try:
            with visitor:
                visitor.settimeout(_WAIT_S)
                visitor.sendall(show())
        except Exception:
            _log.warning("a look at this process failed", exc_info=True)


def _bound(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        with _short(path) as name:
            listening.bind(name)
        listening.listen(4)
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(mask)
    return listening


def _read(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(_WAIT_S)
        with _short(path) as name:
            asked.connect(name)
        pieces = []
        while piece := asked.recv(_CHUNK_NBYTES):
            pieces.append(piece)
        return b"".join(pieces)


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """Give a name of at most 107 bytes for a socket, which is all that an address holds."""
    name = str(path)
    if len(name.encode()) < 108:
        yield name
        return
    handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{path.name}"
    finally:
        with suppress(OSError):
            os.close(handle)
