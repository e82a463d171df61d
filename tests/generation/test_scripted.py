"""The scripted engine's own knobs; what it shares with real ones is in test_contract."""

from __future__ import annotations

import asyncio

import pytest

from generation.errors import EngineDown
from generation.scripted import ScriptedEngine
from generation.types import Delta, Prompt, Sampling, Usage
from tests.generation.prompts import gather, make_prompt


def test_a_virtual_clock_is_slept_on_and_counts_against_the_timeout() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    engine = ScriptedEngine(["a", "b", "c"], delay_s=2.0, sleep=sleep)
    with pytest.raises(TimeoutError):
        asyncio.run(gather(engine.stream(make_prompt(), Sampling(), 5.0)))
    assert slept == [2.0, 2.0]


@pytest.mark.parametrize("fail_after", [0, 1, 2])
def test_it_dies_where_it_is_told_to(fail_after: int) -> None:
    engine = ScriptedEngine(["a", "b"], fail_after=fail_after)
    with pytest.raises(EngineDown):
        asyncio.run(gather(engine.stream(make_prompt(), Sampling(), 5.0)))
    assert (engine.n_open, engine.n_closed) == (0, 1)


def test_a_script_may_depend_on_the_prompt() -> None:
    def script(prompt: Prompt) -> list[str]:
        return [prompt.question.upper()]

    engine = ScriptedEngine(script)
    pieces = asyncio.run(gather(engine.stream(make_prompt("why?"), Sampling(), 5.0)))
    assert pieces[0] == Delta("WHY?")
    assert engine.prompts == [make_prompt("why?")]


def test_the_same_prompt_under_the_same_salt_counts_as_cached() -> None:
    engine = ScriptedEngine(["a"])

    async def cached(salt: str) -> int | None:
        usage = (await gather(engine.stream(make_prompt(salt=salt), Sampling(), 5.0)))[-1]
        assert isinstance(usage, Usage)
        return usage.cached

    async def work() -> list[int | None]:
        return [await cached(salt) for salt in "aab"]

    first, again, other = asyncio.run(work())
    assert first == other == 0
    assert again is not None
    assert again > 0
