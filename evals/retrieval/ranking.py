"""Rankings of a collection's documents by each leg, by their fusion, and under a scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from evals.retrieval.collection import Collection
from evals.retrieval.vectors import Passages
from retrieval.fuse import fuse
from retrieval.layout import best_first
from retrieval.rerank import Reranker
from retrieval.search import legs
from retrieval.settings import RetrievalSettings
from retrieval.tenant_index import TenantIndex
from retrieval.types import (
    Candidate,
    Changes,
    Ids,
    Passage,
    Query,
    Rows,
    Signal,
    Vectors,
)
from retrieval.words import Lexicon

# Query to document to score; the measures rank by score.
Run = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Found:
    """What the product's legs found for a query: rows, and the score of each in both legs."""

    ids: Ids
    dense: Vectors
    lexical: Vectors


@dataclass(frozen=True, slots=True)
class Searched:
    """What was found in a collection, query by query."""

    collection: Collection
    passages: Passages
    found: Mapping[str, Found]

    def fused(self, dense_weight: float) -> Run:
        """Rank by the product's fusion."""
        return self._run(lambda each: fuse(each.ids, each.dense, each.lexical, dense_weight).ids)

    def dense(self) -> Run:
        """Rank by the dense leg alone."""
        return self._run(lambda each: each.ids[best_first(each.ids, each.dense)])

    def lexical(self) -> Run:
        """Rank by the lexical leg alone: what shares a term."""

        def ranked(each: Found) -> Ids:
            shares = each.lexical > 0
            ids = each.ids[shares]
            return ids[best_first(ids, each.lexical[shares])]

        return self._run(ranked)

    def reranked(self, dense_weight: float, reranker: Reranker, depth: int) -> Run:
        """Rank the best so many of the fusion anew, as the product's fourth stage does."""
        ranked: dict[str, Ids] = {}
        for query, each in self.found.items():
            hits = fuse(each.ids, each.dense, each.lexical, dense_weight)
            best = [self._candidate(row) for row in hits.ids[:depth].tolist()]
            asked = Query(self.collection.queries[query], depth)
            order = [each.passage.id for each in reranker.rerank(asked, best)]
            ranked[query] = np.concatenate((np.array(order, dtype=np.int64), hits.ids[depth:]))
        return self._ranked(ranked)

    def _candidate(self, row: int) -> Candidate:
        text = self.passages.texts[row - 1]
        passage = Passage(row, "", 1, 1, "", text, 0, len(text), None)
        return Candidate(passage, 0.0, Signal.FUSED, 0.0, 0.0)

    def _run(self, ranked: Callable[[Found], Ids]) -> Run:
        return self._ranked({query: ranked(each) for query, each in self.found.items()})

    def _ranked(self, ranked: Mapping[str, Ids]) -> Run:
        """Turn rows into documents: the best passage of each, a query's own document left out.

        Scores keep the order, whatever breaks ties.
        """
        documents = tuple(self.collection.texts)
        run: Run = {}
        for query, ids in ranked.items():
            scores: dict[str, float] = {}
            for place, row in enumerate(self.passages.documents[ids - 1].tolist()):
                if documents[row] != query:
                    scores.setdefault(documents[row], float(len(ids) - place))
            run[query] = scores
        return run


def index_of(passages: Passages, vectors: Vectors, classes: Ids, keep: Ids) -> TenantIndex:
    """Build the product's index of some rows. keep: int64, row numbers from 0, ascending."""
    texts = tuple(passages.texts[row] for row in keep)
    rows = Rows(keep + 1, classes[keep], passages.documents[keep] + 1, vectors[keep], texts)
    changes = Changes(1, np.unique(passages.documents[keep] + 1), rows)
    return TenantIndex.empty(vectors.shape[1]).apply(changes, Lexicon(), 2_048)


def search(
    index: TenantIndex,
    collection: Collection,
    passages: Passages,
    queries: Mapping[str, Vectors],
    allowed: Ids,
    settings: RetrievalSettings,
) -> Searched:
    """Ask every query through the product's legs. allowed: classes, ascending."""
    lexicon = Lexicon(settings.stem_language)
    reach = index.reach(allowed)
    found = {
        query: Found(
            *legs(index, lexicon, vector, collection.queries[query], reach, settings.legs_depth)
        )
        for query, vector in queries.items()
    }
    return Searched(collection, passages, found)
