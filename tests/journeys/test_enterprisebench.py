"""A made-up company of 1,260 people and 3,194 documents, with the real encoder, over REST."""

from __future__ import annotations

import os
import time
from pathlib import Path

import httpx
import pytest

from acl.directory import find_principal, find_tenant
from acl.keys import create_key
from acl.session import Database
from evals.checks import bound, load_rights, run_checks, stored
from tests.journeys.running import Installed

pytestmark = [pytest.mark.real, pytest.mark.slow]

N_CHECKS = 150


@pytest.mark.timeout(900)
def test_every_reader_finds_their_documents_and_nobody_anything_else(tmp_path: Path) -> None:
    if "OSTIARY_DATA" not in os.environ:
        pytest.skip("OSTIARY_DATA does not name the folder of the shared collections")
    folder = Path(os.environ["OSTIARY_DATA"]) / "permissions/enterprisebench"
    rights = load_rights(folder)
    chosen = rights.checks[:N_CHECKS]
    home = Installed.at(tmp_path, "inazuma")
    home.say("tenant", "add", "inazuma")
    home.say("user", "import", str(folder / "principals.jsonl"))
    report = home.say("ingest", str(folder / "documents.jsonl"), "--collection", "inazuma")
    assert "3194 documents: 3194 created" in report

    with home.serving() as url, httpx.Client(base_url=url, timeout=60) as client:
        database = Database(f"sqlite:///{tmp_path / 'ostiary.db'}")
        tenant = find_tenant(database, "inazuma")
        keys = _keys(database, tenant, {each.user for each in chosen}, tmp_path)
        names, n_passages = stored(database, tenant)
        database.close()
        done = list(run_checks(client, rights, chosen, keys.__getitem__, names, n_passages))

    assert sorted(n_passages) == sorted(rights.readers)
    assert [each for each in done if each.is_leak] == []
    assert [each for each in done if each.n_short] == []
    assert [each for each in done if each.is_miss] == []
    assert sum(not each.check.allowed for each in done) >= 30
    assert bound(0, len(done)) <= 0.02


def _keys(database: Database, tenant: str, users: set[str], home: Path) -> dict[str, str]:
    secret = bytes.fromhex((home / "secret").read_text())
    with database.writing(tenant) as writing:
        session = writing.session
        return {
            user: create_key(writing, find_principal(session, user), secret, "", time.time() + 3600)
            for user in users
        }
