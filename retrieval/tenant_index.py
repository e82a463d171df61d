"""All that is searched of one tenant, at one content sequence: two parts that never change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from retrieval.errors import IndexMismatch
from retrieval.index import DensePart
from retrieval.layout import Flags, Layout, among, best_first
from retrieval.lexical import Bags, LexicalPart, bm25, count_terms, join
from retrieval.types import Changes, Ids, Rows, Vectors
from retrieval.words import Lexicon


@dataclass(frozen=True, slots=True)
class _Columns:
    """Rows on their way into a part, in any order; `bags` numbers them by position."""

    ids: Ids
    classes: Ids
    documents: Ids
    vectors: Vectors
    bags: Bags

    @classmethod
    def none(cls, width: int) -> _Columns:
        no = np.empty(0, dtype=np.int64)
        return cls(no, no, no, np.empty((0, width), dtype=np.float32), Bags((), no, no, no))

    @classmethod
    def of(cls, rows: Rows, lexicon: Lexicon) -> _Columns:
        bags = count_terms(rows.texts, lexicon)
        return cls(rows.ids, rows.classes, rows.documents, rows.vectors, bags)

    def plus(self, other: _Columns) -> _Columns:
        return _Columns(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.classes, other.classes]),
            np.concatenate([self.documents, other.documents]),
            np.concatenate([self.vectors, other.vectors]),
            join(self.bags, other.bags, len(self.ids)),
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows in layout order with both legs over them, and the rows that are dead by now."""

    layout: Layout
    documents: Ids
    dense: DensePart
    lexical: LexicalPart
    dead: Ids

    @classmethod
    def build(cls, columns: _Columns) -> _Part:
        by_id = np.argsort(columns.ids, kind="stable")
        layout = Layout(columns.ids[by_id], columns.classes[by_id])
        order = by_id[layout.order]
        row_of = np.empty(len(order), dtype=np.int64)
        row_of[order] = np.arange(len(order))
        return cls(
            layout,
            columns.documents[order],
            DensePart(layout, columns.vectors[order]),
            LexicalPart(layout, columns.bags.moved(row_of)),
            np.empty(0, dtype=np.int64),
        )

    def without(self, documents: Ids) -> _Part:
        """Declare the rows of these documents dead."""
        dead = np.flatnonzero(~self.live() | np.isin(self.documents, documents))
        return _Part(self.layout, self.documents, self.dense, self.lexical, dead)

    def live(self) -> Flags:
        flags = np.ones(self.layout.n_rows, dtype=np.bool_)
        flags[self.dead] = False
        return flags

    def columns(self) -> _Columns:
        """Give back the live rows, in layout order."""
        live = self.live()
        return _Columns(
            self.layout.ids[live],
            self.layout.class_of(np.flatnonzero(live)),
            self.documents[live],
            self.dense.vectors[live],
            self.lexical.bags().kept(live),
        )

    def live_rows_of(self, ids: Ids) -> Ids:
        """Give the live row of each id, -1 where there is none."""
        rows = self.layout.rows_of(ids)
        rows[among(rows, self.dead)] = -1
        return rows

    @property
    def nbytes(self) -> int:
        own = self.documents.nbytes + self.dead.nbytes
        return own + self.layout.nbytes + self.dense.nbytes + self.lexical.nbytes


@dataclass(frozen=True, slots=True)
class TenantIndex:
    """A tenant's passages as they were at `sequence`; made only by `empty` and `apply`.

    Searching needs no lock. A big part stands still while a small one is rebuilt with every
    change, and rows of the big one die by being named dead. An id can be dead in the big part
    and alive in the small one (a passage that moved to another class keeps its id), so the dead
    are known by part and row, never by id.

    sequence: the content sequence this state shows. width: columns of a vector.
    """

    sequence: int
    width: int
    _settled: _Part
    _recent: _Part

    @classmethod
    def empty(cls, width: int) -> TenantIndex:
        """Give the index of a tenant without passages, before any change."""
        nothing = _Part.build(_Columns.none(width))
        return cls(0, width, nothing, nothing)

    @property
    def n_rows(self) -> int:
        """Count the live passages."""
        return sum(part.layout.n_rows - len(part.dead) for part in self._parts())

    @property
    def nbytes(self) -> int:
        """Add up what the parts hold in memory, FAISS and dictionaries by estimate."""
        return sum(part.nbytes for part in self._parts())

    def apply(self, changes: Changes, lexicon: Lexicon, merge_rows: int) -> TenantIndex:
        """Give the index after these changes; this one stays as it is.

        Args: merge_rows: recent rows, or dead ones, beyond which all becomes one part again.
        Raises: IndexMismatch if the vectors have another width or are not unit;
            ValueError if the changes are older than this index, or an id has two documents.
        """
        self._check(changes)
        # The first change, which brings everything, has nothing to take away and names nothing.
        changed = np.union1d(changes.documents, changes.rows.documents)
        if not len(changed):
            return replace(self, sequence=changes.sequence)
        settled = self._settled.without(changed)
        recent = self._recent.without(changed).columns()
        if len(changes.rows.ids):
            recent = recent.plus(_Columns.of(changes.rows, lexicon))
        if np.any(settled.live_rows_of(recent.ids) >= 0) or len(np.unique(recent.ids)) < len(
            recent.ids
        ):
            raise ValueError("a passage came that another, unchanged document already holds")
        if max(len(recent.ids), len(settled.dead)) > merge_rows:
            settled = _Part.build(settled.columns().plus(recent))
            recent = _Columns.none(self.width)
        return TenantIndex(changes.sequence, self.width, settled, _Part.build(recent))

    def dense(self, vector: Vectors, classes: Ids, depth: int) -> tuple[Ids, Vectors]:
        """Give the exact nearest passages of these classes: ids and cosines, best first.

        Args: vector: float32 [width], unit. classes: int64, ascending and unique.
        Raises: ValueError for an unfit vector; IndexUnsound if a guard around FAISS tripped.
        """
        found = [part.dense.nearest(vector, classes, depth, part.dead) for part in self._parts()]
        ids = np.concatenate([part_ids for part_ids, _ in found])
        scores = np.concatenate([part_scores for _, part_scores in found])
        order = best_first(ids, scores, depth)
        return ids[order], scores[order]

    def cosines(self, ids: Ids, vector: Vectors) -> Vectors:
        """Score passages that a leg of this same index found: float32 [n].

        Raises: ValueError if an id has no live passage, or for an unfit vector.
        """
        scores = np.empty(len(ids), dtype=np.float32)
        n_found = 0
        for part in self._parts():
            rows = part.live_rows_of(ids)
            here = rows >= 0
            scores[here] = part.dense.scores(rows[here], vector)
            n_found += int(here.sum())
        if n_found != len(ids):
            raise ValueError(f"{len(ids)} passages to score; {n_found} are here")
        return scores

    def lexical(self, terms: Sequence[str], classes: Ids) -> tuple[Ids, Vectors]:
        """Rank all passages of these classes that share a term: ids and BM25, best first."""
        said = sorted(Counter(terms).items())
        known = [term for term, _ in said]
        tallies = [part.lexical.tally(known, classes, part.dead) for part in self._parts()]
        return bm25(tallies, [weight for _, weight in said])

    def _parts(self) -> Iterator[_Part]:
        yield self._settled
        yield self._recent

    def _check(self, changes: Changes) -> None:
        rows = changes.rows
        if changes.sequence < self.sequence:
            raise ValueError(f"changes end at {changes.sequence}; the index is at {self.sequence}")
        if len(rows.ids) and rows.vectors.shape[1] != self.width:
            found = rows.vectors.shape[1]
            raise IndexMismatch(f"stored vectors are {found} wide; the encoder's are {self.width}")
