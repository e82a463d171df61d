"""Row numbers by access class."""

from __future__ import annotations

import numpy as np
import pytest

from retrieval.layout import Layout, among, best_first, runs, within_reach
from tests.make import make_ids


@pytest.fixture
def layout() -> Layout:
    ids, classes = make_ids([10, 11, 12, 13, 14]), make_ids([7, 3, 7, 3, 9])
    return Layout.of(ids, classes, make_ids([1, 2, 1, 2, 1]))[0]


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


@pytest.mark.parametrize("classes", [[1, 1], [1, 2]])
def test_ids_that_repeat_are_refused(classes: list[int]) -> None:
    """The stale row would stay readable in its old class."""
    with pytest.raises(ValueError, match="unique"):
        Layout.of(make_ids([5, 5]), make_ids(classes), make_ids([1, 1]))


@pytest.mark.parametrize(
    ("classes", "starts"), [([3, 3], [0, 1, 2]), ([4, 3], [0, 1, 2]), ([3, 4], [0, 2, 1]),
                            ([3, 4], [0, 1, 3]), ([3], [0, 1, 2])],
)  # fmt: skip
def test_columns_that_do_not_fit_are_refused(classes: list[int], starts: list[int]) -> None:
    """As from a file that was written for another layout."""
    with pytest.raises(ValueError, match=r"ascending|fit"):
        Layout(make_ids([1, 2]), make_ids([7, 8]), make_ids(classes), make_ids(starts))


def test_rows_are_found_by_document(layout: Layout) -> None:
    assert layout.rows_of_documents(make_ids([1])).tolist() == [2, 3, 4]
    assert layout.rows_of_documents(make_ids([0, 2, 9])).tolist() == [0, 1]


def test_neighbouring_lists_are_one_span(layout: Layout) -> None:
    def spans(lists: list[int]) -> list[tuple[int, int]]:
        lows, highs = layout.spans(make_ids(lists))
        return list(zip(lows.tolist(), highs.tolist(), strict=True))

    assert spans([]) == []
    assert spans([0, 1, 2]) == [(0, 5)]
    assert spans([0, 2]) == [(0, 2), (4, 5)]


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


@pytest.mark.parametrize("bound", [0.0, 0.01, 0.3, 5.0])
@pytest.mark.parametrize("n_rows", [5, 10, 11, 3000, 50_000])
def test_all_within_reach_are_kept_and_none_that_is_not(n_rows: int, bound: float) -> None:
    scores = np.random.default_rng(n_rows).standard_normal(n_rows).astype(np.float32)
    floor = np.sort(scores)[::-1][:10][-1] - 2 * bound
    expected = np.flatnonzero(scores >= floor) if n_rows > 10 else np.arange(n_rows)
    assert within_reach(scores, 10, bound).tolist() == expected.tolist()


def test_places_and_rows_of_a_reach_are_inverse(layout: Layout) -> None:
    reach = layout.reach(make_ids([3, 9]), make_ids([1, 2]))
    assert (reach.n_rows, reach.gone.tolist()) == (3, [1])
    assert reach.places(make_ids([0, 1, 4])).tolist() == [0, 1, 2]
    assert reach.rows_at(make_ids([0, 1, 2])).tolist() == [0, 1, 4]
    assert reach.holds(make_ids([-1, 0, 2, 3, 4, 5])).tolist() == [
        False, True, False, False, True, False,
    ]  # fmt: skip
    nothing = layout.reach(make_ids([]), make_ids([]))
    assert nothing.holds(make_ids([0, 1])).tolist() == [False, False]
