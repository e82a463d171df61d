"""Our client against a real vLLM: text, salts, cancelling, errors and counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing

import httpx
import pytest

from generation.budget import fit
from generation.capabilities import RECORDS
from generation.capability import Gauge
from generation.engine import RemoteEngine
from generation.errors import PromptTooLong
from generation.probe import Isolation, probe
from generation.types import Delta, Finish, Message, Role, Sampling, Usage
from tests.generation.prompts import gather, make_evidence, make_prompt

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]

_VLLM = RECORDS["vllm"]
_LONG = "The lock keeper notes the level of the water at noon and opens the gate. " * 20
_CANCEL_S = 0.25


@pytest.fixture
def engine(vllm_url: str, vllm_loop: asyncio.Runner) -> Iterator[RemoteEngine]:
    """Our client, told of a window far above the engine's."""
    client = RemoteEngine(vllm_url, _VLLM, context_tokens=32_768, direct=True)
    assert vllm_loop.run(client.ready())
    yield client
    vllm_loop.run(client.close())


def test_it_streams_an_answer_and_tells_its_usage(
    engine: RemoteEngine, vllm_loop: asyncio.Runner
) -> None:
    pieces = vllm_loop.run(gather(engine.stream(make_prompt(), Sampling(max_tokens=12), 60.0)))
    words = [piece for piece in pieces if isinstance(piece, Delta)]
    assert len([piece for piece in words if piece.text]) > 1
    assert words[-1].finish in {Finish.STOP, Finish.LENGTH}
    usage = pieces[-1]
    assert isinstance(usage, Usage)
    assert usage.prompt > 50
    assert 0 < usage.completion <= 12
    assert usage.cached is not None
    assert engine.model == "smollm2"


def test_a_salt_finds_its_own_prefix_and_no_others(
    engine: RemoteEngine, vllm_loop: asyncio.Runner
) -> None:
    """A, A, B, A: hits within the salt, none across it, and B takes nothing away from A."""

    async def cached(salt: str) -> int | None:
        prompt = make_prompt(evidence=make_evidence(_LONG), salt=salt * 43)
        pieces = await gather(engine.stream(prompt, Sampling(max_tokens=1), 60.0))
        return next(piece.cached for piece in pieces if isinstance(piece, Usage))

    async def work() -> list[int | None]:
        return [await cached(salt) for salt in ("A", "A", "B", "A")]

    cold, again, foreign, later = vllm_loop.run(work())
    assert (cold, foreign) == (0, 0)
    assert again == later
    assert again is not None
    assert again >= 256


def test_the_start_up_probe_finds_that_isolation_holds(
    engine: RemoteEngine, vllm_loop: asyncio.Runner
) -> None:
    assert vllm_loop.run(probe(engine, 60.0)) is Isolation.HOLDS


def test_a_client_that_leaves_stops_the_engine(
    engine: RemoteEngine, vllm_url: str, vllm_loop: asyncio.Runner
) -> None:
    async def work() -> tuple[float, float]:
        prompt = make_prompt("Tell a long story of the sea.", evidence=())
        endless = Sampling(max_tokens=400, temperature=1.0, seed=7)
        async with httpx.AsyncClient(trust_env=False) as metrics:
            async with aclosing(engine.stream(prompt, endless, 60.0)) as pieces:
                for _ in range(3):
                    await anext(pieces)
                during = await running(metrics, vllm_url)
            left = time.monotonic()
            while await running(metrics, vllm_url) and time.monotonic() - left < 5:
                pass
            return during, time.monotonic() - left

    during, took_s = vllm_loop.run(work())
    assert during == 1
    assert took_s <= _CANCEL_S


def test_a_prompt_over_the_window_is_named_and_cut_before_it_is_sent(
    engine: RemoteEngine, vllm_loop: asyncio.Runner
) -> None:
    """The engine's own window counts, also where the setting says more."""
    assert engine.context_tokens == 1024
    history = tuple(Message(Role.USER, _LONG) for _ in range(3))
    huge = make_prompt(evidence=make_evidence(_LONG, _LONG, _LONG, _LONG), history=history)
    with pytest.raises(PromptTooLong, match="1024 tokens"):
        vllm_loop.run(gather(engine.stream(huge, Sampling(max_tokens=9), 60.0)))

    async def work() -> tuple[Usage, tuple[int, ...], int]:
        fitted = await fit(huge, engine, Sampling(max_tokens=9))
        pieces = await gather(engine.stream(fitted.prompt, fitted.sampling, 60.0))
        usage = next(piece for piece in pieces if isinstance(piece, Usage))
        assert usage.prompt <= fitted.prompt_tokens
        return usage, fitted.dropped, fitted.n_history_dropped

    usage, dropped, n_turns = vllm_loop.run(work())
    assert usage.prompt + 9 <= 1024
    assert dropped == (4, 3, 2)
    assert n_turns > 0


async def running(client: httpx.AsyncClient, url: str) -> float:
    assert _VLLM.metrics_path
    answer = await client.get(url.removesuffix("/v1") + _VLLM.metrics_path)
    name = _VLLM.metrics[Gauge.RUNNING]
    rows = [line for line in answer.text.splitlines() if line.startswith(name)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in rows)
