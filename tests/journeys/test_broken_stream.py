"""An engine that breaks off, seen from the client's side: never an answer that looks finished."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import httpx
import pytest

from generation.capabilities import RECORDS
from generation.engine import RemoteEngine
from tests.api.houses import ANSWER, Home, open_home
from tests.generation.fake_server import END, word
from tests.generation.wires import WIRES, StrictEngine

_ASK = {
    "model": "ostiary",
    "messages": [{"role": "user", "content": "when does the gate open at nine"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}
_WORDS = tuple(word(each) for each in ANSWER)
_WHOLE = (*_WORDS, word("", "stop"), END[1], END[2])


async def _told(home: Home, script: tuple[str, ...], server: StrictEngine) -> httpx.Response:
    server.script = script
    transport = httpx.ASGITransport(home.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        return await client.post("/v1/chat/completions", json=_ASK, headers=home.headers("bo"))


@pytest.mark.parametrize("kind", ["vllm", "sglang", "trtllm", "tgi", "triton", "llamacpp"])
def test_an_engine_that_breaks_off_anywhere_is_an_error_to_the_client(
    tmp_path: Path, kind: str
) -> None:
    """Cut before, between and inside events, or told of an error in the engine's own shape."""
    wire = WIRES[kind]
    tails = [wire.midway, ("die",), (_WORDS[0][:9], "die")]
    broken = [(*_WHOLE[:n], *tail) for n in range(len(ANSWER) + 1) for tail in tails]

    async def work(home: Home, listener: socket.socket) -> list[httpx.Response]:
        server = StrictEngine(wire)
        async with await asyncio.start_server(server.serve, sock=listener):
            answers = [await _told(home, script, server) for script in (*broken, _WHOLE)]
            await engine.close()
            return answers

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    engine = RemoteEngine(url, RECORDS[kind], model="m", context_tokens=2048, direct=True)
    with open_home(tmp_path, engine) as home:
        home.document("open", "Gate", "The gate opens at nine. Bring a badge.")
        *failed, whole = asyncio.run(work(home, listener))
    assert whole.text.endswith("data: [DONE]\n\n")
    assert '"finish_reason":"stop"' in whole.text
    assert {each.status_code for each in failed} == {200, 503}
    for each in failed:
        assert "[DONE]" not in each.text
        assert '"finish_reason":"' not in each.text
        assert "boom" not in each.text
        last = json.loads(each.text.rstrip().rpartition("data: ")[2])
        assert last["error"]["code"] == "engine_down"
