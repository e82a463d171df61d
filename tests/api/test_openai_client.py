"""The `openai` package as a client of ours, over loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from generation.scripted import ScriptedEngine
from tests.api.houses import ANSWER, Home, open_home, served

QUESTION = "when does the gate open at nine"
SAID = "The gate opens at nine [1]. Bring a badge [1]."


@contextmanager
def _client(folder: Path, engine: ScriptedEngine, key: str = "") -> Iterator[openai.OpenAI]:
    with open_home(folder, engine) as home, served(home.app) as address:
        home.document("open", "Gate", "The gate opens at nine. Bring a badge.")
        with openai.OpenAI(
            base_url=f"{address}/v1", api_key=key or home.keys["bo"], max_retries=0
        ) as client:
            yield client


def test_an_answer_comes_whole(tmp_path: Path) -> None:
    with _client(tmp_path, ScriptedEngine(ANSWER)) as client:
        answer = client.chat.completions.create(
            model="ostiary", messages=[{"role": "user", "content": QUESTION}], user="u1", n=1
        )

    assert answer.choices[0].message.content == SAID
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4
    assert answer.usage.prompt_tokens_details is None
    assert answer.model_extra is not None
    assert answer.model_extra["ostiary"]["citations"][0]["title"] == "Gate"


def test_an_answer_comes_as_a_stream_that_plain_code_can_index(tmp_path: Path) -> None:
    with _client(tmp_path, ScriptedEngine(ANSWER)) as client:
        chunks = list(
            client.chat.completions.create(
                model="ostiary", messages=[{"role": "user", "content": QUESTION}], stream=True
            )
        )

    assert "".join(each.choices[0].delta.content or "" for each in chunks) == SAID
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert all(each.usage is None for each in chunks)


def test_usage_comes_when_it_is_asked_for(tmp_path: Path) -> None:
    with _client(tmp_path, ScriptedEngine(ANSWER)) as client:
        *_, last = client.chat.completions.create(
            model="ostiary",
            messages=[{"role": "user", "content": QUESTION}],
            stream=True,
            stream_options={"include_usage": True},
        )

    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 4


def test_an_engine_that_dies_in_mid_stream_raises_at_the_client(tmp_path: Path) -> None:
    """Field report 44: an error written as text with finish_reason stop looked like success."""
    chunks: list[ChatCompletionChunk] = []
    with _client(tmp_path, ScriptedEngine(ANSWER, fail_after=3)) as client:
        stream = client.chat.completions.create(
            model="ostiary", messages=[{"role": "user", "content": QUESTION}], stream=True
        )
        with pytest.raises(openai.APIError) as caught:
            chunks.extend(stream)

    said = [each.choices[0].delta.content or "" for each in chunks]
    assert said
    assert SAID.startswith("".join(said))
    assert {each.choices[0].finish_reason for each in chunks} == {None}
    assert "language model" in caught.value.message


def test_a_wrong_key_is_an_authentication_error(tmp_path: Path) -> None:
    with (
        _client(tmp_path, ScriptedEngine(ANSWER), key="ost_wrong_key") as client,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        client.models.list()

    assert caught.value.code == "invalid_api_key"


def test_the_models_are_listed(tmp_path: Path) -> None:
    with _client(tmp_path, ScriptedEngine(ANSWER)) as client:
        names = [each.id for each in client.models.list()]

    assert names == ["ostiary", "scripted"]


def test_refusals_come_as_the_clients_own_errors(home: Home) -> None:
    with (
        served(home.app) as address,
        openai.OpenAI(base_url=f"{address}/v1", api_key=home.keys["bo"], max_retries=0) as client,
    ):
        with pytest.raises(openai.BadRequestError) as empty:
            client.chat.completions.create(model="ostiary", messages=[])
        with pytest.raises(openai.BadRequestError) as several:
            client.chat.completions.create(
                model="ostiary", messages=[{"role": "user", "content": "a"}], n=2
            )

    assert empty.value.param == "messages"
    assert several.value.param == "n"
