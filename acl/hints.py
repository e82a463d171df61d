"""Hints that the database has changed. A lost one costs time, never truth: reading is the proof."""

from __future__ import annotations

import sqlite3
import time
from typing import Protocol, cast

from sqlalchemy import Engine

CHANNEL = "ostiary"

_POLL_S = 0.05


class Hints(Protocol):
    """Something that notices writes by any process."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until something may have changed; False if the time passed without a sign."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


def hints_of(engine: Engine) -> Hints:
    """Open what notices writes to this database, over a connection of its own."""
    if engine.dialect.name == "postgresql":
        return _Notifications(engine)
    return _DataVersion(engine)


def _own_connection(engine: Engine) -> object:
    """Take a connection out of the pool, which makes another: this one is kept for long."""
    held = engine.raw_connection()
    connection = held.driver_connection
    held.detach()
    return connection


class _Notified(Protocol):
    autocommit: bool

    def execute(self, statement: str) -> object: ...
    def notifies(self, *, timeout: float, stop_after: int) -> object: ...
    def close(self) -> None: ...


class _Notifications:
    """PostgreSQL's LISTEN: each writing notifies as it commits."""

    def __init__(self, engine: Engine) -> None:
        self._connection = cast(_Notified, _own_connection(engine))
        self._connection.autocommit = True
        self._connection.execute(f"LISTEN {CHANNEL}")

    def wait(self, timeout_s: float) -> bool:
        """Wait for a notification."""
        came = self._connection.notifies(timeout=timeout_s, stop_after=1)
        return bool(list(cast(list[object], came)))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class _DataVersion:
    """SQLite's data_version: a number that moves when another connection has committed."""

    def __init__(self, engine: Engine) -> None:
        self._connection = cast(sqlite3.Connection, _own_connection(engine))
        self._seen = self._version()

    def wait(self, timeout_s: float) -> bool:
        """Look again and again: reading the number takes some microseconds."""
        end = time.monotonic() + timeout_s
        while (version := self._version()) == self._seen:
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(_POLL_S, left))
        self._seen = version
        return True

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
