"""A server of our own: an installation over an empty folder, filled by the commands users have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from acl.directory import find_principal, find_tenant
from acl.documents import document_by_public_id
from acl.grants import give
from acl.session import Database
from acl.types import Action, Effect, Grant, Level, Resource
from evals.checks import keys_of, stored
from pipeline.migrate import open_database
from pipeline.settings import load_settings

_START_S = 180.0
_STOP_S = 20.0
# What says where an installation keeps its things, and for whom: ours has its own.
_OF_PLACE = (
    "HOME", "INDEX_FOLDER", "DATABASE_URL", "SECRET", "OPERATOR_TOKEN", "HOST", "PORT", "TENANT",
    "URL", "KEY",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Installation:
    """A home folder and the settings of what runs over it; models and engine are the user's."""

    home: Path
    tenant: str
    environment: Mapping[str, str]

    def say(self, *arguments: str) -> str:
        """Run an `ostiary` command; gives what it printed. Raises: RuntimeError if it fails."""
        done = subprocess.run(  # noqa: S603 - our own command
            [_ostiary(), *arguments], env=dict(self.environment), capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"ostiary {arguments[0]}: {(done.stderr or done.stdout)[-500:]}")
        return done.stdout.strip()

    def keys(self, *who: str) -> dict[str, str]:
        """Make keys that live an hour, one a principal. Raises: UnknownPrincipal."""
        with self._database() as database:
            tenant = find_tenant(database, self.tenant)
            secret = load_settings(home=self.home, secret="").secret_bytes()
            return keys_of(database, tenant, who, secret)

    def stored(self) -> tuple[dict[str, str], dict[str, int]]:
        """As `checks.stored`, of the installation's tenant."""
        with self._database() as database:
            return stored(database, find_tenant(database, self.tenant))

    def give(self, who: str, action: Action, documents: Iterable[str]) -> None:
        """Give somebody a right on documents, by their public ids. Raises: UnknownPrincipal."""
        with self._database() as database:
            tenant = find_tenant(database, self.tenant)
            with database.writing(tenant) as writing:
                row = find_principal(writing.session, who)
                for each in documents:
                    found = document_by_public_id(writing.session, each)
                    if found is None:
                        raise ValueError(f"no document {each}")
                    at = Resource(Level.DOCUMENT, found.id)
                    give(writing, at, Grant(row.id, action, Effect.ALLOW))

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve on a free port of the loopback; gives the address, and stops in the end."""
        with serving(self.home / "server.log", self.environment) as (_, url):
            yield url

    @contextmanager
    def _database(self) -> Iterator[Database]:
        database = open_database(load_settings(home=self.home, database_url=""))
        try:
            yield database
        finally:
            database.close()


@contextmanager
def installation(tenant: str, **settings: str) -> Iterator[Installation]:
    """Make an installation with an empty tenant; its folder is deleted in the end.

    Args: settings: more settings, OSTIARY_ left out.
    """
    of_place = {f"OSTIARY_{name}" for name in _OF_PLACE}
    kept = {name: value for name, value in os.environ.items() if name not in of_place}
    with tempfile.TemporaryDirectory(prefix="ostiary-evals-") as space:
        own = {"HOME": space, "TENANT": tenant, **settings}
        made = Installation(
            Path(space), tenant, {**kept, **{f"OSTIARY_{n}": v for n, v in own.items()}}
        )
        made.say("tenant", "add", tenant)
        yield made


@contextmanager
def serving(
    log: Path, environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Serve over an environment; gives the process and its address once it answers.

    Raises: RuntimeError with the end of its log if it does not start.
    """
    command = [_ostiary(), "serve", "--port", "0"]
    with (
        log.open("wb") as file,
        subprocess.Popen(command, env=dict(environment), stdout=file, stderr=file) as process,  # noqa: S603
    ):
        try:
            yield process, _address(log, process)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
            process.kill()


def _ostiary() -> str:
    return str(Path(sys.executable).with_name("ostiary"))


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + _START_S
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(r"serves at\s+(\S+)", log.read_text()):
            with suppress(httpx.TransportError):
                if httpx.get(f"{found[1]}/healthz").status_code == 200:
                    return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start: {log.read_text()[-500:]}")
