"""Law 3: what fell between search and the second check is replaced, and never shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event

from acl.authorize import Authority
from acl.documents import document_by_public_id
from acl.errors import RightsUnavailable, UnknownPrincipal
from acl.session import Writing
from acl.types import AccessScope
from generation.scripted import ScriptedEngine
from pipeline.telemetry import StageClock
from pipeline.types import Ask, Deadline
from retrieval.corpus import store
from retrieval.types import Candidate
from tests.api.houses import ANSWER, Home, open_home
from tests.laws.changes import CONTENT, PERSON, SECRET_TEXT, cast, elsewhere

QUESTION = "heron code weir"
N_OPEN = 12


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Iterator[Home]:
    with open_home(tmp_path, ScriptedEngine(ANSWER)) as opened:
        cast(opened)
        for number in range(N_OPEN):
            opened.document("open", f"Weir {number}", f"heron weir number {number}")
        yield opened


def _between(home: Home, depth: int, change: Callable[[], None]) -> tuple[Candidate, ...]:
    """Search, let a change commit, then check again."""
    stages = home.house.pipeline.stages
    ask = Ask(home.principal("ana"), QUESTION, Deadline.after(20), depth=depth)
    scope = home.house.authority.mint(ask.principal)
    vector = stages.embed(QUESTION)
    hits = stages.search(ask, scope, vector)
    change()
    clock = StageClock(home.house.settings.budgets, home.house.pipeline.meter)
    return stages.authorize(ask, scope, vector, hits, clock)[:depth]


@pytest.mark.parametrize("name", CONTENT)
@pytest.mark.parametrize("depth", [1, 5, 100])
def test_what_fell_is_replaced_up_to_what_is_permitted(home: Home, name: str, depth: int) -> None:
    def change() -> None:
        with elsewhere(home) as writing:
            CONTENT[name](writing)

    standing = _between(home, depth, change)

    assert all(SECRET_TEXT not in each.passage.text for each in standing)
    assert len(standing) == min(depth, N_OPEN + 1)
    assert len({each.passage.id for each in standing}) == len(standing)


@pytest.mark.parametrize("name", PERSON)
def test_a_removed_person_or_key_is_an_error_and_no_list(home: Home, name: str) -> None:
    def change() -> None:
        with elsewhere(home) as writing:
            PERSON[name](writing)

    with pytest.raises(UnknownPrincipal):
        _between(home, 5, change)


def test_without_a_change_the_secret_would_have_come(home: Home) -> None:
    standing = _between(home, 100, lambda: None)

    assert any(SECRET_TEXT in each.passage.text for each in standing)


def test_a_new_version_in_between_is_found_whole_and_never_mixed(home: Home) -> None:
    new = home.maker.make_text("Birds", "Herons have left the weir for good.")

    def update(writing: Writing) -> None:
        row = document_by_public_id(writing.session, birds)
        assert row is not None
        origin = home.maker.origin(new, "files", "Birds")
        store(writing, row, new.parsed, new.pieces, new.vectors, origin)

    listed = home.ask("ana", "GET", "/v1/documents").json()["data"]
    birds = next(each["id"] for each in listed if each["title"] == "Birds")

    def change() -> None:
        with elsewhere(home) as writing:
            update(writing)

    texts = [
        each.passage.text for each in _between(home, 100, change) if each.passage.title == "Birds"
    ]

    assert texts == ["Herons have left the weir for good."]


def test_rights_that_cannot_be_evaluated_are_an_error_and_never_a_partial_list(home: Home) -> None:
    def broken(*arguments: object) -> None:
        if "FROM grant" in str(arguments[2]).replace('"', ""):
            raise OSError("the disk is gone")

    with elsewhere(home) as writing:
        CONTENT["a deny is given"](writing)
    event.listen(home.house.database.engine, "before_cursor_execute", broken)

    reply = home.ask("ana", "POST", "/v1/search", json={"query": QUESTION})

    assert reply.status_code == 503
    assert reply.json()["error"]["code"] == "rights_unavailable"
    assert "Retry-After" in reply.headers
    with pytest.raises(RightsUnavailable):
        Authority(home.house.database).mint(home.principal("ana"))


def test_a_scope_that_is_wider_than_rights_does_not_help(home: Home) -> None:
    """The first check alone failing open would not leak: the second one decides again."""
    stages = home.house.pipeline.stages
    bo = home.principal("bo")
    narrow = home.house.authority.mint(bo)
    ana = home.house.authority.mint(home.principal("ana"))
    forged: AccessScope = replace(narrow, classes=ana.classes)
    ask = Ask(bo, QUESTION, Deadline.after(20), depth=100)
    vector = stages.embed(QUESTION)
    hits = stages.search(ask, forged, vector)
    clock = StageClock(home.house.settings.budgets, home.house.pipeline.meter)

    standing = stages.authorize(ask, forged, vector, hits, clock)

    assert len(hits) == N_OPEN + 2
    assert all(SECRET_TEXT not in each.passage.text for each in standing)
    assert len(standing) == N_OPEN + 1
    assert np.all(np.diff([each.score for each in standing]) <= 0)
