"""One immutable set of passages with both legs over it, and those of them that are dead."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from retrieval.bags import Bags, count_terms, join
from retrieval.index import DensePart
from retrieval.layout import Flags, Layout, among
from retrieval.postings import LexicalPart
from retrieval.types import Ids, Rows, Vectors
from retrieval.words import Lexicon


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows on their way into a part, in any order; `bags` numbers them by position.

    ids, classes, documents: int64 [n]. vectors: float32 [n, d].
    """

    ids: Ids
    classes: Ids
    documents: Ids
    vectors: Vectors
    bags: Bags

    @classmethod
    def of(cls, rows: Rows, lexicon: Lexicon) -> Columns:
        """Count the terms of rows as they come from the corpus."""
        bags = count_terms(rows.texts, lexicon)
        return cls(rows.ids, rows.classes, rows.documents, rows.vectors, bags)

    def plus(self, other: Columns) -> Columns:
        """Put other rows behind these."""
        return Columns(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.classes, other.classes]),
            np.concatenate([self.documents, other.documents]),
            np.concatenate([self.vectors, other.vectors]),
            join(self.bags, other.bags, len(self.ids)),
        )


@dataclass(frozen=True, slots=True)
class Part:
    """Rows in layout order with both legs over them.

    dead: int64, ascending rows that are no longer there. saved: the name under which the part
    lies in the tenant's snapshot folder, "" if it does not; then its rows are mapped from there.
    """

    layout: Layout
    dense: DensePart
    lexical: LexicalPart
    dead: Ids
    saved: str = ""

    @classmethod
    def build(cls, columns: Columns) -> Part:
        """Lay rows out and index them. Raises: IndexMismatch, ValueError (see Layout.of)."""
        layout, order = Layout.of(columns.ids, columns.classes, columns.documents)
        row_of = np.empty(len(order), dtype=np.int64)
        row_of[order] = np.arange(len(order))
        return cls(
            layout,
            DensePart.build(layout, columns.vectors[order]),
            LexicalPart.build(layout, columns.bags.moved(row_of)),
            np.empty(0, dtype=np.int64),
        )

    @property
    def n_live(self) -> int:
        """Count the rows that are not dead."""
        return self.layout.n_rows - len(self.dead)

    @property
    def nbytes(self) -> int:
        """How many bytes the part holds in memory; rows mapped from a file are not among them."""
        vectors = 0 if self.saved else self.dense.vectors.nbytes
        return int(
            self.layout.nbytes
            + self.dense.codes.nbytes
            + self.lexical.nbytes
            + self.dead.nbytes
            + vectors
        )

    @property
    def own_nbytes(self) -> dict[str, int]:
        """How many bytes each leg and the layout hold that lie in no file, and so must stay."""
        codes = self.dense.codes
        dense, lexical = codes.scales.nbytes + codes.errors.nbytes, 0
        if not self.saved:
            dense += codes.codes.nbytes + self.dense.vectors.nbytes
            lexical = self.lexical.nbytes
        return {"layout": self.layout.nbytes, "dense": dense, "lexical": lexical}

    @property
    def mapped_nbytes(self) -> dict[str, int]:
        """How many bytes each leg has in files that are mapped."""
        if not self.saved:
            return {"layout": 0, "dense": 0, "lexical": 0}
        dense = self.dense.codes.codes.nbytes + self.dense.vectors.nbytes
        return {"layout": 0, "dense": dense, "lexical": self.lexical.nbytes}

    def without(self, documents: Ids) -> Part:
        """Declare the rows of these documents dead. documents: int64, unique."""
        gone = self.layout.rows_of_documents(documents)
        if not len(gone):
            return self
        new = gone[~among(gone, self.dead)]
        return replace(self, dead=np.sort(np.concatenate([self.dead, new])))

    def live(self) -> Flags:
        """Flag the rows that are not dead."""
        flags = np.ones(self.layout.n_rows, dtype=np.bool_)
        flags[self.dead] = False
        return flags

    def columns(self) -> Columns:
        """Give back the live rows, in layout order."""
        live = self.live()
        return Columns(
            self.layout.ids[live],
            self.layout.class_of(np.flatnonzero(live)),
            self.layout.documents[live],
            self.dense.vectors[live],
            self.lexical.bags().kept(live),
        )

    def live_rows_of(self, ids: Ids) -> Ids:
        """Give the live row of each id, -1 where there is none."""
        rows = self.layout.rows_of(ids)
        if len(self.dead):
            rows[among(rows, self.dead)] = -1
        return rows
