"""What requests are kept together by, and how load is read."""

from __future__ import annotations

import asyncio

import pytest

from generation.capabilities import RECORDS
from generation.engine import RemoteEngine
from generation.errors import EngineDown
from generation.fleet import affinity, gauge, session_headers
from generation.types import Sampling
from tests.generation.fake_server import ALLOWED, END, WORDS, FakeServer, serving
from tests.generation.prompts import SALT, gather, make_evidence, make_prompt
from tests.generation.wires import WIRES, StrictEngine


def test_one_salt_and_prefix_have_one_key_whatever_the_question() -> None:
    assert affinity(make_prompt("one")) == affinity(make_prompt("other"))
    longer = make_prompt(evidence=make_evidence("a", "b"))
    assert affinity(longer) == affinity(make_prompt(evidence=make_evidence("a", "c")))


def test_another_salt_or_prefix_has_another_key_and_none_is_told() -> None:
    prompts = [
        make_prompt(),
        make_prompt(salt="b" * 43),
        make_prompt(salt=""),
        make_prompt(evidence=()),
        make_prompt(evidence=make_evidence("a")),
    ]
    keys = {affinity(prompt) for prompt in prompts}
    assert len(keys) == len(prompts)
    assert not any(SALT in key for key in keys)


@pytest.mark.parametrize(
    ("router", "header"),
    [
        ("llm-d", "x-session-id"),
        ("vllm-router", "x-session-id"),
        ("production-stack", "x-session-id"),
        ("aibrix", "x-aibrix-session-key"),
        ("sglang", "x-smg-routing-key"),
        ("ray", None),
        ("", None),
    ],
)
def test_each_router_gets_its_own_header(router: str, header: str | None) -> None:
    """The wire is looked at: what matters is what the router is sent."""
    prompt = make_prompt()

    async def work() -> str:
        server = FakeServer((*WORDS, *END), allowed=ALLOWED | {"cache_salt"})
        async with serving(server) as url:
            engine = RemoteEngine(
                url, RECORDS["vllm"], model="m", context_tokens=512, direct=True, router=router
            )
            await gather(engine.stream(prompt, Sampling(), 5.0))
            await engine.close()
        return server.heads[-1].lower()

    sent = asyncio.run(work())
    assert (affinity(prompt) in sent) == (header is not None)
    if header:
        assert f"\r\n{header}: {affinity(prompt)}\r\n" in sent
        assert session_headers(router, prompt)


def test_behind_a_router_nothing_is_retried() -> None:
    """vllm-router tries five times for itself: ours would multiply them."""

    async def work() -> int:
        server = FakeServer((*WORDS, *END), n_dropped=1, allowed=ALLOWED | {"cache_salt"})
        async with serving(server) as url:
            engine = RemoteEngine(
                url, RECORDS["vllm"], model="m", context_tokens=9, direct=True, router="llm-d"
            )
            with pytest.raises(EngineDown):
                await gather(engine.stream(make_prompt(), Sampling(), 5.0))
            await engine.close()
        return len(server.bodies)

    assert asyncio.run(work()) == 1


def test_load_is_read_from_the_metrics_that_each_engine_has() -> None:
    async def load(kind: str) -> float | None:
        async with serving(StrictEngine(WIRES[kind])) as url:
            engine = RemoteEngine(url, RECORDS[kind], model="m", context_tokens=9, direct=True)
            try:
                return await engine.load()
            finally:
                await engine.close()

    told = {kind: asyncio.run(load(kind)) for kind in WIRES if kind != "deepseek"}
    assert {kind for kind, load in told.items() if load is None} == {"triton", "openai"}
    assert {load for load in told.values() if load is not None} == {3.0}


def test_metrics_are_added_over_labels_and_names_that_only_begin_alike_are_not() -> None:
    text = (
        "# HELP run how many run 9\n# TYPE run gauge\n"
        'run{engine="0",name="a b}"} 2.0 1700000000\nrun{engine="1"} 1e0\n'
        'run_by_reason{reason="x"} 5.0\nwait 4\n'
    )
    assert gauge(text, "run") == 3
    assert gauge(text, "run", "wait") == 7
    assert gauge(text, "absent") is None
    assert gauge("run NaN?\n", "run") is None
