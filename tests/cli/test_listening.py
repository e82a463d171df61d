"""Where the server listens: answers leave at once."""

from __future__ import annotations

import asyncio
import socket

from api.cli import _listen


def test_an_answer_of_two_segments_does_not_wait_for_an_acknowledgement() -> None:
    """Every answer over a kept connection took 40 ms longer than its work.

    The listening socket did not name its protocol, and asyncio then leaves Nagle's algorithm on.
    """

    async def nagle_is_off() -> int:
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            own = writer.get_extra_info("socket")
            seen.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = _listen("127.0.0.1", 0)
        async with await asyncio.start_server(serve, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            found = await seen
            writer.close()
            await writer.wait_closed()
        return found

    assert asyncio.run(nagle_is_off()) != 0
