"""Law 6: min(k, permitted) results, whatever share of the corpus that is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from acl.documents import document_by_public_id, remove
from generation.scripted import ScriptedEngine
from retrieval.corpus import erase
from tests.api.houses import ANSWER, Home, open_home, served
from tests.laws.changes import elsewhere

N_OPEN, N_CLOSED = 150, 30
SHARES = {"one": 1, "few": 7, "many": 60, "all": N_OPEN + N_CLOSED}


@pytest.fixture(name="home", scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with open_home(tmp_path_factory.mktemp("home"), ScriptedEngine(ANSWER)) as opened:
        for who in SHARES:
            opened.person(who)
        opened.grant("user:all", "read")
        # Near and far alike: what may not be read lies nearest to the question.
        for number in range(N_CLOSED):
            opened.document("closed", f"Closed {number}", "the grey heron by the weir")
        for number in range(N_OPEN):
            readers = [f"user:{who}" for who, n in SHARES.items() if number < n]
            opened.document("shelf", f"Shelf {number}", f"page {number} of a ledger", read=readers)
        yield opened


@pytest.mark.parametrize(("who", "permitted"), SHARES.items())
@pytest.mark.parametrize("top_k", [1, 2, 10, 99, 100])
def test_as_many_come_as_there_are_up_to_what_was_asked(
    home: Home, who: str, permitted: int, top_k: int
) -> None:
    body = home.ask(who, "POST", "/v1/search", json={"query": "grey heron", "top_k": top_k}).json()

    assert body["asked"] == top_k
    assert body["returned"] == len(body["results"]) == min(top_k, permitted)
    readable = "Shelf" if permitted <= N_OPEN else ("Shelf", "Closed")
    assert all(each["title"].startswith(readable) for each in body["results"])


@pytest.mark.parametrize("who", SHARES)
def test_fewer_results_are_the_first_of_more(home: Home, who: str) -> None:
    def titles(top_k: int) -> list[str]:
        body = {"query": "ledger page 3", "top_k": top_k}
        reply = home.ask(who, "POST", "/v1/search", json=body)
        return [each["title"] for each in reply.json()["results"]]

    everything = titles(100)
    for top_k in (1, 3, 10, 50):
        assert titles(top_k) == everything[:top_k]


def test_nobody_is_short_changed_while_others_write(tmp_path: Path) -> None:
    done = threading.Event()

    def write(number: int) -> None:
        turn = 0
        while not done.is_set():
            home.document("shelf", f"New {number}.{turn}", f"a new page {turn}")
            turn += 1

    with open_home(tmp_path, ScriptedEngine(ANSWER)) as home:
        for number in range(20):
            home.document("open", f"Gate {number}", f"gate number {number} opens at nine")
        writers = [threading.Thread(target=write, args=(n,)) for n in range(3)]
        for each in writers:
            each.start()
        try:
            with served(home.app) as url, httpx.Client(base_url=url, timeout=30) as client:
                headers = {"Authorization": f"Bearer {home.keys['bo']}"}
                body = {"query": "gate", "top_k": 50}
                found = [
                    client.post("/v1/search", json=body, headers=headers).json()["returned"]
                    for _ in range(40)
                ]
        finally:
            done.set()
            for each in writers:
                each.join()

    assert set(found) == {20}


def test_after_deletes_the_rest_still_comes(tmp_path: Path) -> None:
    with open_home(tmp_path, ScriptedEngine(ANSWER)) as home:
        ids = [home.document("open", f"Gate {n}", f"gate number {n}") for n in range(40)]
        for n_left in (39, 20, 3, 0):
            while len(ids) > n_left:
                with elsewhere(home) as writing:
                    row = document_by_public_id(writing.session, ids.pop())
                    assert row is not None
                    erase(writing, row)
                    remove(writing, row)
            body = {"query": "gate", "top_k": 30}
            reply = home.ask("bo", "POST", "/v1/search", json=body).json()
            assert reply["returned"] == min(30, n_left)
