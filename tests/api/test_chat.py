"""POST /v1/chat/completions through the app: shapes, failures, and what reaches the engine."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from acl.directory import find_collection
from acl.grants import set_rules
from generation.errors import EngineBusy
from generation.scripted import ScriptedEngine
from generation.types import Prompt
from tests.api.houses import ANSWER, Home, open_home, served

QUESTION = "when does the gate open at nine"
TEXT = "The gate opens at nine. Bring a badge."


def _body(**fields: object) -> dict[str, object]:
    return {
        "model": "ostiary", "messages": [{"role": "user", "content": QUESTION}], **fields
    }  # fmt: skip


@pytest.fixture
def engine() -> ScriptedEngine:
    """The engine behind the house."""
    return ScriptedEngine(ANSWER)


@pytest.fixture
def home(tmp_path: Path, engine: ScriptedEngine) -> Iterator[Home]:
    """A house with one document that everyone reads."""
    with open_home(tmp_path, engine) as opened:
        opened.document("open", "Gate", TEXT)
        yield opened


def _events(text: str) -> list[dict[str, object]]:
    lines = [each.removeprefix("data: ") for each in text.split("\n\n") if each]
    return [json.loads(each) for each in lines if each != "[DONE]"]


def test_a_whole_answer_has_the_shape_and_ours_in_one_field(home: Home) -> None:
    answer = home.ask("bo", "POST", "/v1/chat/completions", json=_body()).json()

    assert answer["object"] == "chat.completion"
    assert answer["model"] == "ostiary"
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == "The gate opens at nine [1]. Bring a badge [1]."
    assert choice["finish_reason"] == "stop"
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert set(usage) == {"prompt_tokens", "completion_tokens", "total_tokens"}
    ours = answer["ostiary"]
    assert set(ours) == {"citations", "refused", "stages", "evidence"}
    assert (ours["refused"], ours["evidence"]) == (False, 1)
    first = ours["citations"][0]
    assert choice["message"]["content"][first["position"] :].startswith("[1]")
    opened = home.ask("bo", "GET", first["url"]).json()
    assert (opened["text"], opened["title"]) == (TEXT, "Gate")


def test_a_stream_says_the_same_and_ends_with_ours_and_done(home: Home) -> None:
    response = home.ask("bo", "POST", "/v1/chat/completions", json=_body(stream=True))
    whole = home.ask("bo", "POST", "/v1/chat/completions", json=_body()).json()

    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["x-accel-buffering"] == "no"
    assert response.text.endswith("data: [DONE]\n\n")
    events = _events(response.text)
    assert {each["object"] for each in events} == {"chat.completion.chunk"}
    assert len({each["id"] for each in events}) == 1
    choices = [each["choices"][0] for each in events]  # type: ignore[index]
    text = "".join(each["delta"].get("content", "") for each in choices)
    assert text == whole["choices"][0]["message"]["content"]
    assert choices[0]["delta"]["role"] == "assistant"
    assert [each["finish_reason"] for each in choices] == [None] * (len(choices) - 1) + ["stop"]
    ours = [each["ostiary"] for each in events if "ostiary" in each]
    assert len(ours) == 1
    assert events[-1]["ostiary"] == ours[0]
    assert ours[0]["citations"] == whole["ostiary"]["citations"]  # type: ignore[index]
    assert all("usage" not in each for each in events)


def test_usage_comes_in_a_chunk_without_choices_and_only_when_asked_for(home: Home) -> None:
    options = {"include_usage": True}

    response = home.ask(
        "bo", "POST", "/v1/chat/completions", json=_body(stream=True, stream_options=options)
    )

    *others, last = _events(response.text)
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 4  # type: ignore[index]
    assert others
    assert all(each["usage"] is None and each["choices"] for each in others)


def test_an_answer_that_hits_its_limit_says_length(home: Home) -> None:
    answer = home.ask("bo", "POST", "/v1/chat/completions", json=_body(max_tokens=2)).json()

    assert answer["choices"][0]["finish_reason"] == "length"


def test_a_forbidden_answer_is_refused_as_one_that_does_not_exist(
    home: Home, engine: ScriptedEngine
) -> None:
    home.document("closed", "Pay", "Quarterly salaries of keepers rise sharply.")
    asked = [{"role": "user", "content": "quarterly salaries of keepers rise sharply"}]

    answers = {
        who: home.ask("bo" if who == "bo" else "zoe", "POST", "/v1/chat/completions",
                      json=_body(messages=asked)).json()
        for who in ("bo", "zoe")
    }  # fmt: skip

    for each in answers.values():
        assert each["choices"][0]["message"]["content"] == home.house.settings.refusal
        assert each["usage"]["total_tokens"] == 0
        assert each["ostiary"]["refused"]
        assert (each["ostiary"]["evidence"], each["ostiary"]["citations"]) == (0, [])
    assert engine.prompts == []


def test_no_header_of_a_caller_and_no_steering_field_reaches_the_engine(
    home: Home, engine: ScriptedEngine
) -> None:
    canary = "canary-4410"
    headers = {"X-Vllm-Priority": canary, "X-Session-ID": canary, "X-Conversation-Id": canary}
    steering = {"cache_salt": canary, "extra_key": canary, "chat_template": canary}

    home.ask("bo", "POST", "/v1/chat/completions", json=_body())
    home.ask("bo", "POST", "/v1/chat/completions", json=_body(**steering), headers=headers)

    plain, steered = engine.prompts
    assert plain == steered
    assert canary not in str(steered)


@pytest.mark.parametrize("streamed", [False, True])
def test_what_fails_before_the_first_word_is_a_status(tmp_path: Path, streamed: bool) -> None:
    with open_home(tmp_path, ScriptedEngine(ANSWER, fail_after=0)) as home:
        home.document("open", "Gate", TEXT)
        response = home.ask("bo", "POST", "/v1/chat/completions", json=_body(stream=streamed))

    assert (response.status_code, response.json()["error"]["code"]) == (503, "engine_down")
    assert int(response.headers["retry-after"]) > 0


def test_what_fails_after_the_first_word_is_an_error_event_without_an_end(tmp_path: Path) -> None:
    with open_home(tmp_path, ScriptedEngine(ANSWER, fail_after=3)) as home:
        home.document("open", "Gate", TEXT)
        response = home.ask("bo", "POST", "/v1/chat/completions", json=_body(stream=True))

    assert response.status_code == 200
    *words, last = _events(response.text)
    assert words
    assert last["error"]["code"] == "engine_down"  # type: ignore[index]
    assert "[DONE]" not in response.text
    assert '"finish_reason":"stop"' not in response.text
    assert "scripted to die" not in response.text


def test_a_busy_engine_says_when_to_come_back(tmp_path: Path) -> None:
    def busy(_: Prompt) -> list[str]:
        raise EngineBusy("all slots are taken")

    with open_home(tmp_path, ScriptedEngine(busy)) as home:
        home.document("open", "Gate", TEXT)
        response = home.ask("bo", "POST", "/v1/chat/completions", json=_body())

    assert (response.status_code, response.headers["retry-after"]) == (503, "2")


def test_a_right_revoked_in_mid_stream_breaks_it_off(tmp_path: Path) -> None:
    engine = ScriptedEngine(["word [1]. "] * 150, delay_s=0.05)
    with open_home(tmp_path, engine) as home:
        home.document("open", "Gate", TEXT)
        with served(home.app) as address, _streaming(home, address) as response:
            lines = response.iter_lines()
            next(lines)
            with home.house.database.writing(home.tenants["acme"]) as writing:
                set_rules(writing, find_collection(writing.session, "open"), set(), cut=True)
            rest = [each for each in lines if each]

    assert json.loads(rest[-1].removeprefix("data: "))["error"]["code"] == "evidence_revoked"
    assert len(rest) < 150


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_leaves_stops_the_engine(tmp_path: Path, streamed: bool) -> None:
    """Field report 55: engines went on for nobody, before and after the first word."""
    engine = ScriptedEngine(["word [1]. "] * 400, delay_s=0.05)
    with open_home(tmp_path, engine) as home:
        home.document("open", "Gate", TEXT)
        with served(home.app) as address:
            if streamed:
                with _streaming(home, address) as response:
                    next(response.iter_lines())
            else:
                with pytest.raises(httpx.ReadTimeout):
                    httpx.post(
                        f"{address}/v1/chat/completions", json=_body(),
                        headers=home.headers("bo"), timeout=1.5,
                    )  # fmt: skip
            _until_closed(engine)

    assert (engine.n_open, engine.n_closed) == (0, 1)
    assert home.house.database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]


def _streaming(home: Home, address: str) -> AbstractContextManager[httpx.Response]:
    return httpx.stream(
        "POST", f"{address}/v1/chat/completions", json=_body(stream=True, max_tokens=400),
        headers=home.headers("bo"), timeout=10,
    )  # fmt: skip


def _until_closed(engine: ScriptedEngine) -> None:
    late_s = time.monotonic() + 1
    while engine.n_closed == 0 and time.monotonic() < late_s:
        time.sleep(0.01)
