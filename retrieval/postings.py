"""Postings by term: which row says a term how often, found within a scope alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from retrieval.bags import Bags, Numbers
from retrieval.layout import Flags, Layout, Reach, runs
from retrieval.lexical import Counts, Postings, Tally
from retrieval.types import Ids
from retrieval.vocabulary import Vocabulary

_FEW_POSTINGS = 20_000
_OVER = 255  # a count of so many or more stands beside the postings

Narrow = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Spans:
    """The spans of a scope as postings are cut by them.

    bounds: int32 [2 s], low and high of each span in turn. shifts: int64 [s], what makes of a
    row of the span its place in the scope. dead: bool by place, None if all are alive.
    """

    bounds: Numbers
    shifts: Ids
    dead: Flags | None

    @classmethod
    def of(cls, reach: Reach, gone_at: Ids) -> _Spans:
        bounds = np.empty(2 * len(reach.lows), dtype=np.int32)
        bounds[0::2], bounds[1::2] = reach.lows, reach.highs
        dead = None
        if len(gone_at):
            dead = np.zeros(reach.n_rows, dtype=np.bool_)
            dead[gone_at] = True
        return cls(bounds, (reach.highs - reach.lows).cumsum() - reach.highs, dead)


@dataclass(frozen=True, slots=True)
class LexicalPart:
    """Postings term by term, and within a term by row: an immutable part of the lexical index.

    Rows of a class lie together, so a scope is a few spans of rows, and the postings of a term
    in a span are found by two binary searches. What stands between the spans is not read: a
    term that is common elsewhere costs a scope the logarithm of its postings. A term that is
    nowhere is looked up like one that stands only outside the scope, among the postings of its
    neighbour in the vocabulary.

    rows: int32 [m]. counts: uint8 [m], 255 for 255 and more. over_at, over_counts: int64 and
    int32 [o], where those stand in ascending order, and what they are. starts: int64 [t + 1].
    lengths: int32 [n], terms of each row. list_ends: int64 [l + 1], terms of all lists before.
    All may be mapped.
    """

    layout: Layout
    vocabulary: Vocabulary
    rows: Numbers
    counts: Narrow
    over_at: Ids
    over_counts: Numbers
    starts: Ids
    lengths: Numbers
    list_ends: Ids

    @classmethod
    def build(cls, layout: Layout, bags: Bags) -> LexicalPart:
        """Index bags whose rows are numbered as in the layout."""
        vocabulary, numbers = Vocabulary.of(bags.vocabulary)
        rows, counts, starts = _by_term(bags, numbers[bags.terms], layout.n_rows, len(vocabulary))
        over_at = np.flatnonzero(counts >= _OVER).astype(np.int64)
        lengths = np.bincount(bags.rows, bags.counts, layout.n_rows).astype(np.int32)
        return cls(
            layout,
            vocabulary,
            rows,
            np.minimum(counts, _OVER).astype(np.uint8),
            over_at,
            counts[over_at],
            starts,
            lengths,
            np.append(0, np.cumsum(lengths, dtype=np.int64))[layout.starts],
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
            held["over_at"],
            held["over_counts"],
            held["starts"],
            held["lengths"],
            held["list_ends"],
        )
        if (len(part.lengths), len(part.list_ends)) != (layout.n_rows, layout.n_lists + 1):
            raise ValueError("the lexical columns are of another layout")
        fits = len(part.starts) == len(part.vocabulary) + 1 and part.starts[-1] == len(part.rows)
        same = len(part.counts) == len(part.rows) and len(part.over_at) == len(part.over_counts)
        if not fits or not same or part.counts.dtype != np.uint8:
            raise ValueError("the lexical columns do not fit each other")
        return part

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """Give the part as plain arrays, for files."""
        return {
            "letters": self.vocabulary.letters,
            "letter_ends": self.vocabulary.ends,
            "rows": self.rows,
            "counts": self.counts,
            "over_at": self.over_at,
            "over_counts": self.over_counts,
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
        counts[self.over_at] = self.over_counts
        return Bags(self.vocabulary.terms(), np.asarray(self.rows), terms, counts)

    def tally(self, terms: Sequence[str], reach: Reach) -> Tally:
        """Count what the live rows of a reach say of these terms.

        Args: terms: unique; their order is the order in which `bm25` adds.
        """
        gone = reach.gone
        gone_at = reach.places(gone)
        ends = self.list_ends
        n_tokens = int((ends[reach.lists + 1] - ends[reach.lists]).sum())
        found: tuple[Postings, ...] = ()
        if reach.n_rows and len(self.vocabulary):
            spans = _Spans.of(reach, gone_at)
            found = tuple(self._postings(place, term, spans) for place, term in enumerate(terms))
        return Tally(
            self.layout,
            reach,
            gone_at,
            reach.n_rows - len(gone),
            n_tokens - int(self.lengths[gone].sum()),
            found,
        )

    def _postings(self, place: int, term: str, spans: _Spans) -> Postings:
        number, is_known = self.vocabulary.place(term)
        low = int(self.starts[number])
        rows = self.rows[low : int(self.starts[number + 1])]
        cuts: Ids = rows.searchsorted(spans.bounds)
        at: Ids
        if len(cuts) == 2:
            first = low + int(cuts[0])
            chosen: slice | Ids = slice(first, first + is_known * int(cuts[1] - cuts[0]))
            within = self.rows[chosen]
            at = within.astype(np.int64)
            at += spans.shifts[0]
        else:
            sizes = is_known * (cuts[1::2] - cuts[0::2])
            hit = np.flatnonzero(sizes)
            chosen = runs(low + cuts[2 * hit], sizes[hit])
            within = self.rows[chosen]
            at = np.repeat(spans.shifts[hit], sizes[hit])
            at += within
        n_dead = 0 if spans.dead is None else int(np.count_nonzero(spans.dead[at]))
        counts = self._counted(chosen)
        return Postings(place, at, counts, self.lengths[within], len(at) - n_dead)

    def _counted(self, chosen: slice | Ids) -> Counts:
        """Give the counts of some postings, and only of them."""
        counts = self.counts[chosen]
        over = np.flatnonzero(counts == _OVER)
        if not len(over):
            return counts
        where = over + chosen.start if isinstance(chosen, slice) else chosen[over]
        whole = counts.astype(np.int32)
        whole[over] = self.over_counts[self.over_at.searchsorted(where)]
        return whole


def _by_term(bags: Bags, terms: Numbers, n_rows: int, n_terms: int) -> tuple[Numbers, Numbers, Ids]:
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
