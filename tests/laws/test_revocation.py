"""Law 4: what was taken away before a request began is not used by it, nor by a stream after."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from acl.session import Writing
from generation.scripted import ScriptedEngine
from tests.api.houses import Home, served
from tests.laws.changes import CONTENT, PERSON, QUESTION, SECRET, SECRET_TEXT, elsewhere


def _prompted(engine: ScriptedEngine) -> str:
    return " ".join(each.text for prompt in engine.prompts for each in prompt.evidence)


def _uses(home: Home, who: str) -> list[str]:
    """Give the bodies of one search and one chat as a person."""
    chat = {"model": "ostiary", "messages": [{"role": "user", "content": QUESTION}]}
    return [
        home.ask(who, "POST", "/v1/search", json={"query": QUESTION}).text,
        home.ask(who, "POST", "/v1/chat/completions", json=chat).text,
        home.ask(who, "GET", "/v1/documents").text,
    ]


@pytest.mark.parametrize("change", CONTENT.values(), ids=CONTENT.keys())
def test_the_next_request_does_not_use_what_another_process_took_away(
    home: Home, engine: ScriptedEngine, change: Callable[[Writing], None]
) -> None:
    search, chat, listed = _uses(home, "ana")
    code = next(each["id"] for each in json.loads(listed)["data"] if each["title"] == "Code")
    doors = [f"/v1/documents/{code}{rest}" for rest in ("", "/text", "/passages/1")]
    assert [home.ask("ana", "GET", url).status_code for url in doors] == [200, 200, 200]
    assert SECRET in search
    assert "Code" in chat
    assert "Code" in listed
    engine.prompts.clear()

    with elsewhere(home) as writing:
        change(writing)

    for body in _uses(home, "ana"):
        assert SECRET not in body
        assert "Code" not in body
    assert [home.ask("ana", "GET", url).status_code for url in doors] == [404, 404, 404]
    assert SECRET not in _prompted(engine)
    assert engine.prompts, "what may still be read is answered from"


@pytest.mark.parametrize("change", PERSON.values(), ids=PERSON.keys())
def test_the_next_request_of_a_removed_key_or_person_is_nobodys(
    home: Home, change: Callable[[Writing], None]
) -> None:
    assert home.ask("ana", "GET", "/v1/documents").status_code == 200

    with elsewhere(home) as writing:
        change(writing)

    assert home.ask("ana", "GET", "/v1/documents").status_code == 401
    assert home.ask("ana", "POST", "/v1/search", json={"query": QUESTION}).status_code == 401


def test_four_threads_of_requests_never_see_it_while_another_ingests(home: Home) -> None:
    done = threading.Event()

    def ingest() -> None:
        number = 0
        while not done.is_set():
            home.document("open", f"Note {number}", f"heron note number {number}")
            number += 1

    writer = threading.Thread(target=ingest)
    writer.start()
    try:
        with elsewhere(home) as writing:
            CONTENT["a grant is revoked"](writing)
        with (
            served(home.app) as url,
            httpx.Client(base_url=url, headers=home.headers("ana"), timeout=30) as client,
            ThreadPoolExecutor(4) as threads,
        ):

            def search(_: int) -> str:
                return client.post("/v1/search", json={"query": QUESTION, "top_k": 50}).text

            bodies = list(threads.map(search, range(200)))
    finally:
        done.set()
        writer.join()

    assert all('"returned":' in body for body in bodies)
    assert [body for body in bodies if SECRET in body] == []


def test_the_secret_is_what_these_tests_think_it_is(home: Home) -> None:
    assert SECRET in SECRET_TEXT
    assert SECRET not in home.ask("bo", "POST", "/v1/search", json={"query": QUESTION}).text
