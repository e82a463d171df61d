"""Admission: how many requests are at work and waiting; the rest are told to come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pipeline.errors import Overloaded
from pipeline.types import Deadline

_RETRY_AFTER_S = 2


class Gate:
    """A bounded door: so many inside, so many in line, nobody beyond."""

    def __init__(self, max_running: int, max_waiting: int) -> None:
        self._inside = asyncio.Semaphore(max_running)
        self._max_waiting = max_waiting
        self._waiting = 0

    @asynccontextmanager
    async def admitted(self, deadline: Deadline) -> AsyncIterator[None]:
        """Let a request in, at once or before its deadline.

        Raises: Overloaded, at once when the line is full, else when the deadline is near.
        """
        if self._inside.locked() and self._waiting >= self._max_waiting:
            raise Overloaded(f"{self._waiting} requests are waiting already", _RETRY_AFTER_S)
        self._waiting += 1
        try:
            async with asyncio.timeout(deadline.remaining_s()):
                await self._inside.acquire()
        except TimeoutError:
            raise Overloaded("no place came free before the deadline", _RETRY_AFTER_S) from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._inside.release()
