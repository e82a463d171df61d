"""The lexical leg: BM25 whose statistics are those of the asked classes and no others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from retrieval.bags import Bags, Numbers
from retrieval.layout import Layout, Reach, best_first, runs, within_reach
from retrieval.types import Ids, Vectors
from retrieval.vocabulary import Vocabulary

K1 = 1.2
B = 0.75

_FEW_POSTINGS = 20_000

Counts = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Postings:
    """Where one term stands in a scope. at: places in the scope, ascending; counts, lengths:
    of those rows; n_live: how many of them are not dead.
    """

    term: int
    at: NDArray[np.integer]
    counts: Counts
    lengths: NDArray[np.int32]
    n_live: int


@dataclass(frozen=True, slots=True)
class Tally:
    """What one part says of a scope and some terms; the input of `bm25`.

    n_rows, n_tokens: live rows of the scope and their length, all terms counted.
    """

    layout: Layout
    reach: Reach
    n_rows: int
    n_tokens: int
    found: tuple[Postings, ...]


@dataclass(frozen=True, slots=True)
class LexicalPart:
    """Postings term by term, and within a term by row: an immutable part of the lexical index.

    Rows of a class lie together, so a scope is a few spans of rows, and the postings of a term
    in a span are found by two binary searches. What stands between the spans is not read: a
    term that is common elsewhere costs a scope the logarithm of its postings.

    rows: int32 [m]. counts: uint8 or int32 [m]. starts: int64 [t + 1]. lengths: int32 [n], terms
    of each row. list_ends: int64 [l + 1], terms of all lists before. All may be mapped.
    """

    layout: Layout
    vocabulary: Vocabulary
    rows: NDArray[np.int32]
    counts: Counts
    starts: Ids
    lengths: NDArray[np.int32]
    list_ends: Ids

    @classmethod
    def build(cls, layout: Layout, bags: Bags) -> LexicalPart:
        """Index bags whose rows are numbered as in the layout."""
        vocabulary, numbers = Vocabulary.of(bags.vocabulary)
        terms = numbers[bags.terms]
        rows, counts, starts = _by_term(bags, terms, layout.n_rows, len(vocabulary))
        n_most = int(counts.max()) if len(counts) else 0
        lengths = np.bincount(bags.rows, bags.counts, layout.n_rows).astype(np.int32)
        ends = np.append(0, np.cumsum(lengths, dtype=np.int64))[layout.starts]
        return cls(
            layout,
            vocabulary,
            rows,
            counts.astype(np.uint8 if n_most < 256 else np.int32),
            starts,
            lengths,
            ends,
        )

    @classmethod
    def opened(cls, layout: Layout, columns: Mapping[str, NDArray[np.generic]]) -> LexicalPart:
        """Take columns as `columns` gave them; they may be mapped from files.

        Raises: KeyError if one is missing; ValueError if they do not fit the layout.
        """
        held: dict[str, np.ndarray] = {name: np.asarray(each) for name, each in columns.items()}
        part = cls(
            layout,
            Vocabulary(held["letters"], held["letter_ends"]),
            held["rows"],
            held["counts"],
            held["starts"],
            held["lengths"],
            held["list_ends"],
        )
        if (len(part.lengths), len(part.list_ends)) != (layout.n_rows, layout.n_lists + 1):
            raise ValueError("the lexical columns are of another layout")
        if len(part.starts) != len(part.vocabulary) + 1 or part.starts[-1] != len(part.rows):
            raise ValueError("the lexical columns do not fit each other")
        return part

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """Give the part as plain arrays, for files."""
        return {
            "letters": self.vocabulary.letters,
            "letter_ends": self.vocabulary.ends,
            "rows": self.rows,
            "counts": self.counts,
            "starts": self.starts,
            "lengths": self.lengths,
            "list_ends": self.list_ends,
        }

    @property
    def nbytes(self) -> int:
        """How many bytes the columns take."""
        return int(sum(column.nbytes for column in self.columns().values()))

    def bags(self) -> Bags:
        """Give back what the part was built from, in the order of its postings."""
        terms = np.repeat(np.arange(len(self.vocabulary), dtype=np.int32), np.diff(self.starts))
        counts = self.counts.astype(np.int32)
        return Bags(self.vocabulary.terms(), np.asarray(self.rows), terms, counts)

    def tally(self, terms: Sequence[str], reach: Reach) -> Tally:
        """Count what the live rows of a reach say of these terms.

        Args: terms: unique; their order is the order in which `bm25` adds.
        """
        gone = reach.gone
        ends = self.list_ends
        n_tokens = int((ends[reach.lists + 1] - ends[reach.lists]).sum())
        found = []
        if reach.n_rows:
            for place, term in enumerate(terms):
                number = self.vocabulary.number(term)
                if number >= 0:
                    found.append(self._postings(place, number, reach))
        return Tally(
            self.layout,
            reach,
            reach.n_rows - len(gone),
            n_tokens - int(self.lengths[gone].sum()),
            tuple(found),
        )

    def _postings(self, place: int, number: int, reach: Reach) -> Postings:
        low, high = int(self.starts[number]), int(self.starts[number + 1])
        rows = self.rows[low:high]
        first = rows.searchsorted(reach.lows.astype(np.int32))
        last = rows.searchsorted(reach.highs.astype(np.int32))
        if len(first) == 1:
            span = slice(int(first[0]), int(last[0]))
            at = rows[span] - np.int32(reach.lows[0])
            within, counts = rows[span], self.counts[low:high][span]
        else:
            sizes = (last - first).astype(np.int64)
            chosen = runs(first.astype(np.int64), sizes)
            within, counts = rows[chosen], self.counts[low:high][chosen]
            before = (reach.highs - reach.lows).cumsum() - reach.highs
            at = within + np.repeat(before, sizes)
        n_dead = 0
        if len(reach.gone) and len(within):
            gone = reach.gone.astype(np.int32)
            near = np.minimum(within.searchsorted(gone), len(within) - 1)
            n_dead = int((within[near] == gone).sum())
        return Postings(place, at, counts, self.lengths[within], len(within) - n_dead)


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
            places = np.flatnonzero(sums)
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
                norm = K1 * (1 - B + B * (postings.lengths / (n_tokens / n_rows)))
                gains = rarity[postings.term] * (postings.counts / (postings.counts + norm))
                # A row stands once in a term's postings: nothing is added twice.
                summed[postings.at] += gains
        if len(tally.reach.gone):
            summed[tally.reach.places(tally.reach.gone)] = 0
        sums.append(summed)
    return Matches(tuple(tallies), tuple(sums))


def _by_term(bags: Bags, terms: Ids, n_rows: int, n_terms: int) -> tuple[Numbers, Numbers, Ids]:
    """Order postings by term, then by row: rows, counts, and where each term starts."""
    if len(terms) < _FEW_POSTINGS:
        order = np.lexsort((bags.rows, terms))
        starts = np.append(0, np.cumsum(np.bincount(terms, minlength=n_terms)))
        return bags.rows[order], bags.counts[order], starts.astype(np.int64)
    # A sparse matrix turned on its side: linear, where sorting is not.
    by_row = csr_array((bags.counts, (bags.rows, terms)), shape=(n_rows, n_terms), dtype=np.int32)
    by_term = by_row.tocsc()
    by_term.sort_indices()
    return by_term.indices.astype(np.int32), by_term.data, by_term.indptr.astype(np.int64)
