"""What is written down of what people read, and of what they were denied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from acl.chain import chain_key, check
from acl.tables import AuditRow
from generation.scripted import ScriptedEngine
from pipeline.access import AccessSheet, Rule
from pipeline.ingest import Ingest
from pipeline.sources import Item, Text
from tests.api.houses import SECRET, Home
from tests.laws.changes import SECRET_TEXT, told_house

QUESTION = "heron code"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with told_house(tmp_path, ScriptedEngine(["The code is here [1]."])) as opened:
        yield opened


def written(home: Home) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Flush, and give what is written: event, resource, outcome, documents."""
    home.house.audit.flush()
    with home.house.database.reading(home.tenants["acme"]) as session:
        rows = session.scalars(select(AuditRow).order_by(AuditRow.id)).all()
        return [(row.event, row.resource, row.outcome, tuple(row.documents)) for row in rows]


def test_what_was_shown_is_named_by_document_and_never_quoted(home: Home) -> None:
    found = home.ask("ana", "POST", "/v1/search", json={"query": QUESTION}).json()
    shown = {each["document"] for each in found["results"]}
    chat = {"model": "ostiary", "messages": [{"role": "user", "content": QUESTION}]}
    for stream in (False, True):
        home.ask("ana", "POST", "/v1/chat/completions", json={**chat, "stream": stream})
    one = next(iter(shown))
    home.ask("ana", "GET", f"/v1/documents/{one}/text")
    home.ask("ana", "GET", f"/v1/documents/{one}/passages/1")
    lines = written(home)
    assert [line[0] for line in lines] == [
        "search", "answer", "answer", "document.text", "document.passage",
    ]  # fmt: skip
    assert set(lines[0][3]) == shown
    assert all(line[3] for line in lines)
    with home.house.database.reading(home.tenants["acme"]) as session:
        for row in session.scalars(select(AuditRow)):
            said = f"{row.event} {row.resource} {row.reason} {row.documents}"
            assert not set(said.split()) & set(f"{SECRET_TEXT} {QUESTION}".split())
        assert check(session, chain_key(bytes.fromhex(SECRET))).fault == ""


def test_missing_and_forbidden_leave_records_of_one_form(home: Home) -> None:
    """Law 1: the same work for both."""
    closed = home.ask("ana", "GET", "/v1/documents").json()["data"]
    secret = next(each["id"] for each in closed if each["title"] == "Code")
    written(home)
    for document in (secret, "doc_" + "0" * 22):
        assert home.ask("bo", "GET", f"/v1/documents/{document}/text").status_code == 404
    forbidden, missing = written(home)[-2:]
    assert forbidden == ("document.text", f"document:{secret}", "denied", ())
    assert missing == ("document.text", "document:doc_" + "0" * 22, "denied", ())


def test_a_server_that_stops_writes_what_waits(home: Home) -> None:
    home.ask("ana", "POST", "/v1/search", json={"query": QUESTION})
    home.house.audit.close()
    with home.house.database.reading(home.tenants["acme"]) as session:
        found = check(session, chain_key(bytes.fromhex(SECRET)))
    assert (found.n_records > 0, found.n_unsealed) == (True, 0)


def test_what_an_access_sheet_and_an_ingest_change_is_written_down_once(home: Home) -> None:
    """Rights that came by a file were in force and in no record."""
    sheet = AccessSheet(
        root="ship",
        users={"kit": "Kit"},
        groups={"crew": ("user:kit",)},
        collections={"hold": Rule(read=("group:crew",), deny=("user:bo",), cut=True)},
        documents={},
    )
    item = Item("a.txt", "a.txt", "ship/hold", None, lambda: Text("Cargo", "a crate of tea"))
    flow = Ingest(home.house.database, home.maker)
    before = len(written(home))
    for _ in range(2):
        flow.prepare(home.tenants["acme"], [item], sheet)
        assert [each.result for each in flow.run(home.tenants["acme"], [item])]
    lines = written(home)[before:]
    assert [(event, outcome) for event, _, outcome, _ in lines] == [
        ("member.add", "done"), ("collection.set_access", "done"), ("document.ingest", "done"),
    ]  # fmt: skip
    with home.house.database.reading(home.tenants["acme"]) as session:
        said = session.scalars(
            select(AuditRow.reason).where(AuditRow.event == "collection.set_access")
        ).one()
    assert said == "cut; read group:crew; deny user:bo"
