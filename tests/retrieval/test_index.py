"""The dense leg: its kernel, its certificate and the guards around FAISS."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from retrieval.errors import IndexMismatch, IndexUnsound
from retrieval.index import CodeLists, DensePart, code_error, exact_scores, self_test
from retrieval.layout import Layout
from retrieval.types import Ids, Vectors
from tests.make import make_ids, make_units

NONE = make_ids([])


def part_of(classes: list[int], vectors: Vectors) -> DensePart:
    layout = Layout(make_ids(range(1, len(classes) + 1)), make_ids(classes))
    return DensePart(layout, vectors[layout.order])


@pytest.mark.parametrize("width", [1, 2, 3, 7, 24, 384, 385, 768])
def test_a_row_scores_the_same_bits_alone_and_in_any_batch(width: int) -> None:
    rows, query = make_units(1100, width), make_units(1, width, seed=1)[0]
    together = exact_scores(rows, query)
    alone = np.concatenate([exact_scores(rows[n : n + 1], query) for n in range(len(rows))])
    assert together.tobytes() == alone.tobytes()
    for start, stop, step in [(1, 1100, 1), (3, 700, 7), (511, 513, 1), (1099, 0, -1)]:
        part = exact_scores(rows[start:stop:step], query)
        assert part.tobytes() == together[start:stop:step].tobytes()


@pytest.mark.parametrize("shift", range(1, 16))
def test_a_row_scores_the_same_bits_at_any_alignment(shift: int) -> None:
    rows, query = make_units(9, 384), make_units(1, 384, seed=1)[0]
    space = np.zeros(rows.nbytes + 64, dtype=np.uint8)
    moved = space[shift : shift + rows.nbytes].view(np.float32).reshape(rows.shape)
    moved[:] = rows
    assert exact_scores(moved, query).tobytes() == exact_scores(rows, query).tobytes()
    fortran = np.asfortranarray(rows)
    assert exact_scores(fortran, query).tobytes() == exact_scores(rows, query).tobytes()


def test_the_kernel_is_the_inner_product() -> None:
    rows, query = make_units(500, 384), make_units(1, 384, seed=1)[0]
    true = rows.astype(np.float64) @ query.astype(np.float64)
    assert np.abs(exact_scores(rows, query) - true).max() < 1e-6


@pytest.mark.parametrize("width", [2, 24, 384, 1024])
def test_no_code_score_lies_outside_the_bound(width: int) -> None:
    vectors = make_units(2000, width)
    vectors[::2, ::2] *= np.float32(1e-5)  # subnormal or zero as fp16
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    codes = CodeLists(make_ids([0, 2000]), vectors)
    query = vectors[1]
    rows, scores = codes.search(query, make_ids([0]), 2000)
    assert len(rows) == 2000
    worst = np.abs(scores - exact_scores(vectors[rows], query)).max()
    assert 0 < worst < code_error(width) < 2e-3


def test_only_asked_classes_come_back_at_any_depth() -> None:
    classes = [number % 7 for number in range(400)]
    vectors = make_units(400)
    part = part_of(classes, vectors)
    for asked in ([0], [2, 5], [0, 1, 2, 3, 4, 5, 6], [3, 99]):
        for depth in (1, 10, 100, 1000):
            ids, scores = part.nearest(vectors[8], make_ids(asked), depth, NONE)
            permitted = [n for n in range(400) if classes[n] in asked]
            assert {classes[n - 1] for n in ids.tolist()} <= set(asked)
            assert len(ids) == min(depth, len(permitted))
            assert np.all(scores[1:] <= scores[:-1])


def test_nothing_to_search_gives_nothing() -> None:
    query = make_units(1)[0]
    empty = part_of([], make_units(0))
    assert len(empty.nearest(query, make_ids([1, 2]), 10, NONE)[0]) == 0
    full = part_of([1, 1, 2], make_units(3))
    assert len(full.nearest(query, NONE, 10, NONE)[0]) == 0
    assert len(full.nearest(query, make_ids([7]), 10, NONE)[0]) == 0
    assert len(full.nearest(query, make_ids([1, 2]), 10, make_ids([0, 1, 2]))[0]) == 0


def test_duplicates_and_differences_below_fp16_rank_exactly() -> None:
    """Near-duplicates make the certificate fail twice, so that every row is scored."""
    center = make_units(1, 32)[0]
    noise = np.random.default_rng(3).standard_normal((600, 32)).astype(np.float32) * 1e-5
    vectors = center + noise
    vectors[300:] = vectors[:300]  # each one twice
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    part = part_of([1] * 600, vectors)
    ids, scores = part.nearest(center, make_ids([1]), 20, NONE)
    truth = exact_scores(vectors, center)
    expected = sorted(range(600), key=lambda n: (-truth[n], n))[:20]
    assert (ids - 1).tolist() == expected
    assert scores.tobytes() == truth[expected].tobytes()


def test_the_dead_do_not_crowd_out_the_living() -> None:
    """A thousand dead rows nearest to the question leave the living in their places."""
    center = make_units(1, 32)[0]
    vectors = make_units(1300, 32, seed=5)
    vectors[:1000] = center
    part = part_of([1] * 1300, vectors)
    ids, _ = part.nearest(center, make_ids([1]), 10, make_ids(range(1000)))
    assert len(ids) == 10
    assert ids.min() > 1000


@pytest.mark.parametrize("lists", [[0, 0], [1, 0], [-1], [0, 3], [0, 1, 2, 2], [], [0, 1, 2, 3]])
def test_tampered_keys_are_refused(lists: list[int]) -> None:
    """FAISS takes them: it reads other keys, returns rows twice, or past the end of memory."""
    codes = CodeLists(make_ids([0, 2, 4, 6]), make_units(6))
    with pytest.raises(IndexUnsound, match="lists"):
        codes.search(make_units(1)[0], make_ids(lists), 4)


class StrayingLists:
    """Stands where CodeLists does, and returns what it is told."""

    def __init__(self, rows: Ids) -> None:
        self._rows = rows

    def search(self, query: Vectors, lists: Ids, depth: int) -> tuple[Ids, Vectors]:
        return self._rows, np.ones(len(self._rows), dtype=np.float32)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([0, 1, 2, 20], "classes that were not asked"),
        ([0, 1, 2, 40], "outside"),
        ([0, 1, 2, -1], "outside"),
        ([0, 1, 2, 2], "3 rows; 4"),
        ([0, 1, 2], "3 rows; 4"),
    ],
)
def test_a_search_that_strays_is_refused_whole(rows: list[int], why: str) -> None:
    part = part_of([1] * 20 + [2] * 20, make_units(40))
    part._codes = StrayingLists(make_ids(rows))  # type: ignore[assignment]  # the trap
    with pytest.raises(IndexUnsound, match=why):
        part.nearest(make_units(1)[0], make_ids([1]), 2, NONE)


def test_rows_filed_under_another_class_are_refused() -> None:
    """The lists hold the right rows in the wrong places, as after a bad load."""
    vectors = make_units(40)
    part = part_of([1] * 20 + [2] * 20, vectors)
    part._codes = CodeLists(make_ids([0, 10, 40]), vectors)
    with pytest.raises(IndexUnsound, match="not asked"):
        part.nearest(vectors[15], make_ids([2]), 9, NONE)


def test_classes_named_twice_are_refused() -> None:
    part = part_of([1, 1, 2], make_units(3))
    with pytest.raises(ValueError, match="ascending and unique"):
        part.nearest(make_units(1)[0], make_ids([1, 1]), 2, NONE)


@pytest.mark.parametrize(
    "vector",
    [
        make_units(1, 8)[0],
        make_units(1)[0].astype(np.float64),
        make_units(1),
        make_units(1)[0] * np.float32(1.1),
        np.zeros(16, dtype=np.float32),
        np.full(16, np.nan, dtype=np.float32),
        np.full(16, np.inf, dtype=np.float32),
    ],
)
def test_an_unfit_query_vector_is_refused(vector: Vectors) -> None:
    part = part_of([1, 1, 2], make_units(3))
    with pytest.raises(ValueError, match="query vector"):
        part.nearest(vector, make_ids([1]), 2, NONE)
    with pytest.raises(ValueError, match="query vector"):
        part.scores(make_ids([0]), vector)


def test_a_query_vector_need_not_be_contiguous() -> None:
    vectors = make_units(300)
    part = part_of([1] * 300, vectors)
    strided = np.repeat(vectors[4], 2)[::2]
    assert not strided.flags.c_contiguous
    assert part.nearest(strided, make_ids([1]), 3, NONE)[0][0] == 5


@pytest.mark.parametrize("wrong", [0.0, 1.1, np.nan, np.inf])
def test_stored_vectors_that_are_not_unit_are_refused(wrong: float) -> None:
    vectors = make_units(3)
    vectors[1] *= np.float32(wrong)
    with pytest.raises(IndexMismatch, match="1 of 3"):
        part_of([1, 1, 1], vectors)


def test_this_build_passes_the_self_test() -> None:
    assert self_test() is None  # type: ignore[func-returns-value]  # it raises or returns


def test_sixteen_threads_find_what_one_finds() -> None:
    vectors = make_units(2000)
    part = part_of([number % 50 for number in range(2000)], vectors)

    def ids_for(number: int) -> bytes:
        asked = make_ids(range(number % 50 + 1))
        return part.nearest(vectors[number], asked, 10, NONE)[0].tobytes()

    serial = [ids_for(number) for number in range(400)]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ids_for, range(400))) == serial


def test_bytes_grow_with_rows() -> None:
    small, large = part_of([1] * 10, make_units(10)), part_of([1] * 1000, make_units(1000))
    assert large.nbytes - small.nbytes == 990 * (16 * 4 + 16 * 2 + 8)
