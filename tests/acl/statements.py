"""What a piece of code asks of the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event

from acl.session import Database


@contextmanager
def selects(database: Database) -> Iterator[list[str]]:
    """Collect the statements that read and run in the block, in order."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith(("SELECT", "WITH")):
            seen.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
