"""Rankings of a collection's documents by each leg, by their fusion, and under a scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evals.retrieval.collection import Collection
from evals.retrieval.vectors import Passages
from retrieval.fuse import fuse
from retrieval.settings import RetrievalSettings
from retrieval.tenant_index import TenantIndex
from retrieval.types import Changes, Ids, Rows, Vectors
from retrieval.words import Lexicon

# Query to document to score; the measures rank by score.
Run = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Found:
    """What both legs found for a query: the union of their rows, scored exactly in both."""

    ids: Ids
    dense: Vectors
    lexical: Vectors
    dense_first: Ids
    lexical_first: Ids


@dataclass(frozen=True, slots=True)
class Searched:
    """An index of a collection, and what was found in it, query by query."""

    collection: Collection
    documents: Sequence[str]
    passages: Passages
    found: Mapping[str, Found]

    def fused(self, dense_weight: float) -> Run:
        """Rank by the product's fusion."""
        return self._run(
            {
                query: zip_ranked(fuse(each.ids, each.dense, each.lexical, dense_weight).ids)
                for query, each in self.found.items()
            }
        )

    def dense(self) -> Run:
        """Rank by the dense leg alone."""
        return self._run({q: zip_ranked(each.dense_first) for q, each in self.found.items()})

    def lexical(self) -> Run:
        """Rank by the lexical leg alone."""
        return self._run({q: zip_ranked(each.lexical_first) for q, each in self.found.items()})

    def _run(self, ranked: Mapping[str, Sequence[tuple[int, float]]]) -> Run:
        """Turn rows into documents: the best passage of each, a query's own document left out."""
        run: Run = {}
        for query, rows in ranked.items():
            scores: dict[str, float] = {}
            for row, score in rows:
                document = self.documents[int(self.passages.documents[row - 1])]
                if document != query:
                    scores.setdefault(document, score)
            run[query] = scores
        return run


def zip_ranked(ids: Ids) -> list[tuple[int, float]]:
    """Give rows with scores that keep their order whatever breaks ties."""
    return [(int(row), float(len(ids) - place)) for place, row in enumerate(ids)]


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
    found = {}
    for query, vector in queries.items():
        dense, _ = index.dense(vector, reach, settings.legs_depth)
        matches = index.lexical(lexicon.terms(collection.queries[query]), reach)
        lexical, _ = matches.best(settings.legs_depth)
        ids = np.union1d(dense, lexical)
        scores = index.cosines(ids, vector), index.matched(matches, ids)
        found[query] = Found(ids, *scores, dense, lexical)
    return Searched(collection, tuple(collection.texts), passages, found)
