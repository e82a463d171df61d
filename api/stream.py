"""Work that ends when the client goes: before a response begins, and while one streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import suppress
from typing import TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.errors import ClientGone
from pipeline.types import Deadline

T = TypeVar("T")

# What the last events of a stream that ran out of time may take to leave.
_GRACE_S = 1.0


async def while_connected(receive: Receive, work: Awaitable[T]) -> T:
    """Do work for a client whose body has been read; cancel it when the client goes.

    Raises: ClientGone, and whatever the work raises.
    """
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        raise ClientGone("the client went away")
    finally:
        doing.cancel()
        leaving.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


class EventStream(Response):
    """Server-sent events from a generator that is closed however the stream ends.

    The framework's own streaming response cancels in a way that lets a generator await
    nothing while it closes; an engine is stopped by awaiting.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        source: AsyncGenerator[object, None],
        by: Deadline,
    ) -> None:
        """Take the events, and what they are made from: it may have begun before they did."""
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._source = source
        self._by = by

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the events end, the client goes or the deadline passes.

        An engine keeps its own time only while it is asked for more: a client that takes
        nothing must not hold it longer. Then the connection is broken off.
        """
        try:
            with suppress(ClientGone, TimeoutError):
                async with asyncio.timeout(self._by.remaining_s() + _GRACE_S):
                    await while_connected(receive, self._send(send))
        finally:
            await self._events.aclose()
            await self._source.aclose()

    async def _send(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        nothing = {"type": "http.response.body", "body": b"", "more_body": True}
        while True:
            # Waits until the client has taken what it was sent. Only then is the next event
            # made, and with it the check of its evidence: none grows old in a buffer (law 4).
            await send(nothing)
            event = await anext(self._events, None)
            if event is None:
                break
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
