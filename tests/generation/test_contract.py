"""What every engine does: the scripted one and the real one pass the same tests."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from generation.answer import answer
from generation.budget import fit
from generation.errors import PromptTooLong
from generation.probe import Isolation, probe
from generation.scripted import ScriptedEngine
from generation.types import Delta, Ended, Engine, Finish, Sampling, Usage, Words
from tests.generation.prompts import gather, make_prompt

TIMEOUT_S = 60.0


@pytest.fixture(params=["scripted", pytest.param("real", marks=pytest.mark.real)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    if request.param == "scripted":
        return ScriptedEngine(["So ", "it ", "is ", "and ", "was."] * 3, context_tokens=1024)
    found: Engine = request.getfixturevalue("real_engine")
    return found


def test_text_comes_then_the_finish_then_the_usage(engine: Engine, loop: asyncio.Runner) -> None:
    pieces = loop.run(gather(engine.stream(make_prompt(), Sampling(max_tokens=6), TIMEOUT_S)))
    deltas = [piece for piece in pieces if isinstance(piece, Delta)]
    assert "".join(delta.text for delta in deltas).strip()
    assert [delta.finish for delta in deltas].count(None) == len(deltas) - 1
    assert deltas[-1].finish in {Finish.STOP, Finish.LENGTH}
    usage = pieces[-1]
    assert isinstance(usage, Usage)
    assert usage.prompt > 50
    assert 1 <= usage.completion <= 6


def test_max_tokens_cuts_the_answer_and_says_so(engine: Engine, loop: asyncio.Runner) -> None:
    pieces = loop.run(gather(engine.stream(make_prompt(), Sampling(max_tokens=1), TIMEOUT_S)))
    assert Finish.LENGTH in [piece.finish for piece in pieces if isinstance(piece, Delta)]


def test_greedy_answers_repeat(engine: Engine, loop: asyncio.Runner) -> None:
    def text() -> str:
        pieces = loop.run(gather(engine.stream(make_prompt(), Sampling(max_tokens=8), TIMEOUT_S)))
        return "".join(piece.text for piece in pieces if isinstance(piece, Delta))

    assert text() == text()


def test_closing_early_leaves_the_engine_free(engine: Engine, loop: asyncio.Runner) -> None:
    async def work() -> None:
        for _ in range(4):
            async with aclosing(engine.stream(make_prompt(), Sampling(), TIMEOUT_S)) as pieces:
                await anext(pieces)
        # An engine still at work on what was closed refuses this one, or keeps it waiting.
        async with asyncio.timeout(10):
            found = await gather(engine.stream(make_prompt(), Sampling(max_tokens=1), TIMEOUT_S))
        assert any(isinstance(piece, Delta) and piece.finish for piece in found)

    loop.run(work())


def test_a_prompt_beyond_the_context_is_too_long(engine: Engine, loop: asyncio.Runner) -> None:
    prompt = make_prompt("why " * 1200)
    with pytest.raises(PromptTooLong, match="1024"):
        loop.run(gather(engine.stream(prompt, Sampling(max_tokens=1), TIMEOUT_S)))
    with pytest.raises(PromptTooLong):
        loop.run(fit(prompt, engine, Sampling()))


def test_what_is_fitted_fits(engine: Engine, loop: asyncio.Runner) -> None:
    async def work() -> None:
        found = await fit(make_prompt("why " * 700), engine, Sampling(max_tokens=200))
        pieces = await gather(engine.stream(found.prompt, Sampling(max_tokens=1), TIMEOUT_S))
        usage = pieces[-1]
        assert isinstance(usage, Usage)
        assert usage.prompt <= found.prompt_tokens

    loop.run(work())


def test_a_passed_deadline_is_a_timeout(engine: Engine, loop: asyncio.Runner) -> None:
    if isinstance(engine, ScriptedEngine):
        engine = ScriptedEngine(["late"], delay_s=1.0)
    with pytest.raises(TimeoutError):
        loop.run(gather(engine.stream(make_prompt(), Sampling(), 0.001)))


def test_the_whole_stage_ends_with_an_end(engine: Engine, loop: asyncio.Runner) -> None:
    stream = answer(engine, make_prompt(), Sampling(max_tokens=40), TIMEOUT_S, ())
    *words, ended = loop.run(gather(stream))
    assert isinstance(ended, Ended)
    text = "".join(word.text for word in words if isinstance(word, Words))
    assert all(text[c.position :].startswith(f"[{c.number}]") for c in ended.citations)


def test_the_probe_finds_salts_apart(engine: Engine, loop: asyncio.Runner) -> None:
    assert loop.run(probe(engine, TIMEOUT_S)) is Isolation.HOLDS


def test_tokens_are_counted_and_the_engine_is_ready(engine: Engine, loop: asyncio.Runner) -> None:
    assert loop.run(engine.count_tokens("one two three")) == 3
    assert loop.run(engine.ready())
    assert engine.model
    assert engine.context_tokens == 1024
