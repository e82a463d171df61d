"""Indexes that follow the database."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from retrieval.errors import IndexMismatch, IndexNotReady
from retrieval.index import DensePart
from retrieval.shelf import Shelf
from retrieval.snapshot import IndexVersion, SnapshotFolder
from retrieval.types import Changes, Ids, Vectors
from retrieval.words import Lexicon
from tests.make import make_changes, make_ids, make_rows, make_units

LEXICON = Lexicon()


class Ledger:
    """A corpus with one new document at every sequence; counts what it is asked."""

    def __init__(self, sequence: int, width: int = 16) -> None:
        self.sequence = sequence
        self.width = width
        self.first = 1
        self.asked: list[tuple[str, int | None]] = []

    def changes(self, tenant: str, since: int | None) -> Changes:
        self.asked.append((tenant, since))
        ids = range(self.first + (since or 0), self.first + self.sequence)
        return make_changes(make_rows(list(ids), width=self.width), self.sequence)


def shelf_over(source: Ledger) -> Shelf:
    return Shelf(source, LEXICON, width=16, merge_rows=2048)


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    return SnapshotFolder(tmp_path / "index", IndexVersion("hashed", 16, "english"))


def small_shelf(source: Ledger, folder: SnapshotFolder | None) -> Shelf:
    """Give a shelf that merges and saves from the fifth new row on."""
    return Shelf(source, LEXICON, width=16, merge_rows=4, folder=folder)


def held_ids(shelf: Shelf, sequence: int, incarnation: str = "first") -> list[int]:
    index = shelf.at("t1", sequence, incarnation)
    found: list[int] = index.dense(make_units(1)[0], make_ids([1]), 99)[0].tolist()
    return sorted(found)


def test_an_index_is_built_once_and_then_caught_up() -> None:
    source = Ledger(3)
    shelf = shelf_over(source)
    assert held_ids(shelf, 3) == [1, 2, 3]
    assert held_ids(shelf, 2) == [1, 2, 3]
    source.sequence = 5
    assert held_ids(shelf, 3) == [1, 2, 3]
    assert held_ids(shelf, 4) == [1, 2, 3, 4, 5]
    assert source.asked == [("t1", None), ("t1", 3)]


def test_an_index_that_is_new_enough_is_given_while_another_catches_up() -> None:
    """Readers never wait for a writer."""
    source = Ledger(1)
    shelf = shelf_over(source)
    current = shelf.at("t1", 1, "first")
    entered, leave = threading.Event(), threading.Event()
    answer = source.changes

    def slowly(tenant: str, since: int | None) -> Changes:
        entered.set()
        assert leave.wait(10)
        return answer(tenant, since)

    source.sequence = 2
    source.changes = slowly  # type: ignore[method-assign]  # the slow database
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(shelf.at, "t1", 2, "first")
        assert entered.wait(10)
        assert shelf.at("t1", 1, "first") is current
        leave.set()
        assert later.result(10).sequence == 2


def test_many_askers_make_one_build() -> None:
    source = Ledger(50)
    shelf = shelf_over(source)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: shelf.at("t1", 50, "first"), range(32)))
    assert len({id(index) for index in found}) == 1
    assert source.asked == [("t1", None)]


def test_another_incarnation_is_built_from_nothing() -> None:
    source = Ledger(3)
    shelf = shelf_over(source)
    shelf.at("t1", 3, "first")
    source.first = 101
    assert held_ids(shelf, 3, "second") == [101, 102, 103]
    assert source.asked == [("t1", None), ("t1", None)]


def test_a_database_that_went_back_is_read_from_nothing() -> None:
    """A restored backup knows nothing of the passages the index got after it."""
    source = Ledger(9)
    shelf = shelf_over(source)
    shelf.at("t1", 9, "first")
    source.sequence = 4
    with pytest.raises(IndexNotReady, match="at content sequence 4; needed 10"):
        shelf.at("t1", 10, "first")
    assert held_ids(shelf, 4) == [1, 2, 3, 4]


def test_a_source_that_lags_behind_is_not_ready() -> None:
    with pytest.raises(IndexNotReady, match="t1"):
        shelf_over(Ledger(2)).at("t1", 3, "first")


def test_vectors_of_another_width_are_refused_and_nothing_is_held() -> None:
    shelf = shelf_over(Ledger(2, width=24))
    with pytest.raises(IndexMismatch, match=r"24.*16"):
        shelf.at("t1", 2, "first")
    assert shelf.held() == {}


def test_a_failed_catch_up_leaves_the_index_that_was() -> None:
    source = Ledger(2)
    shelf = shelf_over(source)
    shelf.at("t1", 2, "first")
    source.sequence, source.width = 3, 24
    with pytest.raises(IndexMismatch):
        shelf.at("t1", 3, "first")
    assert held_ids(shelf, 2) == [1, 2]


def test_tenants_are_held_and_dropped_apart() -> None:
    shelf = shelf_over(Ledger(2))
    one, other = shelf.at("t1", 2, "first"), shelf.at("t2", 2, "first")
    assert one is not other
    assert shelf.held() == {"t1": one.nbytes, "t2": other.nbytes}
    shelf.drop("t1")
    shelf.drop("never-held")
    assert list(shelf.held()) == ["t2"]


def test_a_restart_opens_the_snapshot_and_reads_only_what_came_since(
    folder: SnapshotFolder,
) -> None:
    source = Ledger(30)
    shelf = small_shelf(source, folder)
    assert held_ids(shelf, 30) == list(range(1, 31))
    shelf.settle()
    shelf.close()
    source.sequence = 33
    again = small_shelf(source, folder)
    assert held_ids(again, 33) == list(range(1, 34))
    assert source.asked == [("t1", None), ("t1", 30)]
    again.close()


def test_a_damaged_snapshot_is_built_anew(folder: SnapshotFolder, tmp_path: Path) -> None:
    source = Ledger(30)
    shelf = small_shelf(source, folder)
    shelf.at("t1", 30, "first")
    shelf.close()
    vectors = next((tmp_path / "index" / "t1").glob("part-*/vectors.npy"))
    vectors.write_bytes(vectors.read_bytes()[:-4])
    again = small_shelf(source, folder)
    assert held_ids(again, 30) == list(range(1, 31))
    assert source.asked == [("t1", None), ("t1", None)]
    again.close()


def test_a_snapshot_of_a_life_before_a_restored_backup_is_not_used(
    folder: SnapshotFolder,
) -> None:
    source = Ledger(30)
    shelf = small_shelf(source, folder)
    shelf.at("t1", 30, "first")
    shelf.close()
    source.sequence = 20
    again = small_shelf(source, folder)
    assert held_ids(again, 20, "first") == list(range(1, 21))  # the database went back
    assert held_ids(again, 20, "second") == list(range(1, 21))
    assert source.asked == [("t1", None), ("t1", 30), ("t1", None), ("t1", None)]
    again.close()


def test_two_processes_share_one_merger(folder: SnapshotFolder, tmp_path: Path) -> None:
    """Who does not get the lease leaves it, and later takes over what the other wrote."""
    source = Ledger(30)
    one, other = small_shelf(source, folder), small_shelf(source, folder)
    other.at("t1", 30, "first")
    one.at("t1", 30, "first")
    one.settle()
    other.settle()
    for sequence in range(31, 60):
        source.sequence = sequence
        for shelf in (one, other):
            assert held_ids(shelf, sequence) == list(range(1, sequence + 1))
            shelf.settle()
    mapped = [shelf.at("t1", 59, "first").mapped_nbytes for shelf in (one, other)]
    assert min(mapped) > 40 * 16 * 4
    for shelf in (one, other):
        shelf.close()


@pytest.mark.parametrize("how", ["in few parts", "merged", "merged and saved"])
def test_searches_during_changes_each_see_one_state(folder: SnapshotFolder, how: str) -> None:
    """Searching a list while rows are added to it once ended the process."""
    source = Ledger(1)
    shelf = (
        shelf_over(source)
        if how == "in few parts"
        else small_shelf(source, folder if how == "merged and saved" else None)
    )
    stop = threading.Event()

    def search() -> int:
        n_searches = 0
        while not stop.is_set():
            index = shelf.at("t1", 1, "first")
            ids, _ = index.dense(make_units(1)[0], make_ids([1]), 1000)
            words, _ = index.lexical([f"word{index.sequence}"], make_ids([1])).best()
            assert np.array_equal(np.sort(ids), np.arange(1, index.sequence + 1))
            assert words.tolist() == [index.sequence]
            n_searches += 1
        return n_searches

    with ThreadPoolExecutor(4) as pool:
        searches = [pool.submit(search) for _ in range(4)]
        for sequence in range(2, 120):
            source.sequence = sequence
            shelf.at("t1", sequence, "first")
        shelf.settle()
        stop.set()
        assert all(done.result(10) > 0 for done in searches)
    assert len(shelf.at("t1", 119, "first").parts) <= 8
    shelf.close()


def test_big_parts_are_put_on_a_device_when_built_opened_or_changed(
    folder: SnapshotFolder,
) -> None:
    """A restart that found its snapshot up to date once left the device empty."""

    class Device:
        def search(self, query: Vectors, lists: Ids, depth: int) -> tuple[Ids, Vectors]:
            raise AssertionError("so few rows are not searched on a device")

        def takes(self, lists: Ids, depth: int) -> bool:
            return False

    def place(part: DensePart) -> DensePart:
        big = part.device is None and part.layout.n_rows >= 20
        return replace(part, device=Device()) if big else part

    source = Ledger(30)
    for n_rows in (30, 30, 33):
        source.sequence = n_rows
        shelf = Shelf(source, LEXICON, width=16, merge_rows=4, folder=folder, place=place)
        shelf.at("t1", n_rows, "first")
        shelf.settle()
        parts = shelf.at("t1", n_rows, "first").parts
        assert [part.dense.device is not None for part in parts if part.layout.n_rows >= 20] == [
            True
        ]
        shelf.close()
