"""Bodies are allow-lists."""

from __future__ import annotations

import pytest

from generation.capabilities import RECORDS
from generation.capability import Route, chat_body
from generation.types import Sampling
from tests.generation.fake_server import ALLOWED


@pytest.mark.parametrize("kind", sorted(RECORDS))
def test_without_extras_a_body_has_only_the_common_fields(kind: str) -> None:
    sampling = Sampling(max_tokens=5, seed=3, stop=("x",))
    body = chat_body(RECORDS[kind], "m", [], sampling, {})
    assert body.keys() <= ALLOWED
    assert (body["max_tokens"], body["seed"], body["stop"]) == (5, 3, ["x"])


@pytest.mark.parametrize(
    ("kind", "field"),
    [("openai", "cache_salt"), ("vllm", "id_slot"), ("llamacpp", "cache_salt"), ("vllm", "tools")],
)
def test_a_field_that_the_engine_does_not_know_is_refused(kind: str, field: str) -> None:
    with pytest.raises(TypeError, match=field):
        chat_body(RECORDS[kind], "m", [], Sampling(), {field: 1})


def test_every_salt_field_is_an_allowed_field() -> None:
    salted = {kind for kind, r in RECORDS.items() if r.salt_field in r.extra.get(Route.CHAT, ())}
    assert salted == {kind for kind, r in RECORDS.items() if r.salt_field}
    assert salted == {"vllm", "sglang", "trtllm", "nim2-vllm", "nim2-sglang"}
