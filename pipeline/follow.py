"""Keeps open indexes close behind the database, so that requests find them caught up."""

from __future__ import annotations

import logging
import threading

from acl.session import Database, counters
from retrieval.shelf import Shelf

# How far behind an addition made by another process may be, at most, when nobody asks. A
# request that comes sooner catches up itself.
FOLLOW_EVERY_S = 0.5

_log = logging.getLogger(__name__)


class Follower:
    """A thread that looks at the counters of every tenant whose index is open."""

    def __init__(self, database: Database, shelf: Shelf) -> None:
        self._database = database
        self._shelf = shelf
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ostiary-follow", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait until it has."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def open(self, tenant: str) -> None:
        """Bring one tenant's index to where the database is. Raises: IndexMismatch."""
        with self._database.reading(tenant) as session:
            now = counters(session)
        self._shelf.at(tenant, now.content_sequence, now.incarnation)

    def _run(self) -> None:
        while not self._stop.wait(FOLLOW_EVERY_S):
            for tenant in self._shelf.held():
                try:
                    self.open(tenant)
                except Exception:
                    # Requests meet the same fault and answer with it; here it must not end us.
                    _log.exception("index of tenant %s can't follow the database", tenant)
