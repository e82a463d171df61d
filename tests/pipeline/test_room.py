"""Indexes ask for memory before they take it, and what was there stays when there is none."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import LedgerFull
from pipeline.ledger import MAPPED, RAM, Ledger
from pipeline.room import LedgerRoom
from retrieval.shelf import Shelf
from retrieval.sizes import building_nbytes
from retrieval.snapshot import IndexVersion, SnapshotFolder
from retrieval.types import Changes
from retrieval.warmth import COLD_AFTER_S, Warmth
from retrieval.words import Lexicon
from tests.clock import Clock
from tests.make import make_changes, make_ids, make_rows, make_units

LEXICON = Lexicon()
WIDTH = 16


class Growing:
    """A tenant with so many documents as its sequence says."""

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.asked: list[int | None] = []

    def changes(self, tenant: str, since: int | None) -> Changes:
        self.asked.append(since)
        ids = list(range(1 + (since or 0), 1 + self.sequence))
        return make_changes(make_rows(ids, width=WIDTH), self.sequence)

    def volume(self, tenant: str) -> tuple[int, int]:
        return self.sequence, 20 * self.sequence


def shelf_over(
    source: Growing, ledger: Ledger, folder: SnapshotFolder | None = None, merge_rows: int = 2048
) -> Shelf:
    return Shelf(
        source, LEXICON, width=WIDTH, merge_rows=merge_rows, folder=folder,
        room=LedgerRoom(ledger), measure=source.volume,
    )  # fmt: skip


def snapshots(folder: Path) -> SnapshotFolder:
    return SnapshotFolder(folder, IndexVersion("hashed", WIDTH, "english"))


def found(shelf: Shelf, sequence: int) -> list[int]:
    index = shelf.at("t1", sequence, "first")
    ids: list[int] = index.dense(make_units(1)[0], make_ids([1]), 999)[0].tolist()
    return sorted(ids)


def held_of(ledger: Ledger, device: str = RAM) -> dict[str, int]:
    gc.collect()
    return ledger.held().get(device, {})


def test_each_leg_of_an_index_is_held_to_the_byte_and_let_go_with_it() -> None:
    ledger = Ledger({RAM: 1 << 30})
    shelf = shelf_over(Growing(300), ledger)
    index = shelf.at("t1", 300, "first")

    part = index.parts[0]
    assert held_of(ledger) == {f"index/t1/{leg}": nbytes for leg, nbytes in part.own_nbytes.items()}
    assert sum(part.own_nbytes.values()) == part.nbytes
    shelf.drop("t1")
    # A search that has it may go on: its bytes are still there.
    assert sum(held_of(ledger).values()) == part.nbytes
    del index, part
    assert held_of(ledger) == {}


def test_what_lies_in_files_is_mapped_and_no_part_of_the_budget(tmp_path: Path) -> None:
    ledger = Ledger({RAM: 1 << 30})
    shelf = shelf_over(Growing(300), ledger, snapshots(tmp_path), merge_rows=4)
    shelf.at("t1", 300, "first")
    shelf.settle()

    part = shelf.at("t1", 300, "first").parts[0]
    assert part.saved
    rows = part.dense.vectors.nbytes + part.dense.codes.codes.nbytes
    assert held_of(ledger, MAPPED)["index/t1/dense"] == rows
    assert held_of(ledger)["index/t1/layout"] == part.layout.nbytes
    assert "index/t1/lexical" not in held_of(ledger)
    assert sum(part.own_nbytes.values()) + sum(part.mapped_nbytes.values()) == (
        part.nbytes + part.dense.vectors.nbytes
    )
    shelf.close()


def test_a_build_that_does_not_fit_is_refused_before_anything_is_read() -> None:
    source = Growing(300)
    ledger = Ledger({RAM: building_nbytes(300, WIDTH, 6000) - 1})
    shelf = shelf_over(source, ledger)

    with pytest.raises(LedgerFull, match=r"index/t1/building needs \d+ bytes on ram; \d+ of"):
        shelf.at("t1", 300, "first")
    assert source.asked == []
    assert held_of(ledger) == {}


def test_a_change_that_does_not_fit_leaves_the_index_that_was_and_comes_in_later() -> None:
    source = Growing(300)
    ledger = Ledger({RAM: 1 << 30})
    shelf = shelf_over(source, ledger)
    before = shelf.at("t1", 300, "first")
    hog = ledger.hold(RAM, "hog", ledger.free(RAM))
    source.sequence = 310

    with pytest.raises(LedgerFull):
        shelf.at("t1", 310, "first")
    # Who asks for what the old state shows gets it, and a search under way keeps its index.
    assert shelf.at("t1", 300, "first") is before
    assert found(shelf, 300) == list(range(1, 301))
    hog.release()
    assert found(shelf, 310) == list(range(1, 311))


def test_a_removal_needs_no_room() -> None:
    source = Growing(300)
    ledger = Ledger({RAM: 1 << 30})
    shelf = shelf_over(source, ledger)
    shelf.at("t1", 300, "first")
    hog = ledger.hold(RAM, "hog", ledger.free(RAM))

    def removing(tenant: str, since: int | None) -> Changes:
        nothing = make_rows([], width=WIDTH)
        return make_changes(nothing, 301, removed=[7])

    source.changes = removing  # type: ignore[method-assign]
    assert found(shelf, 301) == [each for each in range(1, 301) if each != 7]
    hog.release()


def test_a_merge_that_does_not_fit_leaves_the_parts_that_are_searched() -> None:
    source = Growing(100)
    ledger = Ledger({RAM: 1 << 30})
    shelf = shelf_over(source, ledger, merge_rows=4)
    shelf.at("t1", 100, "first")
    shelf.settle()
    # Room for the change, none for joining it with what there is.
    spare = building_nbytes(90, WIDTH, 90 * 20) + 30_000
    hog = ledger.hold(RAM, "hog", ledger.free(RAM) - spare)
    source.sequence = 190
    shelf.at("t1", 190, "first")
    shelf.settle()

    assert len(shelf.at("t1", 190, "first").parts) == 2
    assert found(shelf, 190) == list(range(1, 191))
    hog.release()
    source.sequence = 191
    shelf.at("t1", 191, "first")
    shelf.settle()
    assert len(shelf.at("t1", 191, "first").parts) <= 2
    assert found(shelf, 191) == list(range(1, 192))
    shelf.close()
    held = held_of(ledger)
    assert not {"index/t1/building", "index/t1/merging"} & set(held)


def test_after_any_way_of_changes_the_ledger_holds_what_the_parts_say(tmp_path: Path) -> None:
    source = Growing(20)
    ledger = Ledger({RAM: 1 << 30})
    chance = np.random.default_rng(3)
    folder = snapshots(tmp_path)
    for life in range(2):
        shelf = shelf_over(source, ledger, folder, merge_rows=8)
        for _ in range(4):
            source.sequence += int(chance.integers(1, 40))
            shelf.at("t1", source.sequence, "first")
            shelf.settle()
        parts = shelf.at("t1", source.sequence, "first").parts
        own = sum(sum(part.own_nbytes.values()) for part in parts)
        mapped = sum(sum(part.mapped_nbytes.values()) for part in parts)
        assert sum(held_of(ledger).values()) == own, life
        assert sum(held_of(ledger, MAPPED).values()) == mapped, life
        shelf.close()
        del shelf, parts
    assert held_of(ledger) == held_of(ledger, MAPPED) == {}


def test_opening_a_snapshot_holds_what_it_reads_first(tmp_path: Path) -> None:
    ledger = Ledger({RAM: 1 << 30})
    first = shelf_over(Growing(300), ledger, snapshots(tmp_path), merge_rows=4)
    first.at("t1", 300, "first")
    first.settle()
    own = sum(held_of(ledger).values())
    needed = snapshots(tmp_path).opened_nbytes("t1", "first")
    first.close()
    del first

    assert 0.9 * own <= needed <= 1.5 * own
    held_of(ledger)
    small = Ledger({RAM: needed - 1})
    with pytest.raises(LedgerFull, match="opening"):
        shelf_over(Growing(300), small, snapshots(tmp_path)).at("t1", 300, "first")


def test_without_room_the_index_that_is_coldest_goes_to_its_files_and_comes_back(
    tmp_path: Path,
) -> None:
    clock = Clock()
    source = Growing(300)
    ledger = Ledger({RAM: 1 << 30})
    room = LedgerRoom(ledger)
    shelf = Shelf(
        source, LEXICON, width=WIDTH, merge_rows=4, folder=snapshots(tmp_path), room=room,
        measure=source.volume, warmth=Warmth(clock.now_s),
    )  # fmt: skip
    room.ask(shelf.cool)
    for tenant in ("t1", "t2", "t3"):
        shelf.at(tenant, 300, "first")
        shelf.settle()
        clock.at_s += 1
    shelf.at("t1", 300, "first")
    clock.at_s += COLD_AFTER_S
    shelf.at("t3", 300, "first", asked=True)
    hog = ledger.hold(RAM, "hog", ledger.free(RAM))

    # t2 was asked for longest ago. Of what it holds there is not enough for a fourth.
    with pytest.raises(LedgerFull):
        shelf.at("t4", 300, "first")
    assert set(shelf.held()) == {"t3"}
    hog.release()
    assert found(shelf, 300) == list(range(1, 301))
    assert [each for each in source.asked if each is None] == [None] * 3
    shelf.close()


def test_one_is_enough_and_who_was_asked_for_lately_is_left_alone(tmp_path: Path) -> None:
    clock = Clock()
    source = Growing(300)
    ledger = Ledger({RAM: 1 << 30})
    shelf = Shelf(
        source, LEXICON, width=WIDTH, merge_rows=4, folder=snapshots(tmp_path),
        room=LedgerRoom(ledger), measure=source.volume, warmth=Warmth(clock.now_s),
    )  # fmt: skip
    for tenant in ("t1", "t2"):
        shelf.at(tenant, 300, "first")
        shelf.settle()
        clock.at_s += 1
    assert not shelf.cool("t9")
    clock.at_s += COLD_AFTER_S
    # What only follows the database keeps nobody warm.
    shelf.at("t2", 300, "first", asked=False)
    searching = shelf.at("t1", 300, "first")

    assert not shelf.cool("t2")
    assert shelf.cool("t1")
    assert set(shelf.held()) == {"t1"}
    assert not shelf.cool("t9")
    assert searching is shelf.at("t1", 300, "first")
    shelf.close()


def test_an_index_that_is_in_no_file_is_not_let_go_of() -> None:
    clock = Clock()
    shelf = Shelf(
        Growing(10), LEXICON, width=WIDTH, merge_rows=100, warmth=Warmth(clock.now_s)
    )  # fmt: skip
    shelf.at("t1", 10, "first")
    clock.at_s += 2 * COLD_AFTER_S

    assert not shelf.cool("t2")
    assert set(shelf.held()) == {"t1"}
