"""Row numbers by access class."""

from __future__ import annotations

import numpy as np
import pytest

from retrieval.layout import Layout, among, best_first, runs
from tests.make import make_ids


@pytest.fixture
def layout() -> Layout:
    return Layout(make_ids([10, 11, 12, 13, 14]), make_ids([7, 3, 7, 3, 9]))


def test_rows_stand_by_class_and_then_by_id(layout: Layout) -> None:
    assert layout.ids.tolist() == [11, 13, 10, 12, 14]
    assert layout.classes.tolist() == [3, 7, 9]
    assert layout.starts.tolist() == [0, 2, 4, 5]
    assert layout.class_of(make_ids(range(5))).tolist() == [3, 3, 7, 7, 9]


def test_asked_classes_become_rows_and_unknown_ones_nothing(layout: Layout) -> None:
    lists = layout.lists(make_ids([1, 3, 8, 9, 400]))
    assert lists.tolist() == [0, 2]
    assert layout.rows(lists).tolist() == [0, 1, 4]
    assert layout.rows(layout.lists(make_ids([]))).tolist() == []


def test_ids_are_found_and_missing_ones_marked(layout: Layout) -> None:
    assert layout.rows_of(make_ids([14, 9, 10, 99])).tolist() == [4, -1, 2, -1]


def test_marked_rows_are_counted_only_inside_the_lists(layout: Layout) -> None:
    assert layout.marked(make_ids([0, 2]), make_ids([1, 2, 4])).tolist() == [1, 4]


@pytest.mark.parametrize("ids", [[1, 1], [2, 1]])
def test_ids_that_repeat_or_descend_are_refused(ids: list[int]) -> None:
    """FAISS takes an id twice, and the stale row stays readable in its old class."""
    with pytest.raises(ValueError, match="ascending and unique"):
        Layout(make_ids(ids), make_ids([1, 1]))


def test_runs_may_be_empty_and_overlap() -> None:
    assert runs(make_ids([5, 9, 5]), make_ids([2, 0, 1])).tolist() == [5, 6, 5]


def test_membership_in_an_empty_column_is_no() -> None:
    assert among(make_ids([1, -1]), make_ids([])).tolist() == [False, False]


@pytest.mark.parametrize("depth", [None, 0, 1, 3, 10, 99])
def test_ties_at_the_last_place_go_to_the_lowest_ids(depth: int | None) -> None:
    ids = np.random.default_rng(0).permutation(50).astype(np.int64)
    scores = (ids % 3).astype(np.float32)
    expected = sorted(ids.tolist(), key=lambda number: (-(number % 3), number))[:depth]
    assert ids[best_first(ids, scores, depth)].tolist() == expected
