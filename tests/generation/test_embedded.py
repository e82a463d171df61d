"""The embedded llama.cpp: closed to others, slots apart, started anew when it dies."""

from __future__ import annotations

import asyncio
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from generation.embedded import EmbeddedEngine
from generation.errors import EngineBusy, EngineDown
from generation.types import Sampling, Usage
from pipeline.models import find, models_folder
from tests.generation.prompts import SALT, gather, make_prompt

ONE = Sampling(max_tokens=1)
TEMPLATE_TOKENS = 6


async def cached(engine: EmbeddedEngine, salt: str, question: str = "Who?") -> int:
    """Ask and read the tokens that came from the cache."""
    pieces = await gather(engine.stream(make_prompt(question, salt=salt), ONE, 60.0))
    usage = pieces[-1]
    assert isinstance(usage, Usage)
    assert usage.cached is not None
    return usage.cached


@pytest.mark.real
def test_a_salt_finds_its_cache_again_and_no_other_salt_does(
    real_engine: EmbeddedEngine, loop: asyncio.Runner
) -> None:
    """Three salts on two slots: the third takes over a used slot and finds the template only."""

    async def work() -> None:
        assert await cached(real_engine, "first" + SALT) <= TEMPLATE_TOKENS
        assert await cached(real_engine, "first" + SALT) > 100
        assert await cached(real_engine, "first" + SALT, "Where?") > 100
        for salt in ("second", "third", "fourth"):
            assert await cached(real_engine, salt + SALT) <= TEMPLATE_TOKENS

    loop.run(work())


@pytest.mark.real
def test_a_request_waits_for_a_slot_and_is_refused_in_the_end(loop: asyncio.Runner) -> None:
    async def work() -> None:
        engine = EmbeddedEngine(
            find("generator", models_folder()), context_tokens=512, slots=1, queue_s=0.05
        )
        stream = engine.stream(make_prompt(), Sampling(max_tokens=200), 60.0)
        await anext(stream)
        with pytest.raises(EngineBusy):
            await cached(engine, "b")
        await stream.aclose()
        assert await cached(engine, "b") <= TEMPLATE_TOKENS
        await engine.close()

    loop.run(work())


@pytest.mark.real
@pytest.mark.parametrize("path", ["/v1/models", "/props", "/slots", "/v1/chat/completions"])
def test_nobody_without_the_key_is_answered(real_engine: EmbeddedEngine, path: str) -> None:
    request = urllib.request.Request(real_engine.address + path)  # noqa: S310 our own loopback
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=5)  # noqa: S310 our own loopback
    with caught.value as refusal:
        assert refusal.code == 401
        assert not refusal.headers.get("access-control-allow-origin")


@pytest.mark.real
def test_it_listens_on_the_loopback_only(real_engine: EmbeddedEngine) -> None:
    assert real_engine.address.startswith("http://127.0.0.1:")


@pytest.mark.real
def test_an_engine_that_died_is_started_anew_and_a_closed_one_is_not(
    loop: asyncio.Runner, capfd: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        engine = EmbeddedEngine(find("generator", models_folder()), context_tokens=512, slots=1)
        before = engine.address
        assert await cached(engine, SALT) <= TEMPLATE_TOKENS
        engine._server = None
        with pytest.raises(EngineDown):
            await cached(engine, SALT)
        assert await engine.ready()
        assert engine.address != before
        assert await cached(engine, SALT) <= TEMPLATE_TOKENS
        address = engine.address
        await engine.close()
        assert not await engine.ready()
        host, _, port = address.rpartition("/")[2].partition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=1)

    loop.run(work())
    told = "".join(capfd.readouterr())
    assert "Aurora" not in told


def test_a_missing_model_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.gguf"):
        EmbeddedEngine(tmp_path / "absent.gguf")


def test_a_file_that_is_no_model_is_engine_down(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"not a model")
    with pytest.raises(EngineDown, match=r"broken\.gguf"):
        EmbeddedEngine(broken)
