"""The table of errors, and what callers see of what goes wrong."""

from __future__ import annotations

import logging
from pathlib import Path
from types import ModuleType

import pytest

import acl.errors
import generation.errors
import pipeline.errors
import retrieval.errors
from acl.errors import UnknownResource
from api.errors import STATUS, UNEXPECTED, WireRefused, error_body, fault_of, respond
from generation.scripted import ScriptedEngine
from pipeline.errors import AskRefused, Overloaded
from tests.api.houses import Home, open_home

CANARY = "canary-7731"


def _leaves(module: ModuleType) -> list[type[Exception]]:
    here = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Exception)
    ]
    return [each for each in here if not each.__subclasses__()]


@pytest.mark.parametrize(
    "module", [acl.errors, retrieval.errors, generation.errors, pipeline.errors]
)
def test_every_leaf_error_of_every_package_is_in_the_table(module: ModuleType) -> None:
    leaves = _leaves(module)

    assert leaves
    assert [each for each in leaves if each not in STATUS] == []


def test_an_error_without_a_text_of_its_own_shows_its_message() -> None:
    assert error_body(AskRefused("the question is empty"))["error"] == {
        "message": "the question is empty",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_value",
    }


def test_why_something_is_not_there_stays_inside() -> None:
    shown = {str(error_body(UnknownResource(each))) for each in ("no such", "bo may not read it")}

    assert len(shown) == 1


def test_overload_says_when_to_come_back() -> None:
    response = respond(Overloaded("32 requests are waiting", 7))

    assert (response.status_code, response.headers["retry-after"]) == (503, "7")


def test_what_is_not_in_the_table_is_unexpected() -> None:
    assert fault_of(KeyError(CANARY)) is UNEXPECTED
    assert CANARY not in str(error_body(KeyError(CANARY)))


def test_a_refusal_of_ours_with_a_server_status_is_not_the_callers_fault() -> None:
    assert WireRefused("not ready", None, status=503).fault.kind == "server_error"


@pytest.mark.parametrize(
    ("method", "url", "status"), [("GET", "/nowhere", 404), ("GET", "/v1/search", 405)]
)
def test_the_frameworks_own_errors_have_openai_bodies(
    still_home: Home, method: str, url: str, status: int
) -> None:
    response = still_home.ask("bo", method, url)

    assert response.status_code == status
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_a_bug_is_a_500_with_a_fixed_text_and_its_message_is_in_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def burst(_: object) -> list[str]:
        raise KeyError(CANARY)

    with open_home(tmp_path, ScriptedEngine(burst)) as home, caplog.at_level(logging.DEBUG):
        home.document("open", "Gate", "The gate opens at nine.")
        response = home.ask(
            "bo", "POST", "/v1/chat/completions",
            json={"model": "ostiary", "messages": [{"role": "user", "content": "gate opens nine"}]},
        )  # fmt: skip

    assert response.status_code == 500
    assert response.json()["error"]["message"] == UNEXPECTED.text
    assert len(response.headers["x-request-id"]) == 32
    assert "unexpected KeyError" in caplog.text
    assert CANARY not in caplog.text + response.text


def test_every_response_has_its_own_id_and_stays_out_of_caches(still_home: Home) -> None:
    responses = [still_home.ask("bo", "GET", url) for url in ("/v1/models", "/nowhere", "/healthz")]

    assert len({each.headers["x-request-id"] for each in responses}) == 3
    assert {each.headers["cache-control"] for each in responses} == {"no-store"}


def test_a_callers_request_id_is_not_taken_over(still_home: Home) -> None:
    response = still_home.ask("bo", "GET", "/v1/models", headers={"X-Request-Id": "mine"})

    assert response.headers["x-request-id"] != "mine"
