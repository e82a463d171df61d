"""Transactions: pinned to one tenant, explicit about reading or writing, one place to commit.

A reading is one snapshot (REPEATABLE READ on PostgreSQL, an explicit BEGIN on SQLite). A
writing holds the write lock from its start, so what it decides on can't change under it; its
last step before commit moves the tenant's counters, so their order is the order of commits.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import (
    Connection,
    Engine,
    bindparam,
    create_engine,
    event,
    func,
    select,
    update,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import ORMExecuteState, Session, with_loader_criteria
from sqlalchemy.pool import ConnectionPoolEntry

import acl.row_security  # noqa: F401 - says at each begin whose rows it is about
from acl.errors import StorageBusy, StorageFull, UnknownResource
from acl.hints import CHANNEL
from acl.tables import AccessClassRow, ChangeRow, InstanceRow, TenantEntry, TenantRow
from acl.turnstile import turn
from acl.types import Counters

_BUSY_TIMEOUT_MS = 30_000
# What SQLite and PostgreSQL say when the disk is full or can't be written.
_FULL = ("is full", "disk I/O error", "No space left", "readonly", "unable to open")
_BUSY = ("database is locked", "lock timeout", "deadlock detected")

_COUNTERS = select(
    InstanceRow.incarnation,
    TenantEntry.rights_epoch,
    TenantEntry.content_sequence,
    TenantEntry.departures,
    TenantEntry.horizon,
    InstanceRow.live_version,
).join(InstanceRow, InstanceRow.id == 1)
# Every request reads these, more than once: building the statement took longer than running it.
_COUNTERS_OF_ONE = _COUNTERS.where(TenantEntry.id == bindparam("tenant"))


@dataclass(slots=True)
class Writing:
    """A write in progress: its session, and what must be told to others when it commits."""

    session: Session
    tenant: str
    counters: Counters | None = None
    _rights: bool = False
    _documents: set[int] = field(default_factory=set)
    _left: set[int] = field(default_factory=set)

    def rights_changed(self) -> None:
        """Move the rights epoch: every scope that was minted before is over."""
        self._rights = True

    def document_changed(self, document_id: int) -> None:
        """Log that the passages of a document came, went or moved."""
        self._documents.add(document_id)

    def passages_left(self, class_id: int) -> None:
        """Raise the generation of a class: salts that rest on it are over."""
        self._left.add(class_id)

    def stamp(self) -> None:
        """Move the counters of the tenant and stamp the change log from them."""
        self.session.flush()
        if self._left:
            raised = {"generation": AccessClassRow.generation + 1}
            self.session.execute(
                update(AccessClassRow).where(AccessClassRow.id.in_(self._left)).values(raised)
            )
        row = self.session.get_one(TenantEntry, self.tenant)
        row.rights_epoch += int(self._rights)
        row.content_sequence += int(bool(self._documents))
        row.departures += int(bool(self._left))
        for document in sorted(self._documents):
            change = ChangeRow(
                tenant=self.tenant, sequence=row.content_sequence, document_id=document
            )
            self.session.add(change)
        self.session.flush()
        self.counters = counters(self.session)
        moved = self._rights or self._documents or self._left
        if moved and self.session.get_bind().dialect.name == "postgresql":
            self.session.execute(select(func.pg_notify(CHANNEL, self.tenant)))


def is_changed(session: Session) -> bool:
    """Say whether the session has written anything, which no other sees before the commit."""
    return "changed" in session.info or bool(session.new or session.dirty or session.deleted)


class Database:
    """The engine and its transactions. `url` is SQLAlchemy's, for SQLite or PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        self._reading = self._engine.execution_options(ostiary_writes=False)
        self._writing = self._engine.execution_options(ostiary_writes=True)
        if self.dialect == "postgresql":
            self._reading = self._reading.execution_options(isolation_level="REPEATABLE READ")

    @property
    def dialect(self) -> str:
        """ "sqlite" or "postgresql"."""
        return self._engine.dialect.name

    @property
    def engine(self) -> Engine:
        """The engine itself, for migrations and for counting connections in use."""
        return self._engine

    @contextmanager
    def reading(self, tenant: str) -> Iterator[Session]:
        """Open one snapshot of one tenant. Nothing can be written through it."""
        with Session(self._reading, autoflush=False, info={"tenant": tenant}) as session:
            yield session
            if session.new or session.dirty or session.deleted:
                raise AssertionError("a reading must not change rows")

    @contextmanager
    def writing(self, tenant: str) -> Iterator[Writing]:
        """Open one write of one tenant; commits at the end, or nothing happened.

        Raises: UnknownResource if there is no such tenant.
        """
        with (
            _told_when_full(),
            self._turn(),
            Session(self._writing, info={"tenant": tenant}) as session,
        ):
            # On PostgreSQL this lock makes the tenant's writers one at a time, so that rights
            # can't change between a decision and the write it allows. SQLite has BEGIN IMMEDIATE.
            locked = select(TenantEntry).where(TenantEntry.id == tenant).with_for_update()
            if session.scalar(locked) is None:
                raise UnknownResource("no such tenant")
            writing = Writing(session, tenant)
            yield writing
            writing.stamp()
            session.commit()

    @contextmanager
    def unpinned(self, *, writes: bool = False) -> Iterator[Session]:
        """Open a session that sees every tenant: to find one by name, or a key's owner.

        For `acl` alone; a test over the source tree holds it to that.
        """
        bind = self._writing if writes else self._reading
        mine = self._turn() if writes else nullcontext()
        with _told_when_full(), mine, Session(bind, info={"tenant": None}) as session:
            yield session
            if writes:
                session.commit()

    def counters_of_all(self) -> dict[str, Counters]:
        """Read where every tenant stands, in one query."""
        with self.unpinned() as session:
            rows = session.execute(_COUNTERS.add_columns(TenantEntry.id))
            return {row[-1]: Counters(*row[:-1]) for row in rows}

    def _turn(self) -> AbstractContextManager[None]:
        path = self._engine.url.database
        if self.dialect != "sqlite" or not path or path == ":memory:":
            return nullcontext()
        return turn(Path(path), _BUSY_TIMEOUT_MS / 1000)

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


def counters(session: Session) -> Counters:
    """Read where the session's tenant stands, in the session's snapshot.

    Raises: UnknownResource if the tenant is gone.
    """
    row = session.execute(_COUNTERS_OF_ONE, {"tenant": session.info["tenant"]}).one_or_none()
    if row is None:
        raise UnknownResource("no such tenant")
    return Counters(*row)


@contextmanager
def _told_when_full() -> Iterator[None]:
    try:
        yield
    except OperationalError as failure:
        said = str(failure.orig)
        if any(sign in said for sign in _FULL):
            raise StorageFull(
                f"the database can't be written ({said}); what was acknowledged before is kept"
            ) from failure
        if any(sign in said for sign in _BUSY):
            raise StorageBusy("the database is busy with other writes; come back") from failure
        raise


def new_id(prefix: str) -> str:
    """Make a random public id, never reused: prefix, underscore, 22 URL-safe characters."""
    return f"{prefix}_{secrets.token_hex(11)}"


def _engine(url: str) -> Engine:
    engine = create_engine(url, pool_size=20, max_overflow=20)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _sqlite_connect)
        event.listen(engine, "begin", _sqlite_begin)
    return engine


def _sqlite_connect(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver would open transactions by itself, and none for SELECT: we say BEGIN ourselves.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout = {_BUSY_TIMEOUT_MS}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _sqlite_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("ostiary_writes", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@event.listens_for(Session, "do_orm_execute")
def _only_this_tenant(state: ORMExecuteState) -> None:
    if "tenant" not in state.session.info:
        raise AssertionError("a session must be opened by acl.session.Database")
    tenant = state.session.info["tenant"]
    if not state.is_select:
        state.session.info["changed"] = True
    if tenant is not None and (state.is_select or state.is_update or state.is_delete):
        state.statement = state.statement.options(
            with_loader_criteria(TenantRow, lambda row: row.tenant == tenant, include_aliases=True)
        )


@event.listens_for(Session, "before_flush")
def _rows_of_this_tenant(session: Session, *_: object) -> None:
    tenant = session.info.get("tenant")
    session.info["changed"] = True
    for row in (*session.new, *session.dirty, *session.deleted):
        if tenant is not None and isinstance(row, TenantRow):
            named: str | None = row.tenant
            if named is None:
                row.tenant = tenant
            elif named != tenant:
                raise AssertionError("a row of another tenant in a pinned session")
