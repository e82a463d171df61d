"""Several replicas of one engine as one: who gets a prompt, who is down, who gets no more."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from generation.errors import EngineBusy, EngineDown
from generation.fleet import affinity
from generation.types import Delta, Engine, Prompt, Sampling, Usage

_LOOK_S = 1.0
# No replica takes more than this many times the mean load.
_BOUND = 1.25


class Replica(Engine, Protocol):
    """An engine that can be told from its like, and says how busy it is."""

    @property
    def address(self) -> str:
        """The base URL."""
        ...

    async def load(self) -> float | None:
        """Give the requests that run and wait in it; None where it does not tell."""
        ...


@dataclass(slots=True)
class _Seat:
    engine: Replica
    up: bool = True
    n_ours: int = 0
    others: float = 0.0

    @property
    def load(self) -> float:
        return self.n_ours + self.others


class Replicas:
    """Replicas of one engine, of which each prompt goes to one.

    A prompt goes to the replica that ranks highest for its salt and prefix, among those that
    admit requests and are not loaded over 1.25 times the mean; their metrics, read about once
    a second under traffic, count what other gateways sent them. One that says it is not ready
    is drained: what it has begun it ends, new prompts go elsewhere, and come back to it when
    it is ready again. A prompt that finds its replica down or busy before its first token is
    tried once more, on another.

    Source: Thaler and Ravishankar 1998, "Using name-based mappings to increase hit rates";
    Mirrokni et al. 2018, "Consistent Hashing with Bounded Loads".
    """

    def __init__(self, engines: Sequence[Replica], *, look_s: float = _LOOK_S) -> None:
        if not engines:
            raise ValueError("no replica given, needed at least one")
        self._seats = [_Seat(engine) for engine in engines]
        self._look_s = look_s
        self._looked_s = -math.inf
        self._looking: asyncio.Task[None] | None = None

    @property
    def model(self) -> str:
        """The name of the model, as it is told to callers."""
        return self._seats[0].engine.model

    @property
    def context_tokens(self) -> int:
        """How many tokens prompt and answer may have together on every replica."""
        return min(seat.engine.context_tokens for seat in self._seats)

    @property
    def cites(self) -> bool:
        """Whether the model's own [n] marks can be relied on."""
        return self._seats[0].engine.cites

    async def stream(
        self, prompt: Prompt, sampling: Sampling, timeout_s: float
    ) -> AsyncGenerator[Delta | Usage, None]:
        """Give the answer's text as it comes, then its usage; see Engine.stream."""
        clock = asyncio.get_running_loop().time
        until = clock() + timeout_s
        self._look_if_due()
        first: _Seat | None = None
        while True:
            seat = self._choose(prompt, first)
            begun = False
            seat.n_ours += 1
            try:
                pieces = seat.engine.stream(prompt, sampling, until - clock())
                async with aclosing(pieces):
                    async for piece in pieces:
                        begun = True
                        yield piece
                return
            except (EngineDown, EngineBusy) as error:
                if isinstance(error, EngineDown):
                    self._doubt(seat)
                if begun or first is not None or len(self._seats) == 1:
                    raise
                first = seat
            finally:
                seat.n_ours -= 1

    async def count_tokens(self, text: str) -> int:
        """Count the engine's own tokens, on a replica that is up. Raises: as an engine's."""
        seats = sorted(self._seats, key=lambda seat: not seat.up)[:2]
        for seat in seats[:-1]:
            try:
                return await seat.engine.count_tokens(text)
            except EngineDown:
                self._doubt(seat)
        return await seats[-1].engine.count_tokens(text)

    async def ready(self) -> bool:
        """Say whether any replica would serve a request sent now."""
        await self._look()
        return any(seat.up for seat in self._seats)

    async def close(self) -> None:
        """Close the connections to all of them."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await asyncio.gather(*(seat.engine.close() for seat in self._seats))

    def _choose(self, prompt: Prompt, tried: _Seat | None) -> _Seat:
        able = [seat for seat in self._seats if seat is not tried]
        # With none known to be up, one that may have come back is better than no answer.
        able = [seat for seat in able if seat.up] or able
        key = affinity(prompt)
        ranked = sorted(able, key=lambda seat: _weight(key, seat.engine.address), reverse=True)
        bound = math.ceil(_BOUND * (sum(seat.load for seat in able) + 1) / len(able))
        # The mean is below the bound, so at least one is.
        return next(seat for seat in ranked if seat.load < bound)

    def _doubt(self, seat: _Seat) -> None:
        seat.up = False
        self._looked_s = -math.inf

    def _look_if_due(self) -> None:
        now_s = asyncio.get_running_loop().time()
        idle = self._looking is None or self._looking.done()
        if idle and now_s - self._looked_s >= self._look_s:
            self._looked_s = now_s
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        await asyncio.gather(*(self._look_at(seat) for seat in self._seats))

    async def _look_at(self, seat: _Seat) -> None:
        seat.up = await seat.engine.ready()
        told = await seat.engine.load() if seat.up else None
        seat.others = max(0.0, told - seat.n_ours) if told is not None else 0.0


def _weight(key: str, address: str) -> bytes:
    return hashlib.blake2b(f"{key} {address}".encode(), digest_size=8).digest()
