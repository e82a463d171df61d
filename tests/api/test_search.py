"""POST /v1/search."""

from __future__ import annotations

import pytest

from tests.api.houses import Home


def _search(home: Home, who: str, **body: object) -> tuple[int, dict[str, object]]:
    response = home.ask(who, "POST", "/v1/search", json=body)
    return response.status_code, response.json()


def test_results_say_where_they_stand_and_how_many_were_asked_for(home: Home) -> None:
    wanted = home.document("open", "Gate", "The gate opens at nine.")
    home.document("open", "Canteen", "Soup is served at noon.")

    status, found = _search(home, "bo", query="when does the gate open", top_k=5)

    assert status == 200
    assert (found["object"], found["asked"], found["returned"]) == ("search.results", 5, 2)
    results = found["results"]
    assert isinstance(results, list)
    first = {key: value for key, value in results[0].items() if key != "score"}
    assert first == {
        "rank": 1, "document": wanted, "title": "Gate", "passage": 1, "page": None,
        "start": 0, "end": 23, "text": "The gate opens at nine.",
        "url": f"/v1/documents/{wanted}/passages/1",
    }  # fmt: skip
    stages = found["stages"]
    assert isinstance(stages, list)
    assert [each["name"] for each in stages] == ["admit", "embed", "search", "authorize", "rerank"]
    assert set(stages[0]) == {"name", "budget_ms", "spent_ms", "cut"}


def test_nothing_of_a_closed_collection_is_found_or_counted(home: Home) -> None:
    home.document("open", "Gate", "The gate opens at nine.")
    home.document("closed", "Pay", "The pay list of the gate keepers.")

    found = {who: _search(home, who, query="gate keepers pay list")[1] for who in ("ana", "bo")}

    assert (found["ana"]["returned"], found["bo"]["returned"]) == (2, 1)
    assert "pay list" not in str(found["bo"]["results"])


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 400, "query"),
        ({"query": " \n"}, 400, "query"),
        ({"query": 7}, 400, "query"),
        ({"query": "a" * 4001}, 413, "query"),
        ({"query": "a", "top_k": 0}, 400, "top_k"),
        ({"query": "a", "top_k": 101}, 400, "top_k"),
        ({"query": "a", "top_k": True}, 400, "top_k"),
        ({"query": "a", "top_k": "5"}, 400, "top_k"),
        ({"query": "a", "cache_salt": "x"}, 400, "cache_salt"),
    ],
)
def test_a_search_that_is_not_acceptable_says_which_field(
    still_home: Home, body: dict[str, object], status: int, param: str
) -> None:
    response = still_home.ask("bo", "POST", "/v1/search", json=body)

    assert (response.status_code, response.json()["error"]["param"]) == (status, param)


def test_a_top_k_out_of_range_is_told_the_range(still_home: Home) -> None:
    message = still_home.ask("bo", "POST", "/v1/search", json={"query": "a", "top_k": 101}).json()

    assert "from 1 to 100" in message["error"]["message"]
