"""The OpenAI-protocol client against an engine that behaves well, badly, and not at all."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing

import pytest

from generation.budget import fit
from generation.capabilities import RECORDS
from generation.engine import RemoteEngine
from generation.errors import EngineBusy, EngineDown, PromptTooLong
from generation.template import first_block
from generation.types import Delta, Finish, Sampling, Usage
from tests.generation.fake_server import (
    ALLOWED,
    END,
    WORDS,
    FakeServer,
    event,
    serving,
    usage,
    word,
)
from tests.generation.prompts import SALT, gather, make_prompt

SAMPLING = Sampling(max_tokens=9)


def connect(url: str, kind: str = "openai", model: str = "fake") -> RemoteEngine:
    return RemoteEngine(
        url, RECORDS[kind], model=model, api_key="k3y", context_tokens=512, direct=True
    )


def ask(
    server: FakeServer, kind: str = "openai", timeout_s: float = 5.0, model: str = "fake"
) -> list[Delta | Usage]:
    async def work() -> list[Delta | Usage]:
        async with serving(server) as url:
            engine = connect(url, kind, model)
            try:
                return await gather(engine.stream(make_prompt(), SAMPLING, timeout_s))
            finally:
                await engine.close()

    return asyncio.run(work())


def texts(pieces: list[Delta | Usage]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Delta))


def test_text_finish_and_usage_come_in_order() -> None:
    pieces = ask(FakeServer((*WORDS, word("", "stop"), usage(cached=4), "data: [DONE]\n\n")))
    assert texts(pieces) == "So it is."
    assert pieces[-2:] == [Delta("", Finish.STOP), Usage(7, 3, 4)]


def test_cached_tokens_that_are_not_told_are_unknown_and_not_zero() -> None:
    assert ask(FakeServer((*WORDS, *END)))[-1] == Usage(7, 3, None)


def test_comments_empty_choices_and_missing_usage_are_borne() -> None:
    """A field case: clients index choices[0] and break on the chunk that has none."""
    odd = (": ping\n\n", event({"choices": []}), word("", "length"), "data: [DONE]\n\n")
    pieces = ask(FakeServer((*WORDS, *odd)))
    assert texts(pieces) == "So it is."
    assert pieces[-1] == Delta("", Finish.LENGTH)


@pytest.mark.parametrize(
    "end",
    [
        ("die",),
        (),
        ("data: [DONE]\n\n",),
        (event({"error": {"message": "boom", "code": 500}}), "data: [DONE]\n\n"),
        (event({"error": "boom"}),),
        ("data: {broken\n\n",),
        (word("", "abort"), "data: [DONE]\n\n"),
    ],
)
def test_an_answer_that_breaks_off_is_an_error_after_its_words(end: tuple[str, ...]) -> None:
    """A field case: an engine died after three tokens and the client saw a finished answer."""

    async def work() -> None:
        async with serving(FakeServer((*WORDS, *end))) as url:
            engine = connect(url)
            seen: list[Delta | Usage] = []

            async def read() -> None:
                async for piece in engine.stream(make_prompt(), SAMPLING, 5.0):
                    seen.append(piece)  # noqa: PERF401 what came before the error counts

            with pytest.raises(EngineDown) as caught:
                await read()
            assert texts(seen) == "So it is."
            assert "boom" not in str(caught.value)
            await engine.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("status", "refusal", "error"),
    [
        (429, {"error": {"message": "slow down"}}, EngineBusy),
        (503, {"error": {"message": "full"}}, EngineBusy),
        (500, {"error": {"message": "x"}}, EngineDown),
        (401, {"error": {"message": "who?"}}, EngineDown),
        (400, {"error": {"message": "bad", "code": "x"}}, EngineDown),
        (400, {"error": {"code": "context_length_exceeded"}}, PromptTooLong),
        (307, {}, EngineDown),
    ],
)
def test_refusals_are_named_by_what_can_be_done(
    status: int, refusal: object, error: type[Exception]
) -> None:
    server = FakeServer((), status=status, refusal=refusal)
    with pytest.raises(error):
        ask(server)
    assert len(server.bodies) == 1


def test_llamacpp_tells_how_long_the_prompt_was() -> None:
    refusal = {"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 700}}
    with pytest.raises(PromptTooLong, match=r"512 tokens; the prompt has 700 .* take 9"):
        ask(FakeServer((), 400, refusal), "llamacpp")


def test_no_engine_at_all_is_engine_down() -> None:
    async def work() -> None:
        engine = connect("http://127.0.0.1:9/v1")
        with pytest.raises(EngineDown):
            await gather(engine.stream(make_prompt(), SAMPLING, 5.0))
        assert not await engine.ready()
        await engine.close()

    asyncio.run(work())


def test_a_connection_that_was_closed_while_idle_is_tried_once_more() -> None:
    """llama.cpp closed a kept connection after 5 s, just as it was taken up again."""
    once = FakeServer((*WORDS, *END), n_dropped=1)
    assert texts(ask(once)) == "So it is."
    assert len(once.bodies) == 2
    twice = FakeServer((*WORDS, *END), n_dropped=2)
    with pytest.raises(EngineDown):
        ask(twice)
    assert len(twice.bodies) == 2


@pytest.mark.parametrize("script", [(10.0,), (*WORDS, 10.0)])
def test_the_deadline_ends_a_hanging_engine_and_lets_go_of_it(
    script: tuple[str | float, ...],
) -> None:
    async def work() -> None:
        server = FakeServer(script)
        async with serving(server) as url:
            engine = connect(url)
            with pytest.raises(TimeoutError):
                await gather(engine.stream(make_prompt(), SAMPLING, 0.2))
            await asyncio.wait_for(server.left.wait(), 1.0)
            await engine.close()

    asyncio.run(work())


def test_closing_the_stream_closes_the_response_at_once() -> None:
    """A field case: the client had gone, and generation went on upstream."""

    async def work() -> None:
        server = FakeServer((*WORDS, 10.0, *END))
        async with serving(server) as url:
            engine = connect(url)
            async with aclosing(engine.stream(make_prompt(), SAMPLING, 20.0)) as pieces:
                assert await anext(pieces) == Delta("So ")
            await asyncio.wait_for(server.left.wait(), 1.0)
            await engine.close()

    asyncio.run(work())


def test_cancelling_before_the_first_token_closes_the_response_too() -> None:
    async def work() -> None:
        server = FakeServer((10.0, *END))
        async with serving(server) as url:
            engine = connect(url)
            task = asyncio.create_task(gather(engine.stream(make_prompt(), SAMPLING, 20.0)))
            await server.asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(server.left.wait(), 1.0)
            await engine.close()

    asyncio.run(work())


def test_a_salt_goes_into_the_field_or_into_the_first_block_never_both() -> None:
    vllm = FakeServer((*WORDS, *END), allowed=ALLOWED | {"cache_salt"})
    ask(vllm, "vllm")
    assert vllm.bodies[0]["cache_salt"] == SALT
    assert first_block(SALT) not in str(vllm.bodies[0])
    hosted = FakeServer((*WORDS, *END))
    ask(hosted, "openai")
    assert SALT not in str(hosted.bodies[0])
    assert first_block(SALT) in str(hosted.bodies[0]["messages"])


def test_an_unnamed_model_is_the_first_one_listed() -> None:
    server = FakeServer((*WORDS, *END))
    ask(server, model="")
    assert server.bodies[0]["model"] == "fake"


def test_ready_follows_the_engines_health() -> None:
    async def work() -> None:
        server = FakeServer(())
        async with serving(server) as url:
            engine = connect(url, "vllm", model="")
            assert await engine.ready()
            assert engine.model == "fake"
            server.status = 503
            assert not await engine.ready()
            await engine.close()

    asyncio.run(work())


def test_a_smaller_window_that_the_engine_tells_is_believed_and_a_larger_one_is_not_taken() -> None:
    """A setting above the engine's window let prompts through that the engine then refused."""

    async def window(told: object, kind: str = "vllm") -> int:
        async with serving(FakeServer((), told={"max_model_len": told})) as url:
            engine = connect(url, kind)
            assert await engine.ready()
            await engine.close()
            return engine.context_tokens

    assert asyncio.run(window(256)) == 256
    assert asyncio.run(window(4096)) == 512
    assert asyncio.run(window(None)) == 512
    assert asyncio.run(window(256, "openai")) == 512


def test_the_window_is_asked_for_once_and_before_a_prompt_is_cut_to_it() -> None:
    """The first prompt after a start was cut to the setting, and the engine refused it."""

    async def work() -> tuple[int, int]:
        server = FakeServer((), told={"max_model_len": 160})
        async with serving(server) as url:
            engine = connect(url, "vllm")
            fitted = await fit(make_prompt(), engine, Sampling(max_tokens=90))
            await engine.close()
        n_asked = sum("/models" in head for head in server.heads)
        return fitted.sampling.max_tokens, n_asked

    assert asyncio.run(work()) == (80, 1)


def test_tokens_are_counted_by_the_engine_or_estimated_high() -> None:
    async def work() -> None:
        async with serving(FakeServer(())) as url:
            for kind in ("vllm", "llamacpp"):
                engine = connect(url, kind)
                assert await engine.count_tokens("one two three") == 3
                await engine.close()
            hosted = connect(url)
            assert await hosted.count_tokens("a plain sentence of seven words here") >= 9
            assert await hosted.count_tokens("日本語") >= 3
            await hosted.close()

    asyncio.run(work())


def test_neither_logs_nor_errors_tell_prompt_salt_or_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = ("Aurora", SALT, first_block(SALT), "k3y")
    echo = {"error": {"message": f"bad prompt: Aurora {SALT} k3y"}}
    ask(FakeServer((*WORDS, *END), allowed=ALLOWED | {"cache_salt"}), "vllm")
    with pytest.raises(EngineDown) as caught:
        ask(FakeServer((), 400, echo))
    told = caplog.text + repr(caught.value)
    assert [secret for secret in secrets if secret in told] == []
    assert caught.value.__cause__ is None
