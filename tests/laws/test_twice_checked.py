"""Law 3: what fell between search and the second check is replaced, and never shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event

from acl.authorize import Authority
from acl.documents import document_by_public_id
from acl.errors import RightsUnavailable, UnknownPrincipal
from acl.session import Writing
from acl.types import AccessScope
from api.app import create_app
from generation.scripted import ScriptedEngine
from pipeline.lines import Line
from pipeline.stages import Stages
from pipeline.telemetry import StageClock
from pipeline.types import Ask, Deadline
from retrieval.corpus import store
from retrieval.rerank import Reranker
from retrieval.types import Candidate, Hits, Query, Vectors
from tests.api.houses import ANSWER, Home, open_home
from tests.laws.changes import CONTENT, OTHER_TEXT, PERSON, SECRET_TEXT, cast, elsewhere, told_house

QUESTION = "heron code weir"
N_OPEN = 12


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Iterator[Home]:
    with open_home(tmp_path, ScriptedEngine(ANSWER)) as opened:
        cast(opened)
        for number in range(N_OPEN):
            opened.document("open", f"Weir {number}", f"heron weir number {number}")
        yield opened


def _between(home: Home, change: Callable[[], None], *depths: int) -> list[tuple[Candidate, ...]]:
    """Search, let a change commit, then check again; gives what stands for each depth."""
    stages = home.house.pipeline.stages
    asks = [Ask(home.principal("ana"), QUESTION, Deadline.after(20), depth=n) for n in depths]
    scope = home.house.authority.mint(asks[0].principal)
    line = stages.lines.current
    vector = stages.embed(line, QUESTION)
    hits = [stages.search(line, ask, scope, vector) for ask in asks]
    change()
    clock = StageClock(home.house.settings.budgets, home.house.pipeline.meter)
    return [
        stages.authorize(line, ask, scope, vector, found, clock)[: ask.depth]
        for ask, found in zip(asks, hits, strict=True)
    ]


@pytest.mark.parametrize("name", CONTENT)
def test_what_fell_is_replaced_up_to_what_is_permitted(home: Home, name: str) -> None:
    def change() -> None:
        with elsewhere(home) as writing:
            CONTENT[name](writing)

    depths = (1, 5, 100)
    for depth, standing in zip(depths, _between(home, change, *depths), strict=True):
        assert all(SECRET_TEXT not in each.passage.text for each in standing)
        assert len(standing) == min(depth, N_OPEN + 1)
        assert len({each.passage.id for each in standing}) == len(standing)


@pytest.mark.parametrize("name", PERSON)
def test_a_removed_person_or_key_is_an_error_and_no_list(home: Home, name: str) -> None:
    def change() -> None:
        with elsewhere(home) as writing:
            PERSON[name](writing)

    with pytest.raises(UnknownPrincipal):
        _between(home, change, 5)


def test_without_a_change_the_secret_would_have_come(home: Home) -> None:
    [standing] = _between(home, lambda: None, 100)

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

    [standing] = _between(home, change, 100)
    texts = [each.passage.text for each in standing if each.passage.title == "Birds"]

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


@dataclass(frozen=True, slots=True)
class Meddled(Stages):
    """Stages in which something is committed after the first search, before its check."""

    change: list[Callable[[], None]]

    def search(self, line: Line, ask: Ask, scope: AccessScope, vector: Vectors) -> Hits:
        """Search; then the world moves on."""
        hits = Stages.search(self, line, ask, scope, vector)
        if self.change:
            self.change.pop()()
        return hits


class Looking:
    """A reranker that keeps what it was shown."""

    kind = "looking"

    def __init__(self) -> None:
        self.shown: list[str] = []

    def rerank(self, query: Query, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Keep the order."""
        self.shown += [each.passage.text for each in candidates]
        return tuple(candidates)


def _meddled(home: Home, change: Callable[[], None], reranker: Reranker) -> Home:
    stages = home.house.pipeline.stages
    kept = {each.name: getattr(stages, each.name) for each in fields(stages)}
    meddled = Meddled(**{**kept, "reranker": reranker}, change=[change])
    house = replace(home.house, pipeline=replace(home.house.pipeline, stages=meddled))
    return replace(home, house=house, app=create_app(house))


@pytest.mark.parametrize("name", CONTENT)
def test_what_fell_reaches_neither_reranker_nor_prompt(tmp_path: Path, name: str) -> None:
    def change() -> None:
        with elsewhere(home) as writing:
            CONTENT[name](writing)

    engine, looking = ScriptedEngine(ANSWER), Looking()
    with told_house(tmp_path, engine) as home:
        chat = {"model": "ostiary", "messages": [{"role": "user", "content": QUESTION}]}
        meddled = _meddled(home, change, looking)
        reply = meddled.ask("ana", "POST", "/v1/chat/completions", json=chat)

    assert reply.status_code == 200
    assert looking.shown == [OTHER_TEXT]
    assert [each.text for prompt in engine.prompts for each in prompt.evidence] == [OTHER_TEXT]


def test_rights_that_cannot_be_evaluated_a_second_time_are_an_error_too(home: Home) -> None:
    """The first check went well and candidates were found: still nothing of them is given."""
    database, failed = home.house.database, []

    def broken(*arguments: object) -> None:
        if "FROM grant" in str(arguments[2]).replace('"', ""):
            failed.append(arguments[2])
            raise OSError("the disk is gone")

    def change() -> None:
        with elsewhere(home) as writing:
            CONTENT["a deny is given"](writing)
        event.listen(database.engine, "before_cursor_execute", broken)

    looking = Looking()
    meddled = _meddled(home, change, looking)
    reply = meddled.ask("ana", "POST", "/v1/search", json={"query": QUESTION})

    assert reply.status_code == 503
    assert reply.json()["error"]["code"] == "rights_unavailable"
    assert (len(failed), looking.shown) == (1, [])


def test_a_scope_that_is_wider_than_rights_does_not_help(home: Home) -> None:
    """The first check alone failing open would not leak: the second one decides again."""
    stages = home.house.pipeline.stages
    bo = home.principal("bo")
    narrow = home.house.authority.mint(bo)
    ana = home.house.authority.mint(home.principal("ana"))
    forged: AccessScope = replace(narrow, classes=ana.classes)
    ask = Ask(bo, QUESTION, Deadline.after(20), depth=100)
    line = stages.lines.current
    vector = stages.embed(line, QUESTION)
    hits = stages.search(line, ask, forged, vector)
    clock = StageClock(home.house.settings.budgets, home.house.pipeline.meter)

    standing = stages.authorize(line, ask, forged, vector, hits, clock)

    assert len(hits) == N_OPEN + 2
    assert all(SECRET_TEXT not in each.passage.text for each in standing)
    assert len(standing) == N_OPEN + 1
    assert np.all(np.diff([each.score for each in standing]) <= 0)
