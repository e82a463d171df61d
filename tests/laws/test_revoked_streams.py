"""Law 4 within a request: prompts, words and bodies never leave on a right that has ended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

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
from tests.api.houses import Home
from tests.laws.changes import CONTENT, PERSON, QUESTION, SECRET, elsewhere, told_house

# What may be flushed after a revocation was acknowledged: what the check before it allowed.
LAW_S = 0.1
# Threads of a busy machine wake up late; the law's bound is for what was checked.
SLACK_S = 0.1


def _prompted(engine: ScriptedEngine) -> str:
    return " ".join(each.text for prompt in engine.prompts for each in prompt.evidence)


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

    with told_house(tmp_path, engine) as home, pytest.raises(EvidenceRevoked):
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

    with told_house(tmp_path, engine) as home:
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
    with told_house(tmp_path, engine) as home:
        chat = {"model": "ostiary", "messages": [{"role": "user", "content": QUESTION}]}
        reply = home.ask("ana", "POST", "/v1/chat/completions", json=chat)

    assert reply.status_code == 200
    assert "Code" not in reply.text
    assert len(engine.prompts) == 2
    assert SECRET in engine.prompts[0].evidence[0].text + engine.prompts[0].evidence[-1].text
    assert all(SECRET not in each.text for each in engine.prompts[1].evidence)


def test_a_key_that_expires_ends_its_stream(tmp_path: Path) -> None:
    engine = ScriptedEngine([f"word{n} " for n in range(300)], delay_s=0.02)
    with told_house(tmp_path, engine) as home:
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
    with told_house(tmp_path, engine) as home:
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
