"""Where Alembic starts: it sees every table of every package below."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

import retrieval.tables  # noqa: F401 - its tables register themselves
from acl.tables import Base


def _run() -> None:
    connection: Connection = context.config.attributes["connection"]
    context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


_run()
