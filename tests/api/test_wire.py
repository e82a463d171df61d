"""A chat body becomes an ask, or is refused by the name of the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from acl.types import Principal
from api.errors import WireRefused
from api.wire import ChatAsk, event, read_chat
from generation.types import Message, Role, Sampling
from pipeline.settings import Settings
from pipeline.types import Deadline

SETTINGS = Settings(home=Path("nowhere"))
ANA = Principal("t1", 1, "user:ana")


def _user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def _read(**fields: object) -> ChatAsk:
    body = {"model": "ostiary", "messages": [_user("when?")], **fields}
    return read_chat(body, ANA, Deadline.after(1), SETTINGS, "small-model")


def _refused(**fields: object) -> WireRefused:
    with pytest.raises(WireRefused) as caught:
        _read(**fields)
    return caught.value


def test_the_last_message_is_the_question_and_the_rest_is_history_and_instructions() -> None:
    asked = _read(
        messages=[
            {"role": "system", "content": "Be brief."},
            _user("hello"),
            {"role": "assistant", "content": "hi"},
            {"role": "developer", "content": "In English."},
            {"role": "assistant", "content": None},
            _user([{"type": "text", "text": "when"}, {"type": "text", "text": "and where?"}]),
        ]
    ).ask

    assert asked.question == "when\nand where?"
    assert asked.history == (Message(Role.USER, "hello"), Message(Role.ASSISTANT, "hi"))
    assert asked.instructions == "Be brief.\n\nIn English."
    assert asked.principal == ANA


def test_sampling_is_honoured_within_its_ranges() -> None:
    asked = _read(max_tokens=9, max_completion_tokens=7, temperature=1, seed=-3, stop=["a", "b"])

    assert asked.ask.sampling == Sampling(7, 1.0, -3, ("a", "b"))
    assert _read(stop="END").ask.sampling.stop == ("END",)
    penalties = _read(top_p=0.5, presence_penalty=1, frequency_penalty=-1).ask.sampling
    assert (penalties.top_p, penalties.presence_penalty, penalties.frequency_penalty) == (
        0.5,
        1,
        -1,
    )
    assert _read().ask.sampling == Sampling(SETTINGS.generation.max_tokens)


def test_a_longer_answer_than_the_context_holds_is_asked_for_in_vain() -> None:
    assert _read(max_tokens=1_000_000).ask.sampling.max_tokens == 1024


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("tools", [{"type": "function"}]),
        ("tool_choice", "required"),
        ("functions", [{}]),
        ("function_call", {"name": "f"}),
        ("logprobs", True),
        ("top_logprobs", 2),
        ("logit_bias", {"1": 5}),
        ("audio", {}),
        ("modalities", ["audio"]),
        ("prediction", {}),
        ("response_format", {"type": "json_object"}),
        ("web_search_options", {}),
    ],
)
def test_what_would_change_the_answer_and_is_not_there_is_refused_by_name(
    field: str, value: object
) -> None:
    refused = _refused(**{field: value})

    assert (refused.param, refused.fault.status) == (field, 400)
    assert refused.fault.code == "unsupported_parameter"


def test_harmless_and_neutral_fields_are_taken() -> None:
    neutral = {"n": 1, "tools": [], "presence_penalty": 0.0, "top_p": 1.0, "logprobs": False}

    asked = _read(**neutral, user="u1", metadata={"a": "b"}, store=False, audio=None)

    assert asked.ask.question == "when?"


def test_what_steers_an_engine_goes_nowhere() -> None:
    steering: dict[str, object] = {
        "cache_salt": "theirs", "extra_key": "x", "priority": -5, "id_slot": 3,
        "kv_transfer_params": {}, "chat_template": "{{x}}", "prompt_token_ids": [1],
        "vllm_xargs": {}, "disaggregated_params": {}, "kv_hints": {}, "cache_prompt": False,
    }  # fmt: skip
    plain = _read().ask

    steered = _read(**steering).ask

    assert (steered.question, steered.sampling, steered.history, steered.instructions) == (
        plain.question, plain.sampling, plain.history, plain.instructions
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "param", "status"),
    [
        ({"messages": []}, "messages", 400),
        ({"messages": "hi"}, "messages", 400),
        ({"messages": [{"role": "assistant", "content": "hi"}]}, "messages.0.role", 400),
        ({"messages": [{"role": "tool", "content": "hi"}]}, "messages.0.role", 400),
        ({"messages": [_user("  ")]}, "messages", 400),
        ({"messages": [_user("a" * 4001)]}, "messages", 413),
        ({"max_tokens": 0}, "max_tokens", 400),
        ({"max_tokens": True}, "max_tokens", 400),
        ({"temperature": 2.1}, "temperature", 400),
        ({"seed": 2**63}, "seed", 400),
        ({"stop": ["a"] * 5}, "stop", 400),
        ({"stop": ""}, "stop", 400),
    ],
)
def test_what_is_out_of_range_names_its_field(
    fields: dict[str, object], param: str, status: int
) -> None:
    refused = _refused(**fields)

    assert (refused.param, refused.fault.status) == (param, status)


@pytest.mark.parametrize(
    "message",
    [
        _user([{"type": "image_url", "image_url": {"url": "http://x"}}]),
        {"role": "user", "content": "a", "tool_calls": [{}]},
    ],
)
def test_other_content_than_text_is_refused(message: dict[str, object]) -> None:
    refused = _refused(messages=[message])

    assert refused.fault.status == 400
    assert str(refused.param).startswith("messages.0.")


def test_the_engines_own_model_name_is_taken_too() -> None:
    assert _read(model="small-model").model == "small-model"


def test_a_client_that_names_another_services_model_is_served_and_told_which_it_was() -> None:
    assert _read(model="gpt-4o").model == "ostiary"


def test_no_text_can_end_an_event_before_its_end() -> None:
    written = event({"text": "a\n\ndata: [DONE]\r\n\u2028\u0085 é"})

    assert written.count(b"\n\n") == 1
    assert written.isascii()
    assert b"\r" not in written
