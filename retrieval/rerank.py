"""Candidates in a better order: by a cross-encoder here, by an endpoint, or as they came."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from retrieval.errors import ModelMissing, RerankFailed
from retrieval.types import Candidate, Query, Signal

MAX_PAIR_TOKENS = 256
"""Tokens of question and passage together that a cross-encoder reads."""


class Reranker(Protocol):
    """What orders candidates anew."""

    kind: str

    def rerank(self, query: Query, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Give the same candidates, best first; equal scores keep the order they came in.

        Raises: RerankFailed.
        """
        ...


class FusionOrder:
    """Leaves candidates and their scores as fusion ranked them."""

    kind = "fusion"

    def rerank(self, query: Query, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Give the candidates as they came."""
        return tuple(candidates)


class CrossEncoderReranker:
    """Scores each pair of question and passage with a sentence-transformers cross-encoder.

    Args:
        name: a folder, which is never looked up elsewhere, or the name of a model on the hub.
        batch_size: pairs in one pass. With 1 no pair is padded to the length of another, so its
            score depends on no other; on an accelerator more is faster, within rounding.

    Raises: ModelMissing if there is no such model; ValueError if it gives not one score a pair.
    """

    kind = "cross-encoder"

    def __init__(self, name: str, *, batch_size: int = 1) -> None:
        is_folder = Path(name).is_dir()
        if not is_folder and Path(name).is_absolute():
            raise ModelMissing(f"no reranker in the folder {name}; needed a saved CrossEncoder")
        # Loading torch takes seconds, which only this kind has to pay.
        from sentence_transformers import CrossEncoder

        try:
            self._model = CrossEncoder(name, local_files_only=is_folder, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise ModelMissing(f"reranker {name} could not be loaded or downloaded") from error
        if self._model.num_labels != 1:
            n_labels = self._model.num_labels
            raise ValueError(f"reranker {name} gives {n_labels} scores a pair; needed 1")
        own_most = self._model.max_seq_length or MAX_PAIR_TOKENS
        self._model.max_seq_length = min(own_most, MAX_PAIR_TOKENS)
        self._batch_size = batch_size

    def rerank(self, query: Query, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Give the candidates by the model's score."""
        if not candidates:
            return ()
        pairs = [(query.text, _read(candidate)) for candidate in candidates]
        scores = self._model.predict(
            pairs, batch_size=self._batch_size, show_progress_bar=False, convert_to_numpy=True
        )
        return _ranked(candidates, scores.tolist())


class ChosenReranker:
    """Ranks anew what lies in some collections, among the places that it holds.

    A model may help on one collection and harm on another: what it was not chosen for stays
    where fusion put it.

    Args: collections: their paths; each stands for all below it too.
    """

    def __init__(self, inner: Reranker, collections: Sequence[str]) -> None:
        self.kind = inner.kind
        self._inner = inner
        self._collections = frozenset(each.strip("/") for each in collections)

    def rerank(self, query: Query, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Give the candidates, those of other collections in their places."""
        places = [n for n, each in enumerate(candidates) if self._is_chosen(each)]
        ranked = self._inner.rerank(query, [candidates[place] for place in places])
        given = list(candidates)
        for place, candidate in zip(places, ranked, strict=True):
            given[place] = candidate
        return tuple(given)

    def _is_chosen(self, candidate: Candidate) -> bool:
        path = PurePosixPath(candidate.passage.collection)
        return any(str(each) in self._collections for each in (path, *path.parents))


class _Verdict(BaseModel):
    index: int
    relevance_score: float


class _Results(BaseModel):
    results: list[_Verdict]


class _Line(BaseModel):
    index: int
    score: float


class RemoteReranker:
    """Asks a /rerank endpoint: Cohere, Jina, vLLM, or text-embeddings-inference (TEI).

    Args:
        url: of the endpoint, with its path.
        model: the name to ask for; empty where the endpoint serves one model only.
        timeout_s: for connecting, and for each wait for bytes.
    """

    kind = "remote"

    def __init__(self, url: str, model: str, timeout_s: float) -> None:
        self._url = url
        self._model = model
        self._client = httpx.Client(timeout=timeout_s)

    def rerank(self, query: Query, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Give the candidates by the endpoint's score."""
        if not candidates:
            return ()
        try:
            reply = self._client.post(self._url, json=self._body(query, candidates))
            reply.raise_for_status()
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            raise RerankFailed(f"rerank endpoint answered {status}; needed 200") from error
        except httpx.HTTPError as error:
            raise RerankFailed(f"rerank endpoint: {type(error).__name__}") from error
        places, scores = _parsed(reply.content)
        if sorted(places) != list(range(len(candidates))):
            raise RerankFailed(
                f"rerank endpoint scored {len(places)} candidates, not each of the "
                f"{len(candidates)} once"
            )
        by_place = dict(zip(places, scores, strict=True))
        return _ranked(candidates, [by_place[place] for place in range(len(candidates))])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _body(self, query: Query, candidates: Sequence[Candidate]) -> dict[str, object]:
        passages = [_read(candidate) for candidate in candidates]
        body: dict[str, object] = {"query": query.text, "documents": passages}
        if self._model:
            return body | {"model": self._model, "top_n": len(passages)}
        # Without a name it is vLLM or TEI; each reads its own field and passes over the other's.
        return body | {"texts": passages, "truncate": True}


def _parsed(content: bytes) -> tuple[list[int], list[float]]:
    try:
        answer = TypeAdapter[_Results | list[_Line]](_Results | list[_Line]).validate_json(content)
    except ValidationError:
        # Unchained: its text would quote the answer.
        raise RerankFailed("rerank endpoint's answer is no list of index and score") from None
    if isinstance(answer, _Results):
        return (
            [verdict.index for verdict in answer.results],
            [verdict.relevance_score for verdict in answer.results],
        )
    return [line.index for line in answer], [line.score for line in answer]


def _read(candidate: Candidate) -> str:
    passage = candidate.passage
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


def _ranked(candidates: Sequence[Candidate], scores: list[float]) -> tuple[Candidate, ...]:
    if not all(math.isfinite(score) for score in scores):
        n_wrong = sum(not math.isfinite(score) for score in scores)
        raise RerankFailed(f"{n_wrong} of {len(scores)} scores are not finite; needed all")
    scored = [
        Candidate(candidate.passage, score, Signal.RERANK, candidate.dense, candidate.lexical)
        for candidate, score in zip(candidates, scores, strict=True)
    ]
    return tuple(sorted(scored, key=lambda candidate: -candidate.score))
