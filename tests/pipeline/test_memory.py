"""Who may see which bytes, and what happens to an upload when there is no room."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.cli import app
from pipeline.documents import Documents, Upload
from pipeline.errors import LedgerFull, SettingsRefused
from pipeline.ledger import MAPPED, RAM, Ledger
from pipeline.memory import Memory
from pipeline.room import LedgerRoom
from pipeline.window import window
from retrieval.embeddings import Corpus
from tests.api.houses import OPERATOR, Home, open_home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A house with two tenants and people in it."""
    with open_home(tmp_path) as opened:
        yield opened


@pytest.fixture
def ledger() -> Ledger:
    return Ledger({RAM: 1 << 30})


def memory_of(home: Home, ledger: Ledger) -> Memory:
    return Memory(home.house.database, ledger, width=64)


def test_the_whole_is_shown_with_names_reasons_and_what_nobody_holds(
    home: Home, ledger: Ledger
) -> None:
    ledger.note(RAM, f"index/{home.tenants['acme']}/dense", 70)
    ledger.note("gpu:977", "index", 5)
    devices = {each.device: each for each in memory_of(home, ledger).whole().devices}

    own = devices[RAM]
    assert [(each.owner, each.nbytes) for each in own.owners] == [("index/acme/dense", 70)]
    assert "codes" in own.owners[0].why
    assert own.free == (1 << 30) - 70
    if own.measured is not None:
        assert own.other == own.measured - 70
    assert devices[MAPPED].budget is None
    assert (devices["gpu:977"].held, devices["gpu:977"].measured) == (5, None)


def test_fewer_passages_fit_when_more_is_held(home: Home, ledger: Ledger) -> None:
    memory = memory_of(home, ledger)
    free = memory.whole().passages_fit
    ledger.hold(RAM, "hog", 1 << 29)

    assert free > 0
    assert memory.whole().passages_fit == pytest.approx(free / 2, abs=1)


def test_over_http_the_operator_alone_sees_the_ledger(home: Home) -> None:
    """A tenant's manager once saw how much his tenant held, documents that he may not read too."""
    home.document("open", "Gate", "The gate opens at nine.")
    home.ask("bo", "POST", "/v1/search", json={"query": "gate"})
    token = {"Authorization": f"Bearer {OPERATOR}"}
    told = home.ask(None, "GET", "/v1/memory", headers=token)
    nobody = [home.ask(who, "GET", "/v1/memory") for who in ("tess", "mo", "bo", None)]

    owners = {o["owner"] for each in told.json()["devices"] for o in each["owners"]}
    assert told.status_code == 200
    assert {"index/acme/dense", "index/acme/layout", "index/acme/lexical"} <= owners
    nowhere = home.ask("tess", "GET", "/metrics")
    assert {(each.status_code, each.text) for each in nobody} == {(404, nowhere.text)}


def test_an_upload_without_room_is_refused_and_nothing_of_it_is_stored(
    home: Home, ledger: Ledger
) -> None:
    house = home.house
    hold = LedgerRoom(ledger).upload
    documents = Documents(
        house.database, house.authority, home.maker, house.audit, hold=hold
    )  # fmt: skip
    asked = Upload("open", "note.md", b"# Note\n\nA lamp by the weir.")
    hog = ledger.hold(RAM, "hog", ledger.free(RAM))
    wes = home.principal("wes")

    with pytest.raises(LedgerFull, match="upload needs"):
        documents.upload(wes, asked)
    assert documents.list(wes, None, 9) == ()
    home.house = replace(house, documents=documents)
    home.app.state.house = home.house
    told = home.ask(
        "wes", "POST", "/v1/documents", data={"collection": "open"},
        files={"file": ("note.md", b"# Note\n\nA lamp by the weir.")},
    )  # fmt: skip
    assert (told.status_code, told.json()["error"]["code"]) == (503, "out_of_memory")
    assert "memory" in told.json()["error"]["message"]
    assert told.headers["retry-after"] == "10"
    hog.release()
    assert documents.upload(wes, asked).id
    assert ledger.held()[RAM] == {}


def test_a_house_holds_its_indexes_in_the_budget_that_is_set(tmp_path: Path) -> None:
    with open_home(tmp_path, ram_nbytes=1 << 40) as home:
        devices = {each.device: each for each in home.house.memory.whole().devices}
    assert devices[RAM].budget == 1 << 40
    assert any(each.owner == "program" for each in devices[RAM].owners)


def test_a_house_without_room_for_an_index_still_serves_and_says_so(tmp_path: Path) -> None:
    with open_home(tmp_path, ram_nbytes=1) as home:
        home.document("open", "Gate", "The gate opens at nine.")
        reply = home.ask("bo", "POST", "/v1/search", json={"query": "gate"})
        listed = home.ask("bo", "GET", "/v1/documents")

    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "out_of_memory")
    assert listed.status_code == 200


def test_the_command_shows_the_servers_of_this_home(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTIARY_HOME", str(tmp_path / "own"))
    none = CliRunner().invoke(app, ["memory"])
    with window(tmp_path / "own", home.house.memory.whole_json):
        said = CliRunner().invoke(app, ["memory"])
        told = CliRunner().invoke(app, ["memory", "--json"])

    assert isinstance(none.exception, SettingsRefused)
    assert "ram" in said.stdout
    assert "more passages" in said.stdout
    assert {each["device"] for each in json.loads(told.stdout)["devices"]} >= {RAM, MAPPED}


def test_a_tenant_s_corpus_is_measured_without_that_of_others(home: Home) -> None:
    home.document("open", "Gate", "The gate opens at nine.")
    home.document("open", "Lamp", "A lamp.")
    home.document("rivals", "Other", "Something else entirely.", tenant="rival")
    corpus = Corpus(home.house.database, "any", 64)
    n_passages, n_letters = corpus.volume(home.tenants["acme"])

    assert n_passages == 2
    assert n_letters == len("GateThe gate opens at nine.LampA lamp.")
    assert corpus.volume(home.tenants["rival"])[0] == 1
