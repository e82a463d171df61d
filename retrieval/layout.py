"""Where the passages of one part lie: row numbers by access class, and ranking order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from retrieval.types import Ids, Vectors

Flags = NDArray[np.bool_]


def runs(starts: Ids, sizes: Ids) -> Ids:
    """Write out the half-open runs [start, start + size), one after the other."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - sizes), sizes) + np.arange(total, dtype=np.int64)


def among(values: Ids, ascending: Ids) -> Flags:
    """Say of each value whether it is one of the ascending ones."""
    at = np.searchsorted(ascending, values)
    found = np.zeros(len(values), dtype=np.bool_)
    inside = at < len(ascending)
    found[inside] = ascending[at[inside]] == values[inside]
    return found


def best_first(ids: Ids, scores: Vectors, depth: int | None = None) -> Ids:
    """Give the positions of the highest scores, best first, equal scores by ascending id.

    Args: depth: how many at most; None for all.
    """
    kept = np.arange(len(ids), dtype=np.int64)
    if depth is not None and 0 < 4 * depth < len(ids):
        # All that tie with the last place stay in, so that the id decides among them.
        last_place = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        kept = np.flatnonzero(scores >= last_place)
    order = np.lexsort((ids[kept], -scores[kept]))
    return kept[order[:depth]]


class Layout:
    """The rows of a part, class by class, and within a class by id.

    A list is a class's run of rows: list number l, of class classes[l], holds the rows
    starts[l] to starts[l + 1]. Whoever names rows of the asked lists has named nothing else,
    so work over them can't depend on other classes.

    ids: int64 [n] by row. order: int64 [n], the input position of each row.
    classes: int64 [l], ascending. starts: int64 [l + 1].
    Raises: ValueError if the ids are not ascending and unique, or the two lengths differ.
    """

    def __init__(self, ids: Ids, classes: Ids) -> None:
        if len(ids) != len(classes):
            raise ValueError(f"{len(ids)} ids but {len(classes)} classes; needed one class an id")
        if np.any(ids[1:] <= ids[:-1]):
            raise ValueError("ids are not ascending and unique, as a part needs them")
        self.order: Ids = np.argsort(classes, kind="stable").astype(np.int64)
        self.ids: Ids = np.ascontiguousarray(ids[self.order], dtype=np.int64)
        found, first = np.unique(classes[self.order], return_index=True)
        self.classes: Ids = found.astype(np.int64)
        self.starts: Ids = np.append(first, len(ids)).astype(np.int64)
        self._ascending: Ids = np.ascontiguousarray(ids, dtype=np.int64)
        self._row_of: Ids = np.empty(len(ids), dtype=np.int64)
        self._row_of[self.order] = np.arange(len(ids), dtype=np.int64)

    @property
    def n_rows(self) -> int:
        """How many rows there are, dead ones too."""
        return len(self.ids)

    @property
    def n_lists(self) -> int:
        """How many access classes have rows here."""
        return len(self.classes)

    @property
    def nbytes(self) -> int:
        """How many bytes the columns take."""
        columns = (self.order, self.ids, self.classes, self.starts, self._ascending, self._row_of)
        return sum(column.nbytes for column in columns)

    def lists(self, classes: Ids) -> Ids:
        """Give the list numbers of those classes that have rows here, ascending.

        Raises: ValueError if the classes are not ascending and unique: a class named twice
            would give its rows twice.
        """
        if np.any(classes[1:] <= classes[:-1]):
            raise ValueError(f"the {len(classes)} classes asked are not ascending and unique")
        at = np.searchsorted(self.classes, classes)
        return at[among(classes, self.classes)].astype(np.int64)

    def sizes(self, lists: Ids) -> Ids:
        """Count the rows of each list."""
        return self.starts[lists + 1] - self.starts[lists]

    def rows(self, lists: Ids) -> Ids:
        """Give the rows of these lists, list by list."""
        return runs(self.starts[lists], self.sizes(lists))

    def class_of(self, rows: Ids) -> Ids:
        """Give the access class of each row."""
        return self.classes[np.searchsorted(self.starts, rows, side="right") - 1]

    def rows_of(self, ids: Ids) -> Ids:
        """Give the row of each id, -1 where the part has no such id."""
        at = np.searchsorted(self._ascending, ids)
        rows = np.full(len(ids), -1, dtype=np.int64)
        here = among(ids, self._ascending)
        rows[here] = self._row_of[at[here]]
        return rows

    def marked(self, lists: Ids, ascending: Ids) -> Ids:
        """Give those of some ascending rows that lie in these lists."""
        low = np.searchsorted(ascending, self.starts[lists])
        high = np.searchsorted(ascending, self.starts[lists + 1])
        return ascending[runs(low.astype(np.int64), (high - low).astype(np.int64))]
