"""The dense leg: its kernel, its certificate and the guards around FAISS."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from retrieval import index
from retrieval.errors import IndexMismatch, IndexUnsound
from retrieval.index import DensePart, Lists
from retrieval.layout import Layout
from retrieval.lists.codes import CodeLists
from retrieval.lists.kernel import exact_scores
from retrieval.types import Ids, Vectors
from tests.make import make_ids, make_units

NONE = make_ids([])


def part_of(classes: list[int], vectors: Vectors) -> DensePart:
    ids = make_ids(range(1, len(classes) + 1))
    layout, order = Layout.of(ids, make_ids(classes), ids)
    return DensePart.build(layout, vectors[order])


def nearest(
    part: DensePart, vector: Vectors, classes: Ids, depth: int, dead: Ids = NONE
) -> tuple[Ids, Vectors]:
    return part.nearest(vector, part.reach(classes, dead), depth)


@pytest.fixture(params=[0, index.SCANNED_ROWS], autouse=True, scope="module")
def scanned_rows(request: pytest.FixtureRequest) -> Iterator[None]:
    """Few rows go through the codes too: the path must not be felt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "SCANNED_ROWS", request.param)
        yield


def test_only_asked_classes_come_back_at_any_depth() -> None:
    classes = [number % 7 for number in range(400)]
    vectors = make_units(400)
    part = part_of(classes, vectors)
    for asked in ([0], [2, 5], [0, 1, 2, 3, 4, 5, 6], [3, 99]):
        for depth in (1, 10, 100, 1000):
            ids, scores = nearest(part, vectors[8], make_ids(asked), depth)
            permitted = [n for n in range(400) if classes[n] in asked]
            assert {classes[n - 1] for n in ids.tolist()} <= set(asked)
            assert len(ids) == min(depth, len(permitted))
            assert np.all(scores[1:] <= scores[:-1])


def test_nothing_to_search_gives_nothing() -> None:
    query = make_units(1)[0]
    empty = part_of([], make_units(0))
    assert len(nearest(empty, query, make_ids([1, 2]), 10)[0]) == 0
    full = part_of([1, 1, 2], make_units(3))
    assert len(nearest(full, query, NONE, 10)[0]) == 0
    assert len(nearest(full, query, make_ids([7]), 10)[0]) == 0
    assert len(nearest(full, query, make_ids([1, 2]), 10, make_ids([0, 1, 2]))[0]) == 0


def test_duplicates_and_differences_below_fp16_rank_exactly() -> None:
    """Near-duplicates make the certificate fail twice, so that every row is scored."""
    center = make_units(1, 32)[0]
    noise = np.random.default_rng(3).standard_normal((600, 32)).astype(np.float32) * 1e-5
    vectors = center + noise
    vectors[300:] = vectors[:300]  # each one twice
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    part = part_of([1] * 600, vectors)
    ids, scores = nearest(part, center, make_ids([1]), 20)
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
    ids, _ = nearest(part, center, make_ids([1]), 10, make_ids(range(1000)))
    assert len(ids) == 10
    assert ids.min() > 1000


class StrayingLists:
    """Stands where CodeLists does, and returns what it is told."""

    def __init__(self, rows: Ids) -> None:
        self._rows = rows

    def search(self, query: Vectors, lists: Ids, depth: int) -> tuple[Ids, Vectors]:
        return self._rows, np.ones(len(self._rows), dtype=np.float32)

    def takes(self, lists: Ids, depth: int) -> bool:
        return True


class OnDevice:
    """Lists as a device has them, on the CPU; counts the searches."""

    def __init__(self, codes: CodeLists, deepest: int = 10**6) -> None:
        self._codes = codes
        self._deepest = deepest
        self.n_searches = 0

    def search(self, query: Vectors, lists: Ids, depth: int) -> tuple[Ids, Vectors]:
        self.n_searches += 1
        return self._codes.search(query, lists, depth)

    def takes(self, lists: Ids, depth: int) -> bool:
        return depth <= self._deepest


def on_device(part: DensePart, lists: Lists) -> DensePart:
    return replace(part, device=lists)


def found_on_device(part: DensePart, vector: Vectors, classes: Ids, depth: int) -> None:
    reach = replace(part.reach(classes, NONE), rows=None)  # few rows are not given to a device
    part.nearest(vector, reach, depth)


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
    part = on_device(part_of([1] * 20 + [2] * 20, make_units(40)), StrayingLists(make_ids(rows)))
    with pytest.raises(IndexUnsound, match=why):
        found_on_device(part, make_units(1)[0], make_ids([1]), 2)


def test_rows_filed_under_another_class_are_refused() -> None:
    """The lists hold the right rows in the wrong places, as after a bad load."""
    vectors = make_units(40)
    lists = OnDevice(CodeLists.build(make_ids([0, 10, 40]), vectors))
    part = on_device(part_of([1] * 20 + [2] * 20, vectors), lists)
    with pytest.raises(IndexUnsound, match="not asked"):
        found_on_device(part, vectors[15], make_ids([2]), 9)


@pytest.mark.parametrize("deepest", [10**6, 30, 0])
def test_a_device_finds_what_the_processor_finds(deepest: int) -> None:
    """Near-duplicates make its proof fail, and a search too deep for it is not given to it."""
    vectors = make_units(3000)
    vectors[1000:1100] = vectors[1000]
    part = part_of([number % 5 for number in range(3000)], vectors)
    lists = OnDevice(CodeLists.build(part.layout.starts, part.vectors), deepest)
    for row in (5, 1000):
        for asked in ([0], [1, 3], [0, 1, 2, 3, 4]):
            for dead in (NONE, make_ids(range(300, 320))):
                plain = nearest(part, vectors[row], make_ids(asked), 10, dead)
                found = nearest(on_device(part, lists), vectors[row], make_ids(asked), 10, dead)
                assert found[0].tobytes() == plain[0].tobytes()
                assert found[1].tobytes() == plain[1].tobytes()
    used = deepest >= 20 and index.SCANNED_ROWS < 3000
    assert (lists.n_searches > 0) == used


def test_classes_named_twice_are_refused() -> None:
    part = part_of([1, 1, 2], make_units(3))
    with pytest.raises(ValueError, match="ascending and unique"):
        nearest(part, make_units(1)[0], make_ids([1, 1]), 2)


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
        nearest(part, vector, make_ids([1]), 2)
    with pytest.raises(ValueError, match="query vector"):
        part.scores(make_ids([0]), vector)


def test_a_query_vector_need_not_be_contiguous() -> None:
    vectors = make_units(300)
    part = part_of([1] * 300, vectors)
    strided = np.repeat(vectors[4], 2)[::2]
    assert not strided.flags.c_contiguous
    assert nearest(part, strided, make_ids([1]), 3)[0][0] == 5


@pytest.mark.parametrize("wrong", [0.0, 1.1, np.nan, np.inf])
def test_stored_vectors_that_are_not_unit_are_refused(wrong: float) -> None:
    vectors = make_units(3)
    vectors[1] *= np.float32(wrong)
    with pytest.raises(IndexMismatch, match="1 of 3"):
        part_of([1, 1, 1], vectors)


def test_sixteen_threads_find_what_one_finds() -> None:
    vectors = make_units(2000)
    part = part_of([number % 50 for number in range(2000)], vectors)

    def ids_for(number: int) -> bytes:
        asked = make_ids(range(number % 50 + 1))
        return nearest(part, vectors[number], asked, 10)[0].tobytes()

    serial = [ids_for(number) for number in range(400)]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ids_for, range(400))) == serial
