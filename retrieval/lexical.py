"""The lexical leg: BM25 whose statistics are those of the asked classes and no others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.layout import Flags, Layout, among, best_first, runs
from retrieval.types import Ids, Vectors
from retrieval.words import Lexicon

K1 = 1.2
B = 0.75

_TERM_NBYTES = 120  # a short Python string with its place in a dict, as measured


@dataclass(frozen=True, slots=True)
class Bags:
    """How often each row uses each term, as triples (row, term, count).

    vocabulary: the terms by number. rows, terms: int64 [m]. counts: int64 [m], at least 1.
    """

    vocabulary: tuple[str, ...]
    rows: Ids
    terms: Ids
    counts: Ids

    def kept(self, keep: Flags) -> Bags:
        """Leave only the flagged rows, numbered anew in the same order."""
        renumbered = np.cumsum(keep, dtype=np.int64) - 1
        stays = keep[self.rows]
        rows, terms = renumbered[self.rows[stays]], self.terms[stays]
        used, narrowed = np.unique(terms, return_inverse=True)
        vocabulary = tuple(self.vocabulary[number] for number in used.tolist())
        return Bags(vocabulary, rows, narrowed.astype(np.int64), self.counts[stays])

    def moved(self, rows: Ids) -> Bags:
        """Give each row another number: row r becomes rows[r]."""
        return Bags(self.vocabulary, rows[self.rows], self.terms, self.counts)


def count_terms(texts: Iterable[str], lexicon: Lexicon) -> Bags:
    """Count the terms of each text; text number r is row r."""
    number: dict[str, int] = {}
    rows: list[int] = []
    terms: list[int] = []
    counts: list[int] = []
    for row, text in enumerate(texts):
        bag = Counter(lexicon.terms(text))
        rows.extend([row] * len(bag))
        terms.extend([number.setdefault(term, len(number)) for term in bag])
        counts.extend(bag.values())
    return Bags(tuple(number), _column(rows), _column(terms), _column(counts))


def join(first: Bags, second: Bags, n_first: int) -> Bags:
    """Put the rows of the second, renumbered from n_first on, after those of the first."""
    number = {term: place for place, term in enumerate(first.vocabulary)}
    renamed = _column([number.setdefault(term, len(number)) for term in second.vocabulary])
    return Bags(
        tuple(number),
        np.concatenate([first.rows, second.rows + n_first]),
        np.concatenate([first.terms, renamed[second.terms]]),
        np.concatenate([first.counts, second.counts]),
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """What one part says of a scope and some terms; the input of `bm25`.

    n_rows, n_tokens: live rows of the scope and their length, all terms counted.
    ids: int64 [s], the rows of the scope. at, terms, counts, lengths: int64 [m], for each
    posting its place in ids, its term's place in the question, the term's count in the row
    and the row's length; ordered by term.
    """

    n_rows: int
    n_tokens: int
    ids: Ids
    at: Ids
    terms: Ids
    counts: Ids
    lengths: Ids


class LexicalPart:
    """Postings class by class: an immutable part of the lexical index.

    Postings are sorted by (list, term, row), and a directory names the run of each (list, term)
    pair. A question looks up every asked term in every asked list, found or not, and then walks
    only the runs it found: a term that is common elsewhere costs a scope nothing.

    Args: layout: where the rows lie. bags: their terms, rows numbered as in the layout.
    """

    def __init__(self, layout: Layout, bags: Bags) -> None:
        self._layout = layout
        self._vocabulary = bags.vocabulary
        self._number = {term: place for place, term in enumerate(bags.vocabulary)}
        # One number more than there are terms: an unknown term is looked up like a known one.
        self._stride = len(bags.vocabulary) + 1
        lists = np.searchsorted(layout.starts, bags.rows, side="right") - 1
        pairs = lists * self._stride + bags.terms
        order = np.lexsort((bags.rows, pairs))
        self._rows = bags.rows[order].astype(np.int32)
        self._counts = bags.counts[order].astype(np.int32)
        found, first = np.unique(pairs[order], return_index=True)
        # The last entry is above every pair, so that each look-up lands inside.
        self._pairs = np.append(found, np.iinfo(np.int64).max)
        self._starts = np.append(first, len(order)).astype(np.int64)
        self._lengths = np.bincount(bags.rows, bags.counts, layout.n_rows).astype(np.int64)
        before = np.append(0, np.cumsum(self._lengths))
        self._list_tokens = before[layout.starts[1:]] - before[layout.starts[:-1]]

    @property
    def nbytes(self) -> int:
        """How many bytes postings and vocabulary take, the latter by estimate."""
        columns = (self._rows, self._counts, self._pairs, self._starts, self._lengths)
        held = sum(column.nbytes for column in columns) + self._list_tokens.nbytes
        return int(held + len(self._vocabulary) * _TERM_NBYTES)

    def bags(self) -> Bags:
        """Give back what the part was built from, in the order of its postings."""
        terms = np.repeat(self._pairs[:-1] % self._stride, np.diff(self._starts))
        return Bags(
            self._vocabulary, self._rows.astype(np.int64), terms, self._counts.astype(np.int64)
        )

    def tally(self, terms: Sequence[str], classes: Ids, dead: Ids) -> Tally:
        """Count what the live rows of these classes say of these terms.

        Args:
            terms: unique; their order is the order in which `bm25` adds.
            classes: int64, ascending and unique. dead: int64, ascending rows.
        """
        lists = self._layout.lists(classes)
        sizes = self._layout.sizes(lists)
        gone = self._layout.marked(lists, dead)
        known = _column([self._number.get(term, self._stride - 1) for term in terms])
        wanted = (lists[None, :] + np.zeros_like(known)[:, None]) * self._stride + known[:, None]
        entry = np.searchsorted(self._pairs, wanted.ravel())
        hit = np.flatnonzero(self._pairs[entry] == wanted.ravel())
        starts = self._starts[entry[hit]]
        lengths = self._starts[entry[hit] + 1] - starts
        posting = runs(starts, lengths)
        term_of, list_of = np.divmod(np.repeat(hit, lengths), max(len(lists), 1))
        rows = self._rows[posting].astype(np.int64)
        # The rows of the scope stand list by list: a row's place is its distance into its list.
        shift = np.cumsum(sizes) - sizes - self._layout.starts[lists]
        live = ~among(rows, gone)
        return Tally(
            n_rows=int(sizes.sum()) - len(gone),
            n_tokens=int(self._list_tokens[lists].sum() - self._lengths[gone].sum()),
            ids=self._layout.ids[self._layout.rows(lists)],
            at=(rows + shift[list_of])[live],
            terms=term_of[live],
            counts=self._counts[posting][live].astype(np.int64),
            lengths=self._lengths[rows][live],
        )


def bm25(tallies: Sequence[Tally], weights: Sequence[int]) -> tuple[Ids, Vectors]:
    """Rank every row that has one of the terms: ids and float32 scores, best first.

    Counts are summed over all parts before anything is scored, so that how rows are spread over
    parts changes no bit; float64 terms are added in the order of the question's terms.

    Args: weights: how often the question says each term, at least 1.
    Source: S. Robertson, H. Zaragoza, The Probabilistic Relevance Framework, 2009, with the
        inverse document frequency and without the constant factor k1 + 1, as in Lucene 8.
    """
    n_rows = sum(tally.n_rows for tally in tallies)
    n_tokens = sum(tally.n_tokens for tally in tallies)
    frequency = sum(
        (np.bincount(tally.terms, minlength=len(weights)) for tally in tallies),
        start=np.zeros(len(weights), dtype=np.int64),
    )
    rarity = np.array(
        [
            weight * math.log(1 + (n_rows - n_with + 0.5) / (n_with + 0.5))
            for weight, n_with in zip(weights, frequency.tolist(), strict=True)
        ]
    )
    ids: list[Ids] = [np.empty(0, dtype=np.int64)]
    scores: list[NDArray[np.float64]] = [np.empty(0)]
    for tally in tallies:
        if len(tally.at):
            norm = K1 * (1 - B + B * (tally.lengths / (n_tokens / n_rows)))
            gains = rarity[tally.terms] * (tally.counts / (tally.counts + norm))
            sums = np.bincount(tally.at, gains, len(tally.ids)).astype(np.float64)
            matched = np.flatnonzero(sums > 0)
            ids.append(tally.ids[matched])
            scores.append(sums[matched])
    all_ids, all_scores = np.concatenate(ids), np.concatenate(scores).astype(np.float32)
    order = best_first(all_ids, all_scores)
    return all_ids[order], all_scores[order]


def _column(values: list[int]) -> Ids:
    return np.array(values, dtype=np.int64)
