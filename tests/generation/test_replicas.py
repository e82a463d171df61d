"""Several replicas as one: who gets a prompt, what happens when one goes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from generation.errors import EngineBusy, EngineDown, GenerationError
from generation.replicas import Replicas
from generation.scripted import ScriptedEngine
from generation.types import Delta, Prompt, Sampling, Usage
from tests.generation.prompts import gather, make_evidence, make_prompt

SAMPLING = Sampling(max_tokens=9)


class Twin(ScriptedEngine):
    """A replica that can be told to fail, to be drained, and what to say of its load."""

    def __init__(self, address: str) -> None:
        super().__init__(["So it is."] * 500)
        self.address = address
        self.n_asked = 0
        self.others: float | None = None
        self.up = True
        self.fails: GenerationError | None = None
        self.after = 0

    async def stream(
        self, prompt: Prompt, sampling: Sampling, timeout_s: float
    ) -> AsyncGenerator[Delta | Usage, None]:
        self.n_asked += 1
        n_given = 0
        if self.fails and not self.after:
            raise self.fails
        async for piece in super().stream(prompt, sampling, timeout_s):
            yield piece
            n_given += 1
            if self.fails and n_given == self.after:
                raise self.fails

    async def count_tokens(self, text: str) -> int:
        if self.fails and not self.after:
            raise self.fails
        return len(text.split())

    async def load(self) -> float | None:
        return self.others

    async def ready(self) -> bool:
        return self.up


def make_twins(n: int) -> list[Twin]:
    return [Twin(f"http://replica-{i}/v1") for i in range(n)]


def prompt_of(i: int) -> Prompt:
    return make_prompt(evidence=make_evidence(f"Passage {i}."), salt=f"{i:043}")


async def ask(fleet: Replicas, i: int) -> list[Delta | Usage]:
    return await gather(fleet.stream(prompt_of(i), SAMPLING, 5.0))


def chosen(twins: list[Twin], n: int = 60) -> list[str]:
    """Say which replica each of n prompts went to, one at a time."""

    async def work() -> list[str]:
        fleet = Replicas(twins, look_s=1e9)
        went = []
        for i in range(n):
            before = [twin.n_asked for twin in twins]
            await ask(fleet, i)
            moved = [t for t, b in zip(twins, before, strict=True) if t.n_asked > b]
            went.append(moved[-1].address)
        await fleet.close()
        return went

    return asyncio.run(work())


def test_a_salt_and_prefix_keep_their_replica_and_all_replicas_get_some() -> None:
    went = chosen(make_twins(3))
    assert went == chosen(make_twins(3))
    assert min(Counter(went).values()) > 60 / 3 / 3


def test_a_replica_that_leaves_moves_only_its_own_prompts() -> None:
    """Rendezvous: the caches of the others stay of use."""
    three, two = chosen(make_twins(3)), chosen(make_twins(2))
    stayed = [a == b for a, b in zip(three, two, strict=True) if not a.endswith("-2/v1")]
    assert all(stayed)
    assert len(stayed) < 60


def test_a_replica_loaded_by_others_gets_nothing_over_the_bound() -> None:
    async def work() -> list[int]:
        twins = make_twins(3)
        twins[0].others = 100.0
        fleet = Replicas(twins, look_s=1e9)
        assert await fleet.ready()
        for i in range(30):
            await ask(fleet, i)
        await fleet.close()
        return [twin.n_asked for twin in twins]

    asked = asyncio.run(work())
    assert asked[0] == 0
    assert min(asked[1:]) > 0


def test_one_hot_prefix_spreads_when_its_replica_is_full() -> None:
    async def work() -> list[int]:
        twins = make_twins(3)
        fleet = Replicas(twins, look_s=1e9)
        streams = [fleet.stream(prompt_of(1), SAMPLING, 5.0) for _ in range(12)]
        for stream in streams:
            await anext(stream)
        for stream in streams:
            await stream.aclose()
        await fleet.close()
        return sorted(twin.n_asked for twin in twins)

    asked = asyncio.run(work())
    assert sum(asked) == 12
    assert asked[0] > 0
    assert asked[-1] <= 5


@pytest.mark.parametrize("error", [EngineDown("x"), EngineBusy("x")])
def test_before_the_first_token_another_replica_is_tried_once(error: GenerationError) -> None:
    async def work() -> None:
        twins = make_twins(3)
        fleet = Replicas(twins, look_s=1e9)
        await ask(fleet, 1)
        home = next(twin for twin in twins if twin.n_asked)
        home.fails = error
        assert len(await ask(fleet, 1)) > 1
        for twin in twins:
            twin.fails, twin.n_asked = error, 0
        with pytest.raises(type(error)):
            await ask(fleet, 1)
        assert sum(twin.n_asked for twin in twins) == 2
        await fleet.close()

    asyncio.run(work())


def test_after_the_first_token_nothing_is_tried_again() -> None:
    async def work() -> None:
        twins = make_twins(2)
        for twin in twins:
            twin.fails, twin.after = EngineDown("x"), 1
        fleet = Replicas(twins, look_s=1e9)
        seen = []

        async def read() -> None:
            async for piece in fleet.stream(prompt_of(1), SAMPLING, 5.0):
                seen.append(piece)  # noqa: PERF401 what came before the error counts

        with pytest.raises(EngineDown):
            await read()
        assert len(seen) == 1
        assert sum(twin.n_asked for twin in twins) == 1
        await fleet.close()

    asyncio.run(work())


def test_a_drained_replica_ends_what_it_began_and_gets_nothing_new_until_it_is_back() -> None:
    async def work() -> None:
        twins = make_twins(2)
        fleet = Replicas(twins, look_s=1e9)
        await ask(fleet, 1)
        home = next(twin for twin in twins if twin.n_asked)
        async with aclosing(fleet.stream(prompt_of(1), SAMPLING, 5.0)) as running:
            await anext(running)
            home.up = False
            assert await fleet.ready()
            n_before = home.n_asked
            for i in range(20):
                await ask(fleet, i)
            assert home.n_asked == n_before
            rest = [piece async for piece in running]
            assert isinstance(rest[-1], Usage)
        home.up = True
        assert await fleet.ready()
        await ask(fleet, 1)
        assert home.n_asked == n_before + 1
        await fleet.close()

    asyncio.run(work())


def test_the_fleet_is_ready_while_one_replica_is_and_counts_tokens_there() -> None:
    async def work() -> None:
        twins = make_twins(2)
        fleet = Replicas(twins)
        twins[0].up, twins[0].fails = False, EngineDown("x")
        assert await fleet.ready()
        assert await fleet.count_tokens("one two") == 2
        twins[1].up = False
        assert not await fleet.ready()
        await fleet.close()

    asyncio.run(work())


def test_no_replica_at_all_is_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Replicas([])
