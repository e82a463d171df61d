"""Rerankers: each kind gives the same candidates in its order, or says that it failed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from retrieval.errors import ModelMissing, RerankFailed
from retrieval.rerank import (
    ChosenReranker,
    CrossEncoderReranker,
    FusionOrder,
    RemoteReranker,
)
from retrieval.types import Query, Signal
from tests.make import make_candidate

QUERY = Query("which pump", 3)
CANDIDATES = [make_candidate(number, f"passage {number}") for number in (1, 2, 3)]


class Endpoint(ThreadingHTTPServer):
    """A /rerank endpoint on loopback that replies as told and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.reply: object = []
        self.status = 200
        self.asked: dict[str, object] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/rerank"


class _Exchange(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        self.server.asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = json.dumps(self.server.reply).encode()
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.01,))
        thread.start()
        yield served
        served.shutdown()
        thread.join()


@pytest.fixture
def remote(endpoint: Endpoint) -> Iterator[RemoteReranker]:
    reranker = RemoteReranker(endpoint.url, "", 5.0)
    yield reranker
    reranker.close()


def cohere(*pairs: tuple[int, float]) -> dict[str, object]:
    return {
        "id": "x",
        "results": [{"index": i, "relevance_score": s, "document": {}} for i, s in pairs],
    }


def tei(*pairs: tuple[int, float]) -> list[dict[str, float]]:
    return [{"index": index, "score": score} for index, score in pairs]


def test_fusion_order_changes_nothing() -> None:
    assert FusionOrder().rerank(QUERY, CANDIDATES) == tuple(CANDIDATES)


@pytest.mark.parametrize("shape", [cohere, tei])
def test_an_endpoint_orders_candidates_and_ties_stay_as_they_came(
    endpoint: Endpoint, remote: RemoteReranker, shape: object
) -> None:
    assert callable(shape)
    endpoint.reply = shape((2, 1.5), (1, 0.25), (0, 0.25))
    ranking = remote.rerank(QUERY, CANDIDATES)
    assert [candidate.passage.id for candidate in ranking] == [3, 1, 2]
    assert [candidate.score for candidate in ranking] == [1.5, 0.25, 0.25]
    assert {candidate.signal for candidate in ranking} == {Signal.RERANK}
    assert {(candidate.dense, candidate.lexical) for candidate in ranking} == {(0.4, 1.5)}


def test_a_named_model_is_asked_for_all_documents(endpoint: Endpoint) -> None:
    endpoint.reply = cohere((0, 0.1), (1, 0.2), (2, 0.3))
    reranker = RemoteReranker(endpoint.url, "rerank-v3", 5.0)
    reranker.rerank(QUERY, CANDIDATES)
    reranker.close()
    assert endpoint.asked == {
        "query": "which pump",
        "documents": ["title\npassage 1", "title\npassage 2", "title\npassage 3"],
        "model": "rerank-v3",
        "top_n": 3,
    }


@pytest.mark.parametrize(
    "reply",
    [
        cohere((0, 0.1), (1, 0.2)),
        cohere((0, 0.1), (1, 0.2), (1, 0.3)),
        cohere((0, 0.1), (1, 0.2), (3, 0.3)),
        cohere((0, 0.1), (1, 0.2), (-1, 0.3)),
        tei((0, 0.1), (1, 0.2), (2, float("nan"))),
        tei((0, 0.1), (1, 0.2), (2, float("inf"))),
        tei((0, 0.1), (1, 0.2), (2, 0.3), (0, 0.4)),
        {"error": "passage 1 is bad"},
        [],
        None,
        [{"index": "passage 1", "score": 1}],
    ],
)
def test_an_answer_that_does_not_score_each_candidate_once_is_refused(
    endpoint: Endpoint, remote: RemoteReranker, reply: object
) -> None:
    endpoint.reply = reply
    with pytest.raises(RerankFailed) as refused:
        remote.rerank(QUERY, CANDIDATES)
    assert "passage 1" not in str(refused.value)


def test_an_endpoint_in_trouble_is_a_failed_rerank(
    endpoint: Endpoint, remote: RemoteReranker
) -> None:
    endpoint.status = 503
    with pytest.raises(RerankFailed, match="answered 503"):
        remote.rerank(QUERY, CANDIDATES)


def test_an_endpoint_that_is_not_there_is_a_failed_rerank(endpoint: Endpoint) -> None:
    url = endpoint.url
    endpoint.server_close()
    with pytest.raises(RerankFailed, match="ConnectError"):
        RemoteReranker(url, "", 1.0).rerank(QUERY, CANDIDATES)


def test_no_candidates_ask_nobody() -> None:
    assert RemoteReranker("http://127.0.0.1:9/rerank", "", 1.0).rerank(QUERY, []) == ()


def test_an_unusable_url_is_a_failed_rerank() -> None:
    assert issubclass(httpx.UnsupportedProtocol, httpx.HTTPError)
    with pytest.raises(RerankFailed, match="UnsupportedProtocol"):
        RemoteReranker("rerank.example", "", 1.0).rerank(QUERY, CANDIDATES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random one-layer model: what it says means nothing, how it is asked does."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder = tmp_path_factory.mktemp("cross-encoder")
    letters = list("abcdefghijklmnopqrstuvwxyz0123456789")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    words += [f"##{letter}" for letter in letters]
    (folder / "vocab.txt").write_text("\n".join(words))
    tokenizer = BertTokenizerFast(vocab=str(folder / "vocab.txt"))
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=1,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.real
def test_it_orders_candidates_by_its_own_score(folder: Path) -> None:
    reranker = CrossEncoderReranker(str(folder))
    many = [make_candidate(n, "word " * (n * n)) for n in range(1, 15)]
    ranking = reranker.rerank(QUERY, many)
    scores = [candidate.score for candidate in ranking]
    assert sorted(c.passage.id for c in ranking) == list(range(1, 15))
    assert scores == sorted(scores, reverse=True)
    assert {candidate.signal for candidate in ranking} == {Signal.RERANK}
    assert reranker.rerank(QUERY, []) == ()


@pytest.mark.real
def test_a_pair_scores_the_same_alone_as_among_others(folder: Path) -> None:
    reranker = CrossEncoderReranker(str(folder))
    many = [make_candidate(n, "word " * (n * n)) for n in range(1, 15)]
    together = {c.passage.id: c.score for c in reranker.rerank(QUERY, many)}
    alone = {c.passage.id: reranker.rerank(QUERY, [c])[0].score for c in many}
    assert alone == together


@pytest.mark.real
def test_equal_candidates_keep_the_order_they_came_in(folder: Path) -> None:
    same = [make_candidate(number, "alike") for number in (3, 1, 2)]
    ranking = CrossEncoderReranker(str(folder)).rerank(QUERY, same)
    assert [candidate.passage.id for candidate in ranking] == [3, 1, 2]


def test_only_chosen_collections_are_ranked_anew_among_their_own_places(
    endpoint: Endpoint, remote: RemoteReranker
) -> None:
    paths = ("law", "hr", "law/old", "lawful", "law")
    many = [
        replace(each, passage=replace(each.passage, collection=path))
        for each, path in ((make_candidate(n, f"text {n}"), p) for n, p in enumerate(paths))
    ]
    endpoint.reply = tei((0, 0.1), (1, 0.9), (2, 0.5))

    ranking = ChosenReranker(remote, ["/law"]).rerank(QUERY, many)

    assert [each.passage.id for each in ranking] == [2, 1, 4, 3, 0]
    assert endpoint.asked["texts"] == [f"title\ntext {n}" for n in (0, 2, 4)]


def test_a_folder_that_is_not_there_is_a_missing_model(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="gone"):
        CrossEncoderReranker(str(tmp_path / "gone"))
