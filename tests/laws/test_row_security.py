"""Law 10, the second wall: PostgreSQL itself shows a session the rows of one tenant."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

import retrieval.tables  # noqa: F401 - its tables have walls too
from acl.directory import create_principal, create_tenant, tenants
from acl.row_security import grants, tenant_tables, walls_stand
from acl.session import Database
from acl.types import Kind
from pipeline.migrate import let_in, migrate, require_newest
from tests.databases import APP, PostgresServer

pytestmark = pytest.mark.postgres


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[Database]:
    """A migrated database with two tenants, seen by the role that owns nothing."""
    owner = Database(postgres_server.empty())
    migrate(owner)
    let_in(owner, APP)
    owner.close()
    opened = Database(postgres_server.url(owner.engine.url.database or "", APP))
    for name in ("acme", "globex"):
        tenant = create_tenant(opened, name)
        with opened.writing(tenant) as writing:
            create_principal(writing, Kind.USER, f"of-{name}")
    yield opened
    opened.close()


def names(connection: Connection) -> set[str]:
    """Ask for everybody, past the criterion that sessions add."""
    found = connection.execute(text("SELECT name FROM principal WHERE kind = 'user'"))
    return set(found.scalars())


def test_raw_sql_in_a_session_sees_its_tenant_only(database: Database) -> None:
    for name, tenant in tenants(database).items():
        with database.reading(tenant) as session:
            assert names(session.connection()) == {f"of-{name}"}
            held = session.connection().execute(text("SELECT name FROM tenant"))
            assert set(held.scalars()) == {name}


def test_a_connection_that_names_no_tenant_sees_nothing(database: Database) -> None:
    with database.engine.connect() as connection:
        assert names(connection) == set()


def test_a_pooled_connection_forgets_its_tenant(database: Database) -> None:
    acme = tenants(database)["acme"]
    with database.reading(acme) as session:
        backend = session.connection().execute(text("SELECT pg_backend_pid()")).scalar()
        assert names(session.connection()) == {"of-acme"}
    with database.engine.connect() as connection:
        same = connection.execute(text("SELECT pg_backend_pid()")).scalar()
        assert same == backend
        assert names(connection) == set()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE principal SET display = 'x' WHERE tenant = :other",
        "DELETE FROM principal WHERE tenant = :other",
        "UPDATE tenant SET rights_epoch = 9 WHERE id = :other",
    ],
)
def test_rows_of_others_can_not_be_changed(database: Database, statement: str) -> None:
    ids = tenants(database)
    with database.writing(ids["acme"]) as writing:
        changed = writing.session.connection().execute(text(statement), {"other": ids["globex"]})
        assert changed.rowcount == 0
    with database.reading(ids["globex"]) as session:
        assert names(session.connection()) == {"of-globex"}


def test_a_row_can_not_be_written_for_another_tenant(database: Database) -> None:
    ids = tenants(database)
    written = "INSERT INTO principal (tenant, kind, name, display) VALUES (:t, 'user', 'spy', '')"
    with (
        pytest.raises(ProgrammingError, match="row-level security"),
        database.writing(ids["acme"]) as writing,
    ):
        writing.session.connection().execute(text(written), {"t": ids["globex"]})


def test_the_wall_is_on_every_table_and_its_absence_is_told(
    database: Database, postgres_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert {"tenant", "passage", "content", "grant", "api_key"} <= tenant_tables().keys()
    with database.engine.connect() as connection:
        assert walls_stand(connection) == ""
    require_newest(database)
    assert caplog.records == []
    superuser = Database(postgres_server.url(database.engine.url.database or ""))
    require_newest(superuser)
    assert "superuser" in caplog.text
    with superuser.engine.begin() as connection:
        connection.execute(text("ALTER TABLE passage NO FORCE ROW LEVEL SECURITY"))
    superuser.close()
    with database.engine.connect() as connection:
        assert walls_stand(connection) == "row security is not forced on: passage"


def test_the_app_role_can_not_lower_the_wall(database: Database) -> None:
    with (
        pytest.raises(ProgrammingError, match="owner"),
        database.engine.begin() as connection,
    ):
        connection.execute(text("ALTER TABLE passage DISABLE ROW LEVEL SECURITY"))


@pytest.mark.parametrize("role", ["x; DROP TABLE passage", 'a"b', ""])
def test_a_role_that_is_no_plain_word_is_refused(role: str) -> None:
    with pytest.raises(ValueError, match="plain word"):
        list(grants(role))
