"""Real databases for tests: a fresh SQLite file, or a database on a PostgreSQL of our own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from acl.row_security import grants, statements, tenant_tables
from acl.session import Database
from acl.tables import Base, InstanceRow

INCARNATION = "life-1"
APP = "ostiary_app"
_START_S = 60.0


def fresh_sqlite(folder: Path) -> Database:
    """Make a database in a file of its own, with every table and the instance row."""
    return _with_tables(Database(f"sqlite:///{folder / 'ostiary.db'}"))


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A server that listens on a socket in its own folder, and nowhere else."""

    folder: Path
    numbers: Iterator[int] = field(default_factory=count)

    def url(self, name: str, role: str = "postgres") -> str:
        """Give SQLAlchemy's address of a database on this server, as the superuser or as APP."""
        return f"postgresql+psycopg://{role}@/{name}?host={self.folder}"

    def fresh(self) -> Database:
        """Make a new database as servers have it: seen by a role that owns nothing."""
        owner = Database(self.empty())
        _with_tables(owner)
        with owner.engine.begin() as connection:
            for statement in (*statements(tenant_tables().items()), *grants(APP)):
                connection.exec_driver_sql(statement)
        owner.close()
        return Database(self.url(owner.engine.url.database or "", APP))

    def empty(self) -> str:
        """Make a new database without tables; gives the superuser's address of it."""
        name = f"ostiary_{next(self.numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return self.url(name)

    def run(self, statement: str) -> None:
        """Run one statement outside a transaction."""
        engine = create_engine(
            self.url("postgres"), poolclass=NullPool, isolation_level="AUTOCOMMIT"
        )
        with engine.connect() as connection:
            connection.execute(text(statement))


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Run a PostgreSQL of our own; skips the test where there are no binaries."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server binaries on this machine")
    # The server refuses to run as root: then another user of the machine owns it.
    user = _other_user() if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="ostiary-pg-"))
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    uid, gid = (None, None) if user is None else (user.pw_uid, user.pw_gid)
    groups = None if user is None else ()
    subprocess.run(
        [binaries / "initdb", "-D", folder / "rows", "-U", "postgres", "-A", "trust", "-N"],
        check=True, stdout=subprocess.DEVNULL, cwd=folder, user=uid, group=gid, extra_groups=groups,
    )  # fmt: skip
    log = folder / "log"
    with log.open("wb") as lines, subprocess.Popen(
        [binaries / "postgres", "-D", folder / "rows", "-k", folder, "-c", "listen_addresses=",
         "-c", "fsync=off", "-c", "max_connections=60"],
        stdout=lines, stderr=lines, cwd=folder, user=uid, group=gid, extra_groups=groups,
    ) as process:  # fmt: skip
        try:
            server = PostgresServer(folder)
            _wait_until_ready(server, process, log)
            server.run(f"CREATE ROLE {APP} LOGIN")
            yield server
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
    shutil.rmtree(folder)


def _with_tables(database: Database) -> Database:
    Base.metadata.create_all(database.engine)
    with database.unpinned(writes=True) as session:
        session.add(InstanceRow(id=1, incarnation=INCARNATION))
    return database


def _binaries() -> Path | None:
    on_path = shutil.which("postgres")
    folders = [Path(on_path).parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((f for f in folders if (f / "postgres").exists() and (f / "initdb").exists()), None)


def _other_user() -> pwd.struct_passwd:
    by_name = {each.pw_name: each for each in pwd.getpwall()}
    found = by_name.get("postgres") or by_name.get("nobody")
    if found is None:
        pytest.skip("running as root, and there is no user postgres or nobody to own the server")
    return found


def _wait_until_ready(server: PostgresServer, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_S
    while True:
        try:
            return server.run("SELECT 1")
        except OperationalError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}") from None
            time.sleep(0.1)
