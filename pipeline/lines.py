"""What one index version is searched with: its encoder, and its indexes kept up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.follow import Follower
from retrieval.encode import Encoder
from retrieval.shelf import Shelf

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Line:
    """An encoder with the indexes of its vectors: a question's vector never meets others."""

    encoder: Encoder
    shelf: Shelf
    follower: Follower

    def close(self) -> None:
        """Stop following and merging."""
        self.follower.close()
        self.shelf.close()


class Lines:
    """The line in use, and the next one while it is being made ready.

    A switch of the version is noticed by the first request after it. Until the new encoder is
    loaded and its indexes are open, requests are answered from the old version, which is kept
    up as long as it exists; so nobody waits, and rights are as fresh in the one as in the other.

    Args: version: that of `first`, 0 if there is none yet. make: loads another version's line.
    """

    def __init__(self, first: Line, version: int, make: Callable[[int], Line]) -> None:
        self._lines = {version: first}
        # Replaced whole: who reads it takes no lock.
        self._in_use = version, first
        self._make = make
        self._lock = threading.Lock()
        self._coming: threading.Thread | None = None
        self._closed = False

    @property
    def current(self) -> Line:
        """The line in use."""
        return self._in_use[1]

    def at(self, version: int) -> Line:
        """Give the line of the live version, or the one in use until that is ready."""
        in_use, line = self._in_use
        if version == in_use:
            return line
        with self._lock:
            if 0 in self._lines:
                # The first documents made a version of the encoder that we have.
                self._lines[version] = self._lines.pop(0)
            if version in self._lines:
                self._in_use = version, self._lines[version]
            elif self._coming is None and not self._closed:
                self._coming = threading.Thread(
                    target=self._load, args=(version,), name="ostiary-version", daemon=True
                )
                self._coming.start()
        return self.current

    def settle(self) -> None:
        """Wait for a line that is being made ready."""
        coming = self._coming
        if coming is not None:
            coming.join()

    def close(self) -> None:
        """Close all lines."""
        with self._lock:
            self._closed = True
        self.settle()
        for line in self._lines.values():
            line.close()

    def _load(self, version: int) -> None:
        made: Line | None = None
        try:
            made = self._make(version)
        except Exception:
            # The old version answers; the next request tries again.
            _log.exception("index version %s can't be used now", version)
        with self._lock:
            self._coming = None
            if made is not None:
                self._lines[version] = made
                self._in_use = version, made
