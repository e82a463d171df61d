"""Law 9: a kill at any moment loses nothing that was reported, and leaves nothing half done."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from sqlalchemy import func, select, update

from acl.authorize import Authority
from acl.directory import find_principal, find_tenant
from acl.salt import cache_salt
from acl.session import Database
from acl.tables import DocumentRow, InstanceRow
from acl.types import Principal
from retrieval.embeddings import Corpus
from retrieval.hashed import HashedEncoder
from retrieval.lists.kernel import exact_scores
from retrieval.shelf import Shelf
from retrieval.tables import ContentRow, EmbeddingRow, PassageRow
from retrieval.tenant_index import TenantIndex
from retrieval.words import Lexicon
from tests.journeys.running import OSTIARY, Installed

N_FILES = 120
N_KILLS = 8


def _installed(folder: Path) -> Installed:
    return Installed.at(
        folder, "acme", OSTIARY_RETRIEVAL__ENCODER="hashed",
        OSTIARY_GENERATION__BASE_URL="http://127.0.0.1:9/v1",
    )  # fmt: skip


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "home"
    home = _installed(folder)
    home.say("tenant", "add", "acme")
    home.say("user", "add", "ana")
    return folder


@pytest.fixture(name="home")
def _home(made: Path, tmp_path: Path) -> Installed:
    shutil.copytree(made, tmp_path / "home")
    files = tmp_path / "files"
    files.mkdir()
    for number in range(N_FILES):
        paragraphs = [f"Paragraph {n} of file {number} tells of herons. " * 9 for n in range(9)]
        (files / f"file{number:03}.md").write_text("\n\n".join(paragraphs))
    return _installed(tmp_path / "home")


def _killed_ingest(home: Installed, files: Path, after_s: float) -> list[dict[str, str]]:
    """Run an ingest and kill it some time after its first new document; gives its report.

    What it finds unchanged it tells at once; only then does it start to read files.
    """
    command = [OSTIARY, "ingest", str(files), "--collection", "birds", "--json"]
    with subprocess.Popen(
        command, env=home.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if '"created"' in line:
                break
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
        lines += process.stdout
    assert process.returncode == -signal.SIGKILL, "it was at work when it was killed"
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _database(home: Installed) -> Database:
    return Database(f"sqlite:///{home.environment['OSTIARY_HOME']}/ostiary.db")


def _check_whole(database: Database, tenant: str) -> set[str]:
    """Check that every document has all it needs; gives the sources that are in."""
    encoder = HashedEncoder()
    with database.reading(tenant) as session:
        documents = set(session.scalars(select(DocumentRow.id)))
        contents = {row.document_id: row.source for row in session.scalars(select(ContentRow))}
        rows = session.execute(
            select(PassageRow.document_id, func.count(), func.max(PassageRow.ordinal)).group_by(
                PassageRow.document_id
            )
        ).all()
        found = session.execute(select(EmbeddingRow.passage_id, EmbeddingRow.vector)).all()
    vectors = {number: vector for number, vector in found}  # noqa: C416 - rows are no pairs to mypy
    assert documents == set(contents) == {document for document, *_ in rows}
    assert all(n == last and n > 1 for _, n, last in rows)

    changes = Corpus(database, encoder.name, encoder.width).changes(tenant, None)
    index = TenantIndex.empty(encoder.width).apply(changes, Lexicon(), 100)
    assert index.n_rows == len(vectors)
    query = encoder.encode_query("herons of file 7")
    classes = np.unique(changes.rows.classes)
    ids, scores = index.dense(query, classes, 10)
    stored = np.stack([np.frombuffer(vectors[int(each)], "<f4") for each in ids])
    assert np.array_equal(scores, exact_scores(stored.astype(np.float32), query))
    best = sorted(
        ((-float(np.dot(np.frombuffer(v, "<f4"), query)), n) for n, v in vectors.items())
    )  # fmt: skip
    assert {round(-score, 5) for score, _ in best[:10]} == {round(float(s), 5) for s in scores}
    return set(contents.values())


@pytest.mark.slow
def test_an_ingest_killed_at_any_moment_keeps_what_it_reported(
    home: Installed, tmp_path: Path
) -> None:
    chance = random.Random(11)  # noqa: S311 - repeatable
    files, reported = tmp_path / "files", set[str]()
    database = _database(home)
    tenant = find_tenant(database, "acme")
    for kill in range(N_KILLS):
        lines = _killed_ingest(home, files, chance.random() * 0.12)
        results = {Path(line["document"]).name: line["result"] for line in lines}
        new = {name for name, result in results.items() if result == "created"}
        assert new, "every kill comes while documents are taken in"
        assert new.isdisjoint(reported), f"before kill {kill} what was reported was lost"
        assert {results[name] for name in reported} <= {"unchanged"}
        reported |= new
        stored = {source.rpartition("/")[2] for source in _check_whole(database, tenant)}
        assert reported <= stored, f"kill {kill} lost what was reported"
        # The one that was being committed may be in untold; no other.
        assert len(stored - reported) <= kill + 1

    report = home.say("ingest", str(files), "--collection", "birds", "--json")
    told = {
        Path(each["document"]).name: each["result"] for each in map(json.loads, report.splitlines())
    }
    assert len(told) == N_FILES
    assert {told[name] for name in reported} == {"unchanged"}
    assert len(_check_whole(database, tenant)) == N_FILES
    database.close()


@pytest.mark.slow
def test_a_server_killed_while_it_takes_uploads_keeps_what_it_acknowledged(
    home: Installed, tmp_path: Path
) -> None:
    key = home.say("key", "add", "user:ana")
    home.say("ingest", str(tmp_path / "files/file000.md"), "--collection", "birds")
    for action in ("read", "write"):
        home.say("grant", "user:ana", action, "collection:birds")
    headers = {"Authorization": f"Bearer {key}"}
    acknowledged: dict[str, bytes] = {}

    def upload(url: str) -> None:
        with httpx.Client(base_url=url, headers=headers, timeout=30) as client:
            for file in sorted((tmp_path / "files").iterdir()):
                sent = {"file": (f"up-{file.name}", file.read_bytes())}
                try:
                    reply = client.post("/v1/documents", data={"collection": "birds"}, files=sent)
                except httpx.TransportError:
                    return
                assert reply.status_code == 201
                acknowledged[reply.json()["id"]] = file.read_bytes()

    with (
        subprocess.Popen(
            [OSTIARY, "serve", "--port", "0"], env=home.environment, stderr=subprocess.PIPE,
            text=True,
        ) as server,
        ThreadPoolExecutor(1) as threads,
    ):  # fmt: skip
        uploading = threads.submit(upload, home._address(server))
        end_s = time.monotonic() + 30
        while len(acknowledged) < 5 and time.monotonic() < end_s and not uploading.done():
            time.sleep(0.01)
        server.send_signal(signal.SIGKILL)
        uploading.result()
    assert server.returncode == -signal.SIGKILL

    assert 5 <= len(acknowledged) < N_FILES
    database = _database(home)
    _check_whole(database, find_tenant(database, "acme"))
    database.close()
    with home.serving() as url, httpx.Client(base_url=url, headers=headers) as client:
        for document, content in acknowledged.items():
            told = client.get(f"/v1/documents/{document}/text").json()["text"]
            assert told.strip() == content.decode().strip()
        search = {"query": "herons", "top_k": 100}
        listed = client.get("/v1/documents", params={"limit": 100}).json()["data"]
        n_passages = sum(each["passages"] for each in listed)
        assert client.post("/v1/search", json=search).json()["returned"] == min(100, n_passages)


def test_a_new_incarnation_ends_memos_indexes_and_salts(home: Installed, tmp_path: Path) -> None:
    home.say("ingest", str(tmp_path / "files/file000.md"), "--collection", "birds")
    home.say("grant", "user:ana", "read", "collection:birds")
    database, encoder = _database(home), HashedEncoder()
    tenant = find_tenant(database, "acme")
    with database.reading(tenant) as session:
        ana = Principal(tenant, find_principal(session, "user:ana").id, "user:ana")
    authority = Authority(database)
    source = Corpus(database, encoder.name, encoder.width)
    shelf = Shelf(source, Lexicon(), width=encoder.width, merge_rows=100)

    def state() -> tuple[object, str]:
        scope = authority.mint(ana)
        at = scope.counters
        index = shelf.at(tenant, at.content_sequence, at.incarnation)
        return index, cache_salt(scope, {}, b"s" * 32)

    before, again = state(), state()
    with database.engine.begin() as connection:
        connection.execute(update(InstanceRow).values(incarnation="another-life"))
    after = state()
    database.close()

    assert before[0] is again[0]
    assert before[1] == again[1]
    assert after[0] is not before[0]
    assert after[1] != before[1]
