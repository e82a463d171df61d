"""Fixtures that every package's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from acl.authorize import Authority
from acl.directory import create_tenant
from acl.session import Database
from tests.clock import Clock
from tests.databases import PostgresServer, fresh_sqlite, running_postgres


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still until it is told to move."""
    return Clock()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A fresh SQLite database with all tables that are imported."""
    opened = fresh_sqlite(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL that runs for as long as the test session."""
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def any_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A fresh database of each kind that the product supports."""
    if request.param == "sqlite":
        opened = fresh_sqlite(tmp_path)
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        opened = server.fresh()
    yield opened
    opened.close()


@pytest.fixture
def tenant(database: Database) -> str:
    """The id of a tenant of the fresh database."""
    return create_tenant(database, "acme")


@pytest.fixture
def authority(database: Database, clock: Clock) -> Authority:
    """What mints scopes from the fresh database, by the still clock."""
    return Authority(database, clock.now_s)
