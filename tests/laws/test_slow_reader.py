"""Laws 4 and 7 with a client that takes nothing: no check grows old, no engine is held."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from acl.session import Writing
from generation.scripted import ScriptedEngine
from tests.api.houses import Home, served
from tests.laws.changes import CONTENT, PERSON, elsewhere, told_house

CHAT = {
    "model": "ostiary", "stream": True, "messages": [{"role": "user", "content": "heron code"}],
}  # fmt: skip
# More than the buffers of both ends of a loopback connection hold.
LONG, N_LONG = "word " * 40_000, 150
# The oldest check that a byte may leave on.
OLDEST_S = 0.1
# Threads of a busy machine wake up late.
SLACK_S = 2.0

Message = MutableMapping[str, Any]


class Full:
    """A server's buffer: it is full after `n_events`, and then each send waits to be drained."""

    def __init__(self, n_events: int) -> None:
        self._room = n_events
        self.drained, self.waiting = asyncio.Event(), asyncio.Event()
        self.drained.set()
        self.events: list[bytes] = []

    async def send(self, message: Message) -> None:
        """Take one message of the app."""
        if not self.drained.is_set():
            self.waiting.set()
        await self.drained.wait()
        body = message.get("body", b"")
        if body:
            self.events.append(body)
            if len(self.events) == self._room:
                self.drained.clear()


async def _chat(home: Home, buffer: Full) -> None:
    """Send one streamed chat as ana straight to the app."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": "/v1/chat/completions", "raw_path": b"/v1/chat/completions",
        "query_string": b"", "root_path": "",
        "headers": [(name.lower(), value) for name, value in home.headers("ana")],
    }  # fmt: skip
    asked = [{"type": "http.request", "body": json.dumps(CHAT).encode(), "more_body": False}]

    async def receive() -> Message:
        if asked:
            return asked.pop()
        await asyncio.Event().wait()
        raise AssertionError("the client never leaves")

    await home.app(scope, receive, buffer.send)


def _told(events: list[bytes]) -> list[dict[str, Any]]:
    assert not any(b"[DONE]" in each for each in events)
    return [json.loads(each.removeprefix(b"data: ")) for each in events]


@pytest.mark.parametrize("name", [*CONTENT, *PERSON])
def test_no_word_waits_in_line_behind_a_reader_who_takes_nothing(tmp_path: Path, name: str) -> None:
    """An event made before the buffer was full, and sent when it drained, bore an old check."""
    change: Callable[[Writing], None] = {**CONTENT, **PERSON}[name]
    engine = ScriptedEngine([f"word{n} " for n in range(100)], delay_s=0.01)

    async def read_late() -> Full:
        buffer = Full(3)
        chat = asyncio.create_task(_chat(home, buffer))
        await asyncio.wait_for(buffer.waiting.wait(), 20)
        with elsewhere(home) as writing:
            change(writing)
        await asyncio.sleep(OLDEST_S)
        buffer.drained.set()
        await asyncio.wait_for(chat, 20)
        return buffer

    with told_house(tmp_path, engine) as home:
        events = _told(asyncio.run(read_late()).events)

    assert ["error" in each for each in events] == [False, False, False, True]
    assert events[-1]["error"]["code"] == "evidence_revoked"
    assert (engine.n_open, engine.n_closed) == (0, 1)


def test_a_reader_who_was_late_gets_all_of_it_if_nothing_was_taken_away(tmp_path: Path) -> None:
    """The control: waiting alone does not end a stream."""
    engine = ScriptedEngine([f"word{n} " for n in range(20)], delay_s=0.01)

    async def read_late() -> Full:
        buffer = Full(3)
        chat = asyncio.create_task(_chat(home, buffer))
        await asyncio.wait_for(buffer.waiting.wait(), 20)
        await asyncio.sleep(0.2)
        buffer.drained.set()
        await asyncio.wait_for(chat, 20)
        return buffer

    with told_house(tmp_path, engine) as home:
        events = asyncio.run(read_late()).events

    assert events[-1] == b"data: [DONE]\n\n"
    assert sum(b"word" in each for each in events) >= 19


class Counted:
    """An engine's clock that counts the deltas it was asked for."""

    def __init__(self) -> None:
        self.n = 0

    async def sleep(self, delay_s: float) -> None:
        """Count one."""
        self.n += 1
        await asyncio.sleep(0)

    def until_still(self) -> int:
        """Wait until no more is asked for; gives how many were."""
        last, since_s = self.n, time.monotonic()
        while time.monotonic() - since_s < 0.4 or not last:
            time.sleep(0.02)
            if self.n != last:
                last, since_s = self.n, time.monotonic()
        return last


@contextmanager
def _asked(home: Home, url: str) -> Iterator[socket.socket]:
    """Ask over a real connection, and read nothing yet."""
    body, place = json.dumps(CHAT).encode(), urlsplit(url)
    assert place.hostname is not None
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(30)
        client.connect((place.hostname, place.port))
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
            f"Authorization: Bearer {home.keys['ana']}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        client.sendall(head.encode() + body)
        yield client


def test_over_a_real_connection_nothing_is_made_after_it_was_taken_away(tmp_path: Path) -> None:
    clock = Counted()
    engine = ScriptedEngine([LONG] * N_LONG, sleep=clock.sleep)
    with told_house(tmp_path, engine) as home, served(home.app) as url, _asked(home, url) as client:
        n_made = clock.until_still()
        assert 0 < n_made < N_LONG, "the reader holds the engine back"
        with elsewhere(home) as writing:
            CONTENT["a grant is revoked"](writing)
        received = b"".join(iter(lambda: client.recv(1 << 20), b""))

    n_words = received.count(b'"content"')
    assert 0 < n_words <= n_made
    assert b"evidence_revoked" in received
    assert b"[DONE]" not in received
    assert b'"finish_reason":"stop"' not in received
    assert engine.n_closed == 1


def test_a_reader_who_takes_nothing_does_not_hold_the_engine_past_the_deadline(
    tmp_path: Path,
) -> None:
    clock = Counted()
    engine = ScriptedEngine([LONG] * N_LONG, sleep=clock.sleep)
    with (
        told_house(tmp_path, engine, timeout_s=1.5) as home,
        served(home.app) as url,
        _asked(home, url),
    ):
        began_s = time.monotonic()
        assert clock.until_still() < N_LONG
        while engine.n_open and time.monotonic() - began_s < 1.5 + SLACK_S:
            time.sleep(0.05)
        n_open = engine.n_open

    assert n_open == 0
    assert engine.n_closed == 1
