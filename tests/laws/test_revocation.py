"""Law 4: what was taken away before a request began is not used by it, nor by a stream after."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from acl.directory import find_principal
from acl.session import Writing
from acl.tables import ApiKeyRow
from generation.scripted import ScriptedEngine
from generation.types import Words
from pipeline.errors import EvidenceRevoked
from pipeline.serve import Pipeline
from pipeline.types import Ask, Deadline
from tests.api.houses import Home, open_home, served
from tests.laws.changes import CONTENT, PERSON, SECRET_TEXT, cast, elsewhere

QUESTION = "heron code"
SECRET = "7731"
# What may be flushed after a revocation was acknowledged: what the check before it allowed.
LAW_S = 0.1
# Threads of a busy machine wake up late; the law's bound is for what was checked.
SLACK_S = 0.1


def _low(folder: Path, engine: ScriptedEngine) -> AbstractContextManager[Home]:
    """Open a house that takes every passage found as evidence: the fake encoder means nothing."""
    return open_home(folder, engine, refuse_below=-1.0, evidence_margin=2.0, timeout_s=100)


def _prompted(engine: ScriptedEngine) -> str:
    return " ".join(each.text for prompt in engine.prompts for each in prompt.evidence)


@pytest.fixture(name="engine")
def _engine() -> ScriptedEngine:
    return ScriptedEngine(["The code ", "is here [1]."])


@pytest.fixture(name="home")
def _home(tmp_path: Path, engine: ScriptedEngine) -> Iterator[Home]:
    with _low(tmp_path, engine) as opened:
        cast(opened)
        yield opened


def _uses(home: Home, who: str) -> list[str]:
    """Give the bodies of one search and one chat as a person."""
    chat = {"model": "ostiary", "messages": [{"role": "user", "content": QUESTION}]}
    return [
        home.ask(who, "POST", "/v1/search", json={"query": QUESTION}).text,
        home.ask(who, "POST", "/v1/chat/completions", json=chat).text,
        home.ask(who, "GET", "/v1/documents").text,
    ]


@pytest.mark.parametrize("change", CONTENT.values(), ids=CONTENT.keys())
def test_the_next_request_does_not_use_what_another_process_took_away(
    home: Home, engine: ScriptedEngine, change: Callable[[Writing], None]
) -> None:
    search, chat, listed = _uses(home, "ana")
    assert SECRET in search
    assert "Code" in chat
    assert "Code" in listed
    engine.prompts.clear()

    with elsewhere(home) as writing:
        change(writing)

    for body in _uses(home, "ana"):
        assert SECRET not in body
        assert "Code" not in body
    assert SECRET not in _prompted(engine)
    assert engine.prompts, "what may still be read is answered from"


@pytest.mark.parametrize("change", PERSON.values(), ids=PERSON.keys())
def test_the_next_request_of_a_removed_key_or_person_is_nobodys(
    home: Home, change: Callable[[Writing], None]
) -> None:
    assert home.ask("ana", "GET", "/v1/documents").status_code == 200

    with elsewhere(home) as writing:
        change(writing)

    assert home.ask("ana", "GET", "/v1/documents").status_code == 401
    assert home.ask("ana", "POST", "/v1/search", json={"query": QUESTION}).status_code == 401


def test_four_threads_of_requests_never_see_it_while_another_ingests(home: Home) -> None:
    done = threading.Event()

    def ingest() -> None:
        number = 0
        while not done.is_set():
            home.document("open", f"Note {number}", f"heron note number {number}")
            number += 1

    writer = threading.Thread(target=ingest)
    writer.start()
    try:
        with elsewhere(home) as writing:
            CONTENT["a grant is revoked"](writing)
        with served(home.app) as url, ThreadPoolExecutor(4) as threads:

            def search(_: int) -> str:
                body = {"query": QUESTION, "top_k": 50}
                headers = {"Authorization": f"Bearer {home.keys['ana']}"}
                return httpx.post(f"{url}/v1/search", json=body, headers=headers, timeout=30).text

            bodies = list(threads.map(search, range(200)))
    finally:
        done.set()
        writer.join()

    assert all('"returned":' in body for body in bodies)
    assert [body for body in bodies if SECRET in body] == []


class Paced:
    """An engine's clock: sleeps for real, and lets a test act when a delta is due."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self._at, self._act, self._n = at, act, 0

    async def sleep(self, delay_s: float) -> None:
        if self._n == self._at:
            await asyncio.to_thread(self._act)
        self._n += 1
        await asyncio.sleep(delay_s)


def _ask(home: Home, timeout_s: float = 20.0) -> Ask:
    return Ask(home.principal("ana"), QUESTION, Deadline.after(timeout_s))


@asynccontextmanager
async def _streaming(pipeline: Pipeline, ask: Ask) -> AsyncIterator[AsyncIterator[object]]:
    stream = pipeline.stream(await pipeline.prepare(ask))
    try:
        yield stream
    finally:
        await stream.aclose()


@pytest.mark.parametrize("name", [*CONTENT, *PERSON])
def test_no_word_leaves_later_than_the_law_allows_and_the_engine_is_stopped(
    tmp_path: Path, name: str
) -> None:
    change = {**CONTENT, **PERSON}[name]
    acknowledged_s = 0.0
    flushed_s: list[float] = []

    def take_away() -> None:
        nonlocal acknowledged_s
        with elsewhere(home) as writing:
            change(writing)
        acknowledged_s = time.monotonic()

    clock = Paced(10, take_away)
    engine = ScriptedEngine([f"word{n} " for n in range(200)], delay_s=0.02, sleep=clock.sleep)

    async def listen() -> None:
        async with _streaming(home.house.pipeline, _ask(home)) as stream:
            async for piece in stream:
                assert isinstance(piece, Words), "it must not end as if all were well"
                flushed_s.append(time.monotonic())

    with _low(tmp_path, engine) as home:
        cast(home)
        with pytest.raises(EvidenceRevoked):
            asyncio.run(listen())

    assert len(flushed_s) >= 5
    assert max(flushed_s) - acknowledged_s <= LAW_S + SLACK_S
    assert (engine.n_open, engine.n_closed) == (0, 1)


def test_a_silent_engine_is_stopped_without_waiting_for_its_next_word(tmp_path: Path) -> None:
    acknowledged_s = 0.0

    async def sleep(delay_s: float) -> None:
        nonlocal acknowledged_s
        if len(engine.prompts) and delay_s == 30.0:
            await asyncio.to_thread(take_away)
            acknowledged_s = time.monotonic()
        await asyncio.sleep(delay_s)

    def take_away() -> None:
        with elsewhere(home) as writing:
            CONTENT["a member leaves the group"](writing)

    engine = ScriptedEngine(["never"], delay_s=30.0, sleep=sleep)

    async def listen() -> float:
        prepared = await home.house.pipeline.prepare(_ask(home, 100.0))
        stream = home.house.pipeline._once(prepared)
        try:
            with pytest.raises(EvidenceRevoked):
                await anext(stream)
            return time.monotonic()
        finally:
            await stream.aclose()

    with _low(tmp_path, engine) as home:
        cast(home)
        ended_s = asyncio.run(listen())

    assert 0 <= ended_s - acknowledged_s <= LAW_S + SLACK_S
    assert (engine.n_open, engine.n_closed) == (0, 1)


@pytest.mark.parametrize("name", CONTENT)
def test_a_prompt_does_not_leave_for_the_engine_on_evidence_taken_away_before(
    home: Home, engine: ScriptedEngine, name: str
) -> None:
    async def answer() -> str:
        prepared = await home.house.pipeline.prepare(_ask(home))
        assert any(SECRET in each.passage.text for each in prepared.evidence)
        with elsewhere(home) as writing:
            CONTENT[name](writing)
        return (await home.house.pipeline.answer(prepared)).text

    text = asyncio.run(answer())

    assert SECRET not in _prompted(engine)
    assert len(engine.prompts) == 1, "made anew from what may still be read"
    assert text


def test_a_whole_answer_is_made_anew_if_its_evidence_falls_before_it_leaves(
    tmp_path: Path,
) -> None:
    def take_away() -> None:
        with elsewhere(home) as writing:
            CONTENT["a grant is revoked"](writing)

    engine = ScriptedEngine(["one ", "two ", "three"], sleep=Paced(2, take_away).sleep)
    with _low(tmp_path, engine) as home:
        cast(home)
        chat = {"model": "ostiary", "messages": [{"role": "user", "content": QUESTION}]}
        reply = home.ask("ana", "POST", "/v1/chat/completions", json=chat)

    assert reply.status_code == 200
    assert "Code" not in reply.text
    assert len(engine.prompts) == 2
    assert SECRET in engine.prompts[0].evidence[0].text + engine.prompts[0].evidence[-1].text
    assert all(SECRET not in each.text for each in engine.prompts[1].evidence)


def test_a_key_that_expires_ends_its_stream(tmp_path: Path) -> None:
    engine = ScriptedEngine([f"word{n} " for n in range(300)], delay_s=0.02)
    with _low(tmp_path, engine) as home:
        cast(home)
        with elsewhere(home) as writing:
            _expire(writing, time.time() + 1.0)

        async def listen() -> None:
            async with _streaming(home.house.pipeline, _ask(home)) as stream:
                async for _ in stream:
                    pass

        began_s = time.monotonic()
        with pytest.raises(EvidenceRevoked):
            asyncio.run(listen())

    assert time.monotonic() - began_s < 2.5
    assert engine.n_closed == 1


def _expire(writing: Writing, end_s: float) -> None:
    ana = find_principal(writing.session, "user:ana").id
    row = writing.session.scalars(select(ApiKeyRow).where(ApiKeyRow.principal_id == ana)).one()
    row.expires_s = end_s
    writing.rights_changed()


def test_a_stream_that_loses_its_evidence_ends_as_an_error_over_http(tmp_path: Path) -> None:
    def take_away() -> None:
        with elsewhere(home) as writing:
            CONTENT["the document is deleted"](writing)

    clock = Paced(5, take_away)
    engine = ScriptedEngine([f"word{n} " for n in range(200)], delay_s=0.02, sleep=clock.sleep)
    with _low(tmp_path, engine) as home:
        cast(home)
        chat = {
            "model": "ostiary", "stream": True,
            "messages": [{"role": "user", "content": QUESTION}],
        }  # fmt: skip
        reply = home.ask("ana", "POST", "/v1/chat/completions", json=chat)

    events = [line[6:] for line in reply.text.split("\n\n") if line.startswith("data: ")]
    assert "[DONE]" not in events
    bodies = [json.loads(each) for each in events]
    assert bodies[-1]["error"]["code"] == "evidence_revoked"
    assert all(c["finish_reason"] is None for b in bodies[:-1] for c in b["choices"])
    assert len(bodies) < 100


def test_the_secret_is_what_these_tests_think_it_is(home: Home) -> None:
    assert SECRET in SECRET_TEXT
    assert SECRET not in home.ask("bo", "POST", "/v1/search", json={"query": QUESTION}).text
