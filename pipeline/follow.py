"""Keeps open indexes close behind the database, so that requests find them caught up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from acl.hints import Hints, hints_of
from acl.session import Database, counters
from retrieval.shelf import Shelf

# How long a stop may wait for the thread, and how late a lost hint is made up for: then an
# addition by another process is found at the latest when nobody asks. A request that comes
# sooner catches up itself.
WAIT_S = 0.25
LOOK_EVERY_S = 2.0

_log = logging.getLogger(__name__)


class Follower:
    """A thread that brings open indexes up to date when the database hints at a change.

    Args: hints: opens what notices writes; the hints of the database by default.
    """

    def __init__(
        self, database: Database, shelf: Shelf, hints: Callable[[], Hints] | None = None
    ) -> None:
        self._database = database
        self._shelf = shelf
        self._hints = hints or (lambda: hints_of(database.engine))
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
        self._shelf.at(tenant, now.content_sequence, now.incarnation, asked=False)

    def _run(self) -> None:
        hints: Hints | None = None
        unlooked_s = 0.0
        while not self._stop.is_set():
            try:
                hints = hints or self._hints()
                hinted = hints.wait(WAIT_S)
            except Exception:
                # The connection is gone: look as if hinted, and open another.
                _log.warning("lost the connection that notices changes", exc_info=True)
                hints, hinted = None, True
                self._stop.wait(WAIT_S)
            unlooked_s += WAIT_S
            if hinted or unlooked_s >= LOOK_EVERY_S:
                unlooked_s = 0.0
                self._look()
        if hints is not None:
            hints.close()

    def _look(self) -> None:
        try:
            # One query for all: a hint comes with every write of any tenant.
            now = self._database.counters_of_all()
        except Exception:
            _log.exception("the counters can't be read now")
            return
        for tenant in self._shelf.held():
            try:
                if tenant in now:
                    at = now[tenant]
                    self._shelf.at(tenant, at.content_sequence, at.incarnation, asked=False)
            except Exception:
                # Requests meet the same fault and answer with it; here it must not end us.
                _log.exception("index of tenant %s can't follow the database", tenant)
