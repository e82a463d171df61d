"""Admission: how many requests are at work and waiting, each tenant with its share of both."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pipeline.errors import Overloaded
from pipeline.types import Deadline

_RETRY_AFTER_S = 2


class Gate:
    """A bounded door: so many inside, so many in line, and every tenant a line of its own.

    A place that comes free goes to the tenant that has the fewest inside, and among equals to
    the one whose turn is longest ago. When all lines together are full, who comes takes the
    place of the last in the longest line, unless that is its own: so a tenant that floods
    sheds its own requests. Max-min fairness over places (Bertsekas and Gallager, Data
    Networks, 2nd ed., section 6.5.2); requests are about equally dear.
    """

    def __init__(self, max_running: int, max_waiting: int) -> None:
        self._free = max_running
        self._max_waiting = max_waiting
        self._inside: Counter[str] = Counter()
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        # Which turn, counted from the first, a tenant had last.
        self._turns: dict[str, int] = {}
        self._n_turns = 0

    @asynccontextmanager
    async def admitted(self, tenant: str, deadline: Deadline) -> AsyncIterator[None]:
        """Let a request in, at once or before its deadline.

        Raises: Overloaded, at once when there is no place in line for this tenant, later if
        its place went to a tenant with fewer in line, or when the deadline has come.
        """
        if self._free and not self._lines:
            self._enter(tenant)
        else:
            await self._wait(tenant, deadline)
        try:
            yield
        finally:
            self._exit(tenant)

    async def _wait(self, tenant: str, deadline: Deadline) -> None:
        self._make_room(tenant)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant, deque()).append(turn)
        try:
            async with asyncio.timeout(deadline.remaining_s()):
                await turn
        except BaseException as failure:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._exit(tenant)  # the turn came as we left: it goes to the next
            self._leave(tenant, turn)
            if isinstance(failure, TimeoutError):
                said = "no place came free before the deadline"
                raise Overloaded(said, _RETRY_AFTER_S) from None
            raise

    def _make_room(self, tenant: str) -> None:
        n_waiting = sum(len(line) for line in self._lines.values())
        if n_waiting < self._max_waiting:
            return
        said = f"{n_waiting} requests are waiting already"
        longest = max(self._lines, key=lambda each: len(self._lines[each]), default=tenant)
        own = len(self._lines.get(tenant, ()))
        if longest == tenant or len(self._lines[longest]) <= own + 1:
            raise Overloaded(said, _RETRY_AFTER_S)
        last = self._lines[longest].pop()
        if not last.done():
            last.set_exception(Overloaded(said, _RETRY_AFTER_S))

    def _call(self) -> None:
        """Give free places to those whose turn it is."""
        while self._free and self._lines:
            tenant = min(
                self._lines, key=lambda each: (self._inside[each], self._turns.get(each, 0))
            )
            turn = self._lines[tenant].popleft()
            if not self._lines[tenant]:
                del self._lines[tenant]
            if not turn.done():  # one that gave up has not left its line yet
                self._enter(tenant)
                turn.set_result(None)

    def _exit(self, tenant: str) -> None:
        self._free += 1
        self._inside[tenant] -= 1
        if not self._inside[tenant]:
            del self._inside[tenant]
        self._call()

    def _enter(self, tenant: str) -> None:
        self._free -= 1
        self._inside[tenant] += 1
        self._n_turns += 1
        self._turns[tenant] = self._n_turns

    def _leave(self, tenant: str, turn: asyncio.Future[None]) -> None:
        line = self._lines.get(tenant)
        if line is not None and turn in line:
            line.remove(turn)
            if not line:
                del self._lines[tenant]
