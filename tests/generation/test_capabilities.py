"""Each record against a fake as strict as its engine: what is sent passes, what comes is read."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from generation.capabilities import RECORDS
from generation.capability import Gauge, Unknown
from generation.engine import RemoteEngine
from generation.errors import EngineBusy, EngineDown, PromptTooLong
from generation.template import first_block
from generation.types import Delta, Finish, Sampling, Usage
from tests.generation.fake_server import WORDS, serving, word
from tests.generation.prompts import SALT, gather, make_prompt
from tests.generation.wires import VLLM, WIRES, StrictEngine, Wire

SAMPLING = Sampling(max_tokens=9, seed=1, stop=("x",))
by_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


def ask(server: StrictEngine, sampling: Sampling = SAMPLING) -> list[Delta | Usage]:
    async def work() -> list[Delta | Usage]:
        async with serving(server) as url:
            engine = connect(url, server.wire)
            try:
                return await gather(engine.stream(make_prompt(), sampling, 5.0))
            finally:
                await engine.close()

    return asyncio.run(work())


def connect(url: str, wire: Wire) -> RemoteEngine:
    return RemoteEngine(url, RECORDS[wire.kind], model="m", context_tokens=512, direct=True)


def test_every_engine_that_is_reached_has_a_wire() -> None:
    assert {wire.kind for wire in WIRES.values()} == RECORDS.keys() - {"embedded"}


@by_wire
def test_what_we_send_passes_a_strict_engine_and_its_usage_is_read(wire: Wire) -> None:
    server = StrictEngine(wire)
    pieces = ask(server)
    assert "".join(p.text for p in pieces if isinstance(p, Delta)) == "So it is."
    assert pieces[-2:] == [Delta("", Finish.STOP), Usage(7, 3, wire.cached)]
    assert server.bodies[0].keys() <= wire.allowed


@by_wire
def test_the_salt_stands_in_its_field_or_before_everything_shared(wire: Wire) -> None:
    server = StrictEngine(wire)
    ask(server)
    body = server.bodies[0]
    field = RECORDS[wire.kind].salt_field
    messages = body["messages"]
    assert isinstance(messages, list)
    assert (field is None) == messages[0]["content"].startswith(first_block(SALT))
    assert body.get("cache_salt") == (SALT if field else None)


@by_wire
def test_a_prompt_that_does_not_fit_is_named_without_the_engines_words(wire: Wire) -> None:
    server = StrictEngine(wire)
    server.status, server.refusal = wire.too_long
    with pytest.raises(PromptTooLong, match=r"512 tokens; the prompt has \w+.* may take 9"):
        ask(server)


@by_wire
def test_an_overloaded_engine_is_busy(wire: Wire) -> None:
    server = StrictEngine(wire)
    server.status, server.refusal = wire.busy
    with pytest.raises(EngineBusy):
        ask(server)


@by_wire
def test_an_error_midway_is_an_error_in_every_engines_shape(wire: Wire) -> None:
    with pytest.raises(EngineDown) as caught:
        ask(StrictEngine(wire, (*WORDS, *wire.midway)))
    assert "boom" not in str(caught.value)


@by_wire
def test_readiness_asks_the_path_that_the_engine_has(wire: Wire) -> None:
    async def work() -> tuple[bool, bool]:
        server = StrictEngine(wire)
        async with serving(server) as url:
            engine = connect(url, wire)
            up = await engine.ready()
            server.status = 503
            down = await engine.ready()
            await engine.close()
            return up, down

    up, down = asyncio.run(work())
    assert up
    assert down == (wire.health == "/v1/models")


@pytest.mark.parametrize("wire", [w for w in WIRES.values() if w.unknown], ids=lambda w: w.kind)
def test_a_field_of_another_engine_would_be_refused_by_a_strict_one(wire: Wire) -> None:
    """The reason for the allow-lists: one body for all engines is a 400 on half of them."""

    class Loose(StrictEngine):
        def _refuses(self, body: dict[str, object]) -> tuple[int, object] | None:
            return super()._refuses(body | {"id_slot": 1})

    with pytest.raises(EngineDown):
        ask(Loose(wire))
    assert RECORDS[wire.kind].unknown in {Unknown.REFUSED, Unknown.UNTOLD}


@pytest.mark.parametrize("salt", ["a/b", "a@b", "a\\b", "a\0b", "x" * 129])
def test_a_salt_that_the_engine_refuses_never_leaves_and_is_not_told(salt: str) -> None:
    record = RECORDS["vllm"]
    with pytest.raises(ValueError, match="characters") as caught:
        record.salted(salt)
    assert salt not in str(caught.value)
    assert StrictEngine(VLLM)._refuses({"cache_salt": salt}) is not None


@pytest.mark.parametrize("kind", sorted(RECORDS))
def test_records_hold_together(kind: str) -> None:
    record = RECORDS[kind]
    assert record.kind == kind
    assert (record.metrics_path is None) == (not record.metrics) or kind == "triton"
    assert record.salted("") == {}
    if record.salt_field:
        assert record.salted(SALT) == {record.salt_field: SALT}
    if record.metrics:
        assert {Gauge.RUNNING, Gauge.WAITING} <= record.metrics.keys()
    assert 400 not in record.busy_codes


def test_the_cut_may_come_anywhere_and_is_never_a_finished_answer() -> None:
    """Cut after each event, and in the middle of one: an error unless the finish had come."""
    events = (*WORDS, word("", "stop"))
    for n_whole in range(len(events)):
        rest = events[n_whole]
        for tail in ((), (rest[: len(rest) // 2],)):
            with pytest.raises(EngineDown):
                ask(StrictEngine(replace(VLLM), (*events[:n_whole], *tail, "die")))
