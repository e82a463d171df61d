"""The lexical leg: BM25 whose statistics are those of the asked classes and no others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.layout import Layout, Reach, best_first, within_reach
from retrieval.types import Ids, Vectors

K1 = 1.2
B = 0.75

_SAMPLE = 16_384

Counts = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Postings:
    """Where one term stands in a scope, if anywhere.

    term: its place in the question. at: int64, places in the scope, ascending; counts, lengths:
    of those rows; n_live: how many of them are not dead.
    """

    term: int
    at: Ids
    counts: Counts
    lengths: NDArray[np.int32]
    n_live: int


@dataclass(frozen=True, slots=True)
class Tally:
    """What one part says of a scope and some terms; the input of `bm25`.

    gone_at: int64, the places of dead rows. n_rows, n_tokens: live rows of the scope and their
    length, all terms counted.
    """

    layout: Layout
    reach: Reach
    gone_at: Ids
    n_rows: int
    n_tokens: int
    found: tuple[Postings, ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """The BM25 scores of a scope, part by part: float64 by place, 0 where no term is shared."""

    tallies: tuple[Tally, ...]
    sums: tuple[NDArray[np.float64], ...]

    def best(self, depth: int | None = None) -> tuple[Ids, Vectors]:
        """Give the best passages that share a term: ids and float32 scores, best first.

        Args: depth: how many at most; None for all.
        """
        ids: list[Ids] = [np.empty(0, dtype=np.int64)]
        scores: list[Vectors] = [np.empty(0, dtype=np.float32)]
        for tally, sums in zip(self.tallies, self.sums, strict=True):
            places = np.flatnonzero(sums >= _floor(sums, depth))
            found = sums[places].astype(np.float32)
            if depth is not None:
                near = within_reach(found, depth, 0.0)
                places, found = places[near], found[near]
            ids.append(tally.layout.ids[tally.reach.rows_at(places)])
            scores.append(found)
        all_ids, all_scores = np.concatenate(ids), np.concatenate(scores)
        order = best_first(all_ids, all_scores, depth)
        return all_ids[order], all_scores[order]

    def scores(self, part: int, rows: Ids) -> Vectors:
        """Give the float32 scores of rows of one part; a row outside the scope has 0."""
        scores = np.zeros(len(rows), dtype=np.float32)
        reach, sums = self.tallies[part].reach, self.sums[part]
        inside = reach.holds(rows)
        scores[inside] = sums[reach.places(rows[inside])]
        return scores


def bm25(tallies: Sequence[Tally], weights: Sequence[int]) -> Matches:
    """Score every live row that has one of the terms.

    Counts are summed over all parts before anything is scored, so that how rows are spread over
    parts changes no bit; float64 terms are added in the order of the question's terms.

    Args: weights: how often the question says each term, at least 1.
    Source: S. Robertson, H. Zaragoza, The Probabilistic Relevance Framework, 2009, with the
        inverse document frequency and without the constant factor k1 + 1, as in Lucene 8.
    """
    n_rows = sum(tally.n_rows for tally in tallies)
    n_tokens = sum(tally.n_tokens for tally in tallies)
    n_with = [0] * len(weights)
    for tally in tallies:
        for postings in tally.found:
            n_with[postings.term] += postings.n_live
    rarity = [
        weight * math.log(1 + (n_rows - n + 0.5) / (n + 0.5))
        for weight, n in zip(weights, n_with, strict=True)
    ]
    sums = []
    for tally in tallies:
        summed = np.zeros(tally.reach.n_rows)
        for postings in tally.found:
            if postings.n_live:
                # rarity * count / (count + K1 * (1 - B + B * length / mean)), in one buffer.
                gains = postings.lengths / (n_tokens / n_rows)
                gains *= B
                gains += 1 - B
                gains *= K1
                gains += postings.counts
                np.divide(postings.counts, gains, out=gains)
                gains *= rarity[postings.term]
                # A row stands once in a term's postings: nothing is added twice.
                summed[postings.at] += gains
        summed[tally.gone_at] = 0
        sums.append(summed)
    return Matches(tuple(tallies), tuple(sums))


def _floor(sums: NDArray[np.float64], depth: int | None) -> float:
    """Give a score above 0 that none of the best `depth`, in float32, lies below.

    The depth-th best of some is no better than that of all: read from a sample, so that most
    rows cost one comparison.
    """
    floor = 0.0
    if depth is not None and 0 < depth < _SAMPLE < len(sums):
        some = sums[:: len(sums) // _SAMPLE]
        some = some[some > 0]  # many equal ones would slow the partition
        if len(some) > depth:
            floor = float(np.partition(some, len(some) - depth)[len(some) - depth])
    # Whoever rounds to the same float32 stays in, so that the id decides.
    below = float(np.nextafter(np.float32(floor), np.float32(0)))
    return max(below, float(np.nextafter(0.0, 1.0)))
