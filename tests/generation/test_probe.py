"""The probe of cache isolation sees what it looks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from generation.probe import Isolation, probe
from generation.scripted import ScriptedEngine
from generation.types import Delta, Prompt, Sampling, Usage


class Careless(ScriptedEngine):
    """Ignores the salt, or tells other counts of cached tokens than it should."""

    def __init__(self, told: list[int | None]) -> None:
        super().__init__(["x"])
        self._told = told

    async def stream(
        self, prompt: Prompt, sampling: Sampling, timeout_s: float
    ) -> AsyncGenerator[Delta | Usage, None]:
        async for piece in super().stream(prompt, sampling, timeout_s):
            yield Usage(500, 1, self._told.pop(0)) if isinstance(piece, Usage) else piece


def test_an_engine_that_keeps_salts_apart_holds() -> None:
    assert asyncio.run(probe(ScriptedEngine(["x"]), 5.0)) is Isolation.HOLDS


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ([0, 480, 480], Isolation.BROKEN),
        ([0, 0, 480], Isolation.BROKEN),
        ([0, 480, 3], Isolation.HOLDS),
        ([0, 0, 0], Isolation.UNKNOWN),
        ([None, None, None], Isolation.UNKNOWN),
        ([0, 480, None], Isolation.UNKNOWN),
    ],
)
def test_what_is_not_told_is_unknown_and_what_is_shared_is_broken(
    told: list[int | None], found: Isolation
) -> None:
    assert asyncio.run(probe(Careless(told), 5.0)) is found
