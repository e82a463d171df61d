"""Where the passages of one part lie: row numbers by access class, and ranking order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.types import Ids, Vectors

_SAMPLE = 2_048

Flags = NDArray[np.bool_]
Places = NDArray[np.int32]
"""Row numbers, where a million of them are kept."""


def runs(starts: Ids, sizes: Ids) -> Ids:
    """Write out the half-open runs [start, start + size), one after the other."""
    ends: Ids = sizes.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    shifts: Ids = np.repeat(starts - (ends - sizes), sizes)
    return shifts + np.arange(total, dtype=np.int64)


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
    if depth is None or depth <= 0 or 4 * depth >= len(ids):
        return np.lexsort((ids, -scores))[:depth]
    # All that tie with the last place stay in, so that the id decides among them.
    last_place = np.partition(scores, len(scores) - depth)[len(scores) - depth]
    kept = np.flatnonzero(scores >= last_place)
    return kept[np.lexsort((ids[kept], -scores[kept]))[:depth]]


def within_reach(scores: Vectors, depth: int, bound: float) -> Ids:
    """Give the positions of all scores that may belong to one of the best `depth` rows.

    `depth` rows score at least the depth-th best score less the bound, exactly; who lies more
    than twice the bound below it can't be among them. Equal to sorting all, but linear.
    """
    n_rows = len(scores)
    kept: Ids | None = None
    if n_rows > 2 * _SAMPLE:
        # The depth-th best of some is no better than that of all: a first, loose threshold.
        some = scores[:: n_rows // _SAMPLE]
        if len(some) > depth:
            floor = np.partition(some, len(some) - depth)[len(some) - depth]
            kept = np.flatnonzero(scores >= floor - 2 * bound)
            scores = scores[kept]
    if len(scores) > depth:
        floor = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        near = np.flatnonzero(scores >= floor - 2 * bound)
        kept = near if kept is None else kept[near]
    return np.arange(n_rows) if kept is None else kept


@dataclass(frozen=True, slots=True)
class Reach:
    """What some classes have in a part: their lists, joined to spans of rows [low, high).

    A row's place is its number among the rows of all spans. gone: the dead rows among them.
    n_rows: all their rows, dead ones too. rows: the live rows one by one, where a search
    wants them so.
    """

    classes: Ids
    lists: Ids
    lows: Ids
    highs: Ids
    gone: Ids
    n_rows: int
    rows: Ids | None = None

    def places(self, rows: Ids) -> Ids:
        """Give the place of each of some rows, all of them in the spans."""
        span = self.lows.searchsorted(rows, side="right") - 1
        ends = (self.highs - self.lows).cumsum()
        places: Ids = rows - self.highs[span] + ends[span]
        return places

    def rows_at(self, places: Ids) -> Ids:
        """Give the row at each of some places."""
        ends = (self.highs - self.lows).cumsum()
        span = ends.searchsorted(places, side="right")
        rows: Ids = places - ends[span] + self.highs[span]
        return rows

    def holds(self, rows: Ids) -> Flags:
        """Say of each row whether it lies in the spans."""
        span = self.lows.searchsorted(rows, side="right") - 1
        inside = span >= 0
        inside[inside] = rows[inside] < self.highs[span[inside]]
        return inside


class Layout:
    """The rows of a part, class by class, and within a class by id.

    A list is a class's run of rows: list number l, of class classes[l], holds the rows
    starts[l] to starts[l + 1]. Whoever names rows of the asked lists has named nothing else,
    so work over them can't depend on other classes.

    ids, documents: int64 [n] by row. classes: int64 [l], ascending. starts: int64 [l + 1].
    """

    def __init__(self, ids: Ids, documents: Ids, classes: Ids, starts: Ids) -> None:
        """Take columns in layout order, as they are (they may be mapped from a file).

        Raises: ValueError if classes or starts are not ascending, or the lengths differ.
        """
        if len(ids) != len(documents) or len(starts) != len(classes) + 1 or starts[-1] != len(ids):
            raise ValueError(
                f"{len(ids)} ids, {len(documents)} documents, {len(classes)} classes and "
                f"{len(starts)} starts do not fit each other"
            )
        if np.any(classes[1:] <= classes[:-1]) or np.any(starts[1:] < starts[:-1]):
            raise ValueError("classes or starts are not ascending, as a part needs them")
        self.ids = ids
        self.documents = documents
        self.classes = classes
        self.starts = starts
        # One more than there are, so that each look-up lands inside.
        self._looked_up: Ids = np.append(classes, np.iinfo(np.int64).max)
        self._by_id: Places = np.argsort(ids, kind="stable").astype(np.int32)
        self._by_document: Places = np.argsort(documents, kind="stable").astype(np.int32)
        # Kept in order too: looking things up through an order would copy it each time.
        self._sorted_ids: Ids = ids[self._by_id]
        self._sorted_documents: Ids = documents[self._by_document]

    @classmethod
    def of(cls, ids: Ids, classes: Ids, documents: Ids) -> tuple[Layout, Ids]:
        """Lay rows out. Gives the layout, and int64 [n]: the input position of each row.

        Args: ids: int64 [n], unique. classes, documents: int64 [n], of each id.
        Raises: ValueError if an id comes twice, or the lengths differ.
        """
        if not len(ids) == len(classes) == len(documents):
            raise ValueError(
                f"{len(ids)} ids but {len(classes)} classes and {len(documents)} documents"
            )
        order = np.lexsort((ids, classes)).astype(np.int64)
        ordered = classes[order]
        is_first = np.ones(len(ids), dtype=np.bool_)
        is_first[1:] = ordered[1:] != ordered[:-1]
        first = np.flatnonzero(is_first)
        starts = np.append(first, len(ids)).astype(np.int64)
        layout = cls(ids[order], documents[order], ordered[first], starts)
        by_id = layout._sorted_ids
        if np.any(by_id[1:] == by_id[:-1]):
            raise ValueError("an id comes twice; a part needs them unique")
        return layout, order

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
        columns = (self.ids, self.documents, self.starts, self._by_id, self._by_document)
        return sum(column.nbytes for column in columns) + 16 * len(self.ids) + 16 * self.n_lists

    def lists(self, classes: Ids) -> Ids:
        """Give the list numbers of those classes that have rows here, ascending.

        Raises: ValueError if the classes are not ascending and unique: a class named twice
            would give its rows twice.
        """
        if (classes[1:] <= classes[:-1]).any():
            raise ValueError(f"the {len(classes)} classes asked are not ascending and unique")
        at = self._looked_up.searchsorted(classes)
        found: Ids = at[self._looked_up[at] == classes]
        return found

    def sizes(self, lists: Ids) -> Ids:
        """Count the rows of each list."""
        return self.starts[lists + 1] - self.starts[lists]

    def rows(self, lists: Ids) -> Ids:
        """Give the rows of these lists, list by list."""
        return runs(self.starts[lists], self.sizes(lists))

    def reach(self, classes: Ids, dead: Ids) -> Reach:
        """Find what these classes have here.

        Args: classes: int64, ascending and unique. dead: int64, ascending rows that are gone.
        """
        lists = self.lists(classes)
        lows, highs = self.spans(lists)
        gone = self.marked(lists, dead)
        return Reach(classes, lists, lows, highs, gone, int(self.sizes(lists).sum()))

    def spans(self, lists: Ids) -> tuple[Ids, Ids]:
        """Join neighbouring lists: the rows of all, as half-open spans [low, high).

        lists: ascending.
        """
        ends = np.flatnonzero(lists[1:] != lists[:-1] + 1)
        first = np.concatenate([lists[:1], lists[ends + 1]])
        last = np.concatenate([lists[ends], lists[-1:]])
        return self.starts[first], self.starts[last + 1]

    def class_of(self, rows: Ids) -> Ids:
        """Give the access class of each row."""
        return self.classes[self.starts.searchsorted(rows, side="right") - 1]

    def rows_of(self, ids: Ids) -> Ids:
        """Give the row of each id, -1 where the part has no such id."""
        rows = np.full(len(ids), -1, dtype=np.int64)
        if not len(self.ids):
            return rows
        at = np.minimum(self._sorted_ids.searchsorted(ids), len(self.ids) - 1)
        here = self._sorted_ids[at] == ids
        rows[here] = self._by_id[at[here]]
        return rows

    def rows_of_documents(self, documents: Ids) -> Ids:
        """Give the rows of these documents, ascending. documents: unique."""
        low = self._sorted_documents.searchsorted(documents, "left")
        high = self._sorted_documents.searchsorted(documents, "right")
        if (low == high).all():
            return np.empty(0, dtype=np.int64)
        found = self._by_document[runs(low.astype(np.int64), (high - low).astype(np.int64))]
        return np.sort(found).astype(np.int64)

    def marked(self, lists: Ids, ascending: Ids) -> Ids:
        """Give those of some ascending rows that lie in these lists."""
        if not len(ascending):
            return ascending
        low = np.searchsorted(ascending, self.starts[lists])
        high = np.searchsorted(ascending, self.starts[lists + 1])
        return ascending[runs(low.astype(np.int64), (high - low).astype(np.int64))]
