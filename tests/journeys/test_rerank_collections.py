"""Reranking set by collection, on a real server with an endpoint that ranks."""

from __future__ import annotations

from pathlib import Path

import httpx

from evals.server import installation
from tests.retrieval.test_rerank import Endpoint, endpoint, tei

__all__ = ["endpoint"]


def test_only_the_passages_of_the_named_collection_reach_the_endpoint(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    endpoint.reply = tei((0, 0.1), (1, 0.9))
    settings = {
        "RETRIEVAL__ENCODER": "hashed", "RETRIEVAL__RERANKER": "remote",
        "RETRIEVAL__RERANKER_URL": endpoint.url, "RETRIEVAL__RERANK_COLLECTIONS": '["law"]',
    }  # fmt: skip
    with installation("acme", **settings) as house:
        house.say("user", "add", "ana")
        for collection in ("law", "hr"):
            for number in (1, 2):
                file = tmp_path / f"{collection}{number}.md"
                file.write_text(f"The pump of {collection}, paper {number}.")
                house.say("ingest", str(file), "--collection", collection, "--allow", "user:ana")
        key = house.keys("user:ana")["user:ana"]
        with house.serving() as url:
            reply = httpx.post(f"{url}/v1/search", json={"query": "pump"},
                               headers={"Authorization": f"Bearer {key}"}, timeout=30)  # fmt: skip

    texts = [str(each["text"]) for each in reply.raise_for_status().json()["results"]]
    asked = endpoint.asked["texts"]
    assert isinstance(asked, list)
    assert len(texts) == 4
    assert len(asked) == 2
    assert all("pump of law" in each for each in asked)
    of_law = [each for each in texts if "pump of law" in each]
    assert of_law == [each.partition("\n")[2] for each in reversed(asked)], "as it ranked them"
