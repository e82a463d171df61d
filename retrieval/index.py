"""The dense leg: exact nearest rows from the lists of access classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from retrieval.errors import IndexUnsound
from retrieval.layout import Layout, Reach, among, best_first, within_reach
from retrieval.lists.bytecodes import ByteCodes
from retrieval.lists.kernel import (
    check_query,
    check_units,
    code_error,
    exact_scores,
    scores_of_known,
)
from retrieval.types import Ids, Vectors

SCANNED_ROWS = 4_000
"""So few permitted rows are scored directly, without codes: the codes save no time there
(measured, docs/benchmarks.md). The result is the same either way."""


class Lists(Protocol):
    """fp16 codes in lists that FAISS searches, on a device or on the CPU."""

    def search(self, query: Vectors, lists: Ids, depth: int) -> tuple[Ids, Vectors]:
        """Give the best rows of these lists by their codes, and the codes' scores."""
        ...

    def takes(self, lists: Ids, depth: int) -> bool:
        """Say whether it would search these lists so deep."""
        ...


@dataclass(frozen=True, slots=True)
class DensePart:
    """An immutable set of vectors that answers exactly, touching the asked classes only.

    layout: where the rows lie. vectors: float32 [n, d], unit rows, in layout order; they may
    be mapped from a file. codes: byte codes of the same rows. device: the same rows in lists
    on a GPU, None where there is none.
    """

    layout: Layout
    vectors: Vectors
    codes: ByteCodes
    device: Lists | None = None

    @classmethod
    def build(cls, layout: Layout, vectors: Vectors) -> DensePart:
        """Check the rows and encode them.

        Raises: IndexMismatch if they are not unit; ValueError if they are not float32 [n, d].
        """
        if vectors.dtype != np.float32 or len(vectors) != layout.n_rows:
            found = f"{vectors.dtype} {list(vectors.shape)}"
            raise ValueError(f"vectors are {found}; needed float32 [{layout.n_rows}, d]")
        check_units(vectors)
        held = np.ascontiguousarray(vectors)
        return cls(layout, held, ByteCodes.build(layout.starts, held))

    @property
    def width(self) -> int:
        """How many columns a vector has."""
        return int(self.vectors.shape[1])

    def reach(self, classes: Ids, dead: Ids) -> Reach:
        """Find what these classes have here; it serves every search of the same scope.

        Args: classes: int64, ascending and unique. dead: int64, ascending rows that are gone.
        """
        reach = self.layout.reach(classes, dead)
        if reach.n_rows > SCANNED_ROWS:
            return reach
        rows = self.layout.rows(reach.lists)
        gone = reach.gone
        rows = rows if not len(gone) else rows[~among(rows, gone)]
        return replace(reach, rows=rows, ids=self.layout.ids[rows])

    def nearest(self, vector: Vectors, reach: Reach, depth: int) -> tuple[Ids, Vectors]:
        """Give the exact best live rows of a reach: ids and scores, best first.

        Few rows are all scored by `exact_scores`. Of many, codes say which can be among the
        best at all, and those are scored by it: the same result, by a bound that is proven.

        Args: depth: at least 1; more than there are rows gives all.
        Raises: ValueError for an unfit vector; IndexUnsound if FAISS strayed.
        """
        query = check_query(vector, self.width)
        wanted = min(depth, reach.n_rows - len(reach.gone))
        if wanted < 1:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        if reach.rows is not None and reach.ids is not None:
            # The layout named these rows itself: they need no check.
            scores = scores_of_known(self.vectors, query, reach.rows)
            order = best_first(reach.ids, scores, wanted)
            return reach.ids[order], scores[order]
        found = self._on_device(query, reach, wanted)
        return found or self._by_codes(query, reach, wanted)

    def scores(self, rows: Ids, vector: Vectors) -> Vectors:
        """Give the exact scores of these rows: float32 [n]. Raises: ValueError, as above."""
        return exact_scores(self.vectors, check_query(vector, self.width), rows)

    def _by_codes(self, query: Vectors, reach: Reach, wanted: int) -> tuple[Ids, Vectors]:
        coded = self.codes.query(query)
        scores = self.codes.scores(coded, reach.lows, reach.highs)
        if len(reach.gone):
            scores[reach.places(reach.gone)] = -np.inf
        bound = self.codes.bound(coded, reach.lists) / coded.scale
        near = within_reach(scores, wanted, bound)
        return self._ranked(reach.rows_at(near[scores[near] > -np.inf]), query, wanted)

    def _on_device(self, query: Vectors, reach: Reach, wanted: int) -> tuple[Ids, Vectors] | None:
        """Search the device's lists twice as deep as asked; None if that proves nothing.

        What is found is the answer if its last place beats whatever was left out by more than
        `code_error`; else once more twice as deep.
        """
        first = 2 * (wanted + len(reach.gone))
        for depth in (first, 2 * first):
            if self.device is None or not self.device.takes(reach.lists, depth):
                return None
            rows, coarse = self.device.search(query, reach.lists, depth)
            self._refuse_strays(rows, reach.classes, depth)
            live = rows if not len(reach.gone) else rows[~among(rows, reach.gone)]
            ids, scores = self._ranked(live, query, wanted)
            if float(scores[-1]) > float(coarse.min()) + code_error(self.width):
                return ids, scores
        return None

    def _ranked(self, rows: Ids, query: Vectors, depth: int) -> tuple[Ids, Vectors]:
        ids, scores = self.layout.ids[rows], exact_scores(self.vectors, query, rows)
        order = best_first(ids, scores, depth)
        return ids[order], scores[order]

    def _refuse_strays(self, rows: Ids, classes: Ids, wanted: int) -> None:
        ordered = np.sort(rows)
        n_rows = self.layout.n_rows
        if len(rows) and (ordered[0] < 0 or ordered[-1] >= n_rows):
            raise IndexUnsound(f"FAISS returned a row outside the part's {n_rows}")
        if len(rows) != wanted or (ordered[1:] == ordered[:-1]).any():
            raise IndexUnsound(f"FAISS returned {len(np.unique(rows))} rows; {wanted} were there")
        n_strays = int(np.sum(~among(self.layout.class_of(rows), classes)))
        if n_strays:
            raise IndexUnsound(f"FAISS returned {n_strays} rows of classes that were not asked")
