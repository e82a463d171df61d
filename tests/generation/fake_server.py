"""A strict engine over HTTP on the loopback, scripted to answer well or badly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

ALLOWED = frozenset(
    {"model", "messages", "stream", "stream_options", "max_tokens", "temperature", "seed", "stop"}
)
_CHUNK = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}


def word(text: str, finish: str | None = None) -> str:
    """Give the event of one piece of text."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return event(_CHUNK | {"choices": [choice]})


def usage(cached: int | None = None) -> str:
    """Give the last event, which has no choices."""
    counts: dict[str, object] = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    if cached is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": cached}
    return event(_CHUNK | {"choices": [], "usage": counts})


def event(content: object) -> str:
    """Give a server-sent event."""
    return f"data: {json.dumps(content)}\n\n"


WORDS = (word("So "), word("it "), word("is."))
END = (word("", "stop"), usage(), "data: [DONE]\n\n")


class FakeServer:
    """Serves one script: a string is sent, a number is slept, "die" breaks the connection off.

    Unknown body fields are refused with 400, as strict engines do. `bodies` and `heads` are what it
    was sent; `asked` is set by the first, `left` when a client goes before the end. The first
    `n_dropped` are not answered: their connections are closed. `told` is added to the entry of
    its model.
    """

    def __init__(
        self,
        script: Sequence[str | float],
        status: int = 200,
        refusal: object = None,
        allowed: frozenset[str] = ALLOWED,
        n_dropped: int = 0,
        told: dict[str, object] | None = None,
    ) -> None:
        self.told = told or {}
        self.heads: list[str] = []
        self.n_dropped = n_dropped
        self.script = script
        self.status = status
        self.refusal = refusal
        self.allowed = allowed
        self.bodies: list[dict[str, object]] = []
        self.left = asyncio.Event()
        self.asked = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection, one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            length = next(
                (
                    int(h.split(":")[1])
                    for h in head.lower().splitlines()
                    if h[:15] == "content-length:"
                ),
                0,
            )
            body = json.loads(await reader.readexactly(length)) if length else {}
            await self._answer(head.split()[1], body, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()

    async def _answer(
        self,
        path: str,
        body: dict[str, object],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        if path.endswith("/models"):
            model = {"id": "fake", "object": "model", "created": 1, "owned_by": "us"} | self.told
            return self._whole(writer, 200, {"object": "list", "data": [model]})
        if path.endswith("/health"):
            return self._whole(writer, self.status, {"status": "ok"})
        if path.endswith("/tokenize"):
            text = str(body.get("content", body.get("prompt")))
            return self._whole(writer, self.status, {"tokens": list(range(len(text.split())))})
        self.bodies.append(body)
        self.asked.set()
        if len(self.bodies) <= self.n_dropped:
            return None
        if unknown := body.keys() - self.allowed:
            return self._whole(writer, 400, {"error": {"message": f"unknown {sorted(unknown)}"}})
        if self.status != 200:
            return self._whole(writer, self.status, self.refusal)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        writer.write(b"transfer-encoding: chunked\r\n\r\n")
        gone = asyncio.create_task(reader.read(1))
        for step in self.script:
            if step == "die":
                gone.cancel()
                return writer.transport.abort()
            if isinstance(step, str):
                writer.write(f"{len(step.encode()):x}\r\n{step}\r\n".encode())
                await writer.drain()
            else:
                await asyncio.wait([gone], timeout=step)
            if gone.done():
                self.left.set()
                return None
        writer.write(b"0\r\n\r\n")
        gone.cancel()
        return None

    def _whole(self, writer: asyncio.StreamWriter, status: int, content: object) -> None:
        body = json.dumps(content)
        writer.write(
            f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()
        )


@asynccontextmanager
async def serving(server: FakeServer) -> AsyncIterator[str]:
    """Run a fake server; gives its base URL."""
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1"
