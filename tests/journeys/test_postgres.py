"""The whole product on a real PostgreSQL, through the command line and REST."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.databases import APP, PostgresServer
from tests.journeys.running import Installed

pytestmark = pytest.mark.postgres


@pytest.fixture
def name(postgres_server: PostgresServer, tmp_path: Path) -> str:
    """An empty database."""
    chosen = f"journey_{tmp_path.name.lower()}"
    postgres_server.run(f'CREATE DATABASE "{chosen}"')
    return chosen


def installed(folder: Path, url: str) -> Installed:
    return Installed.at(
        folder / "home",
        "acme",
        OSTIARY_DATABASE_URL=url,
        OSTIARY_RETRIEVAL__ENCODER="hashed",
        # Nobody listens there: search must answer all the same.
        OSTIARY_GENERATION__BASE_URL="http://127.0.0.1:9/v1",
    )


@pytest.fixture
def home(postgres_server: PostgresServer, tmp_path: Path, name: str) -> Installed:
    """As servers run: as a role that owns nothing."""
    return installed(tmp_path, postgres_server.url(name, APP))


@pytest.fixture
def owner(postgres_server: PostgresServer, tmp_path: Path, name: str) -> Installed:
    """As migrations are run."""
    return installed(tmp_path, postgres_server.url(name))


def test_a_schema_that_is_not_there_is_named_with_the_command(home: Installed) -> None:
    done = home.run("tenant", "list")

    assert done.returncode == 1
    assert "ostiary migrate" in done.stderr


def test_ingest_search_and_revoke_work_on_postgresql(
    home: Installed, owner: Installed, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/heron.md").write_text("# Heron\n\nThe grey heron nests by the weir.")
    assert owner.say("migrate") == "migrated"
    said = owner.say("migrate", "--let-in", APP)
    assert said.startswith("nothing to do")
    assert f"{APP} may read and write rows" in said
    home.say("tenant", "add", "acme")
    home.say("user", "add", "ana")
    key = home.say("key", "add", "user:ana")
    home.say("ingest", str(tmp_path / "docs"), "--collection", "birds")
    headers = {"Authorization": f"Bearer {key}"}

    def found(url: str) -> list[str]:
        reply = httpx.post(f"{url}/v1/search", json={"query": "grey heron"}, headers=headers)
        assert reply.status_code == 200, reply.text
        return [each["title"] for each in reply.json()["results"]]

    with home.serving() as url:
        assert found(url) == []
        home.say("grant", "user:ana", "read", "collection:birds")
        assert found(url) == ["Heron"]
        home.say("revoke", "user:ana", "read", "collection:birds")
        assert found(url) == []
        assert httpx.get(f"{url}/readyz").status_code == 503
