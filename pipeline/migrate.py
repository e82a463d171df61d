"""Opens a database at the schema of this version, and gives a new one its incarnation."""

from __future__ import annotations

import logging
import secrets
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from acl.errors import StorageFull
from acl.row_security import grants, walls_stand
from acl.session import Database
from acl.tables import InstanceRow
from pipeline.errors import SettingsRefused
from pipeline.settings import Settings

_log = logging.getLogger(__name__)

_INCARNATION_BYTES = 16


def open_database(settings: Settings) -> Database:
    """Open the database; the embedded one is made and migrated on the way.

    Raises: SettingsRefused if a served database has another schema; StorageFull.
    """
    try:
        if not settings.database_url:
            settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = Database(settings.url)
        if database.dialect == "sqlite":
            migrate(database)
        else:
            require_newest(database)
    except (OSError, OperationalError) as failure:
        said = failure.orig if isinstance(failure, OperationalError) else failure.strerror
        raise StorageFull(f"can't open the database in {settings.home}: {said}") from failure
    return database


def migrate(database: Database) -> bool:
    """Upgrade to the newest schema; False if it was there already.

    The write lock is taken before the version is read, so processes that start together
    wait for one of them.
    """
    with database.engine.begin() as connection:
        if database.dialect == "postgresql":
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7402913)")
        if _current(connection) == _newest():
            return False
        command.upgrade(_config(connection), "head")
        _give_incarnation(connection)
    return True


def let_in(database: Database, role: str) -> None:
    """Let a PostgreSQL role that owns nothing read and write rows: the one a server runs as.

    Raises: SettingsRefused if the database is not PostgreSQL, or the role's name is not plain.
    """
    if database.dialect != "postgresql":
        raise SettingsRefused("roles are PostgreSQL's; the database is embedded")
    try:
        allowed = list(grants(role))
    except ValueError as failure:
        raise SettingsRefused(str(failure)) from failure
    with database.engine.begin() as connection:
        for statement in allowed:
            connection.exec_driver_sql(statement)


def require_newest(database: Database) -> None:
    """Refuse to run on another schema. Raises: SettingsRefused that names the command."""
    with database.engine.connect() as connection:
        found = _current(connection)
    if found != _newest():
        raise SettingsRefused(
            f"the database has schema {found or 'none'}, this version needs {_newest()}: "
            "run ostiary migrate"
        )
    with database.engine.begin() as connection:
        if why := walls_stand(connection):
            _log.warning("tenants are kept apart by this program alone: %s", why)


def _give_incarnation(connection: Connection) -> None:
    with Session(connection, info={"tenant": None}) as session:
        if session.scalar(select(InstanceRow)) is None:
            incarnation = secrets.token_hex(_INCARNATION_BYTES)
            session.add(InstanceRow(id=1, incarnation=incarnation))
            session.flush()


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _newest() -> str | None:
    return ScriptDirectory.from_config(_config(None)).get_current_head()


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.attributes["connection"] = connection
    return config
