"""The whole product on a real PostgreSQL, through the command line and REST."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.databases import PostgresServer

pytestmark = pytest.mark.postgres

OSTIARY = str(Path(sys.executable).with_name("ostiary"))


@pytest.fixture
def environment(postgres_server: PostgresServer, tmp_path: Path) -> dict[str, str]:
    name = f"journey_{tmp_path.name.lower()}"
    postgres_server.run(f'CREATE DATABASE "{name}"')
    return {
        **os.environ,
        "OSTIARY_HOME": str(tmp_path / "home"),
        "OSTIARY_DATABASE_URL": postgres_server.url(name),
        "OSTIARY_TENANT": "acme",
        "OSTIARY_RETRIEVAL__ENCODER": "hashed",
        # Nobody listens there: search must answer all the same.
        "OSTIARY_GENERATION__BASE_URL": "http://127.0.0.1:9/v1",
    }


def _run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [OSTIARY, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )


def _said(environment: dict[str, str], *arguments: str) -> str:
    done = _run(environment, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def _serving(environment: dict[str, str]) -> Iterator[str]:
    with subprocess.Popen(
        [OSTIARY, "serve", "--port", "0"], env=environment, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            for line in server.stderr:
                if found := re.search(r"serves at (\S+)", line):
                    yield found[1]
                    return
            raise AssertionError("the server ended before it served")
        finally:
            server.terminate()
            server.wait(30)


def test_a_schema_that_is_not_there_is_named_with_the_command(environment: dict[str, str]) -> None:
    done = _run(environment, "tenant", "list")

    assert done.returncode == 1
    assert "ostiary migrate" in done.stderr


def test_ingest_search_and_revoke_work_on_postgresql(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/heron.md").write_text("# Heron\n\nThe grey heron nests by the weir.")
    assert _said(environment, "migrate") == "migrated"
    assert _said(environment, "migrate") == "nothing to do"
    _said(environment, "tenant", "add", "acme")
    _said(environment, "user", "add", "ana")
    key = _said(environment, "key", "add", "user:ana")
    _said(environment, "ingest", str(tmp_path / "docs"), "--collection", "birds")
    headers = {"Authorization": f"Bearer {key}"}

    def found(url: str) -> list[str]:
        reply = httpx.post(f"{url}/v1/search", json={"query": "grey heron"}, headers=headers)
        assert reply.status_code == 200, reply.text
        return [each["title"] for each in reply.json()["results"]]

    with _serving(environment) as url:
        assert found(url) == []
        _said(environment, "grant", "user:ana", "read", "collection:birds")
        assert found(url) == ["Heron"]
        _said(environment, "revoke", "user:ana", "read", "collection:birds")
        assert found(url) == []
        assert httpx.get(f"{url}/readyz").status_code == 503
