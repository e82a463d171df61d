"""The lists on a GPU: the same rows as on the processor. Runs where there is a device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import numpy as np
import pytest

from retrieval import index
from retrieval.errors import IndexUnsound
from retrieval.index import DensePart
from retrieval.layout import Layout
from retrieval.lists.codes import CodeLists, prove_lists
from retrieval.lists.device import DeviceLists, device_count, device_self_test, needed_nbytes
from retrieval.types import Ids, Vectors
from tests.make import make_ids, make_units

gpu = pytest.mark.skipif(not device_count(), reason="no GPU that this build of FAISS can use")


def free(owner: str, nbytes: int) -> AbstractContextManager[None]:
    return nullcontext()


def part_of(n_rows: int, n_classes: int) -> DensePart:
    ids = make_ids(range(1, n_rows + 1))
    layout, order = Layout.of(ids, ids * 7919 % n_classes, ids)
    return DensePart.build(layout, make_units(n_rows, 64)[order])


@pytest.mark.gpu
@gpu
def test_the_device_passes_its_self_test() -> None:
    assert device_self_test(0, free) is None  # type: ignore[func-returns-value]  # it raises or returns


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("n_classes", [1, 40, 3000])
def test_a_device_finds_what_the_processor_finds(n_classes: int) -> None:
    """One list, some, and more than the device takes in one call."""
    part = part_of(150_000, n_classes)
    placed = replace(part, device=DeviceLists(part.layout.starts, part.vectors, 0, free))
    chance = np.random.default_rng(5)
    for number in range(20):
        n_asked = int(chance.integers(1, n_classes + 1))
        asked = np.sort(chance.choice(n_classes, n_asked, replace=False)).astype(np.int64)
        dead = np.sort(chance.choice(150_000, number * 3, replace=False)).astype(np.int64)
        query = part.vectors[int(chance.integers(150_000))]
        found = [each.nearest(query, each.reach(asked, dead), 10) for each in (part, placed)]
        assert found[0][0].tobytes() == found[1][0].tobytes()
        assert found[0][1].tobytes() == found[1][1].tobytes()


@pytest.mark.gpu
@gpu
def test_bytes_are_held_before_they_are_taken_and_given_back() -> None:
    held: list[int] = []

    @contextmanager
    def hold(owner: str, nbytes: int) -> Iterator[None]:
        held.append(nbytes)
        yield
        held.remove(nbytes)

    part = part_of(5000, 10)
    lists = DeviceLists(part.layout.starts, part.vectors, 0, hold)
    assert held == [needed_nbytes(5000, 64, 10)]
    lists.close()
    assert held == []


def test_without_a_device_none_is_counted_and_plans_still_have_numbers() -> None:
    assert device_count() >= 0
    assert needed_nbytes(1_000_000, 384, 1000) > 1_000_000 * (2 * 384 + 8)


def test_lists_that_give_others_rows_are_not_proven() -> None:
    """What the start-up test must catch, shown on searches that stray."""
    vectors = make_units(200, 16)
    starts = make_ids([0, 40, 80, 120, 160, 200])
    codes = CodeLists.build(starts, vectors)
    prove_lists(codes.search, starts, vectors[0])

    def straying(query: Vectors, lists: Ids, depth: int) -> tuple[Ids, Vectors]:
        """Ignores what is asked, as a device ignored selectors."""
        return codes.search(query, make_ids(range(5)), depth)

    def short(query: Vectors, lists: Ids, depth: int) -> tuple[Ids, Vectors]:
        return codes.search(query, lists, depth - 1)

    for wrong in (straying, short):
        with pytest.raises(IndexUnsound, match="other rows"):
            prove_lists(wrong, starts, vectors[0])


def test_few_rows_never_go_to_a_device() -> None:
    assert index.SCANNED_ROWS > 0
    part = part_of(100, 2)
    assert part.reach(make_ids([0, 1]), make_ids([])).rows is not None
