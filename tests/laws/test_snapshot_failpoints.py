"""Law 9 at every boundary of the index's files: killed around each sync, rename and removal.

A snapshot is derived: what a kill leaves is the old one, the new one, or passed over, and who
starts then holds what the database says, row by row.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pytest

from retrieval.shelf import Shelf
from retrieval.snapshot import SnapshotFolder
from retrieval.tenant_index import TenantIndex
from retrieval.types import Changes, Rows
from tests.laws.failpoints import KILLED, Killer, Order, killing
from tests.laws.killed_process import LEXICON, VERSION, changes_after, index_at, stood
from tests.make import make_ids, make_units

NEWEST = 3
How = Literal["between calls", "renamed", "not renamed", "within a write"]


@pytest.fixture(name="killer", scope="module")
def _killer() -> Iterator[Killer]:
    with killing() as killer:
        yield killer


def _everything() -> Changes:
    """Give all there is at the newest sequence, as a database without its history would."""
    every = [changes_after(number) for number in range(NEWEST)]
    taken = []
    for number, each in enumerate(every):
        later = [document for other in every[number + 1 :] for document in other.documents]
        taken.append(~np.isin(each.rows.documents, later))
    texts = [
        text
        for each, kept in zip(every, taken, strict=True)
        for text, stays in zip(each.rows.texts, kept, strict=True)
        if stays
    ]
    ids, classes, documents, vectors = (
        np.concatenate(
            [getattr(each.rows, column)[kept] for each, kept in zip(every, taken, strict=True)]
        )
        for column in ("ids", "classes", "documents", "vectors")
    )
    rows = Rows(ids, classes, documents, vectors, tuple(texts))
    return Changes(NEWEST, np.unique(documents), rows)


class Told:
    """The three changes that are, as a database tells them; notes from where it was asked."""

    def __init__(self) -> None:
        self.asked: list[int | None] = []

    def changes(self, tenant: str, since: int | None) -> Changes:
        """Give what came after a sequence; only the last change ever has to be read."""
        self.asked.append(since)
        if since is None:
            return _everything()
        assert since == NEWEST - 1
        return changes_after(since)


def _answers(index: TenantIndex) -> list[bytes]:
    found: list[bytes] = []
    for classes in ([0], [1, 2], [3, 9], [0, 1, 2, 3, 4, 9]):
        asked = make_ids(classes)
        found += [each.tobytes() for each in index.dense(make_units(1)[0], asked, 12)]
        found += [each.tobytes() for each in index.lexical(["pump", "seal"], asked).best()]
    return found


def _check_start(folder: Path, opened: TenantIndex | None) -> None:
    """Check what a process that starts on these files holds, and that it can save again."""
    source, fresh = Told(), TenantIndex.empty(VERSION.width).apply(_everything(), LEXICON, 0)
    shelf = Shelf(
        source, LEXICON, width=VERSION.width, merge_rows=1, folder=SnapshotFolder(folder, VERSION)
    )
    sequence = 0 if opened is None else opened.sequence
    # What was saved at the newest sequence is asked for nothing: it catches up from there.
    if sequence < NEWEST:
        held = shelf.at("t1", NEWEST, "life")
        assert source.asked == [sequence or None]
    else:
        assert opened is not None
        held = opened
    shelf.settle()
    shelf.close()
    assert stood(held) == stood(fresh)
    assert _answers(held) == _answers(fresh)
    saved = SnapshotFolder(folder, VERSION).open("t1", "life")
    assert saved is not None
    assert saved.sequence == NEWEST
    assert stood(saved) == stood(fresh)
    if sequence < NEWEST:
        named = {part.saved for part in saved.parts}
        there = {each.name for each in (folder / "t1").iterdir()}
        left = {name for name in there - named if not name.startswith("dead-")}
        assert left == {"current.json", "lease"}, "what the kill left lying is swept away"


@pytest.mark.parametrize(
    ("before", "how"),
    [
        *(("an old snapshot", how) for how in get_args(How)),
        ("nothing", "not renamed"),
        ("nothing", "within a write"),
    ],
)
def test_a_save_that_is_killed_leaves_the_old_snapshot_or_the_new(
    killer: Killer, tmp_path: Path, before: str, how: How
) -> None:
    """Two are power cuts, that lose what was not synced: a kill alone shows no missing sync."""
    ready = tmp_path / "ready"
    ready.mkdir()
    if before != "nothing":
        SnapshotFolder(ready, VERSION).save("t1", "life", index_at(NEWEST - 1))
    old, new = stood(index_at(NEWEST - 1)), stood(index_at(NEWEST))
    number, ended, found = 0, KILLED, []
    while ended == KILLED:
        number += 1
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(ready, folder)
        if how == "within a write":
            order = Order("save", str(folder), nbytes=(number - 1) * 97)
        elif how in ("renamed", "not renamed"):
            order = Order("save", str(folder), at=number, power_cut=how)
        else:
            order = Order("save", str(folder), at=number)
        ended, told = killer.kill(order)
        opened = SnapshotFolder(folder, VERSION).open("t1", "life")
        if opened is None:
            assert before == "nothing"
        else:
            assert stood(opened) == (new if opened.sequence == NEWEST else old)
        found.append(opened.sequence if opened else 0)
        assert not told or found[-1] == NEWEST
        _check_start(folder, opened)
    first = 0 if before == "nothing" else NEWEST - 1
    assert found == sorted(found)
    assert set(found) == {first, NEWEST}
    assert len(found) > (10 if how == "within a write" else 60)


def test_files_whose_removal_is_killed_are_opened_whole_or_passed_over(
    killer: Killer, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    SnapshotFolder(ready, VERSION).save("t1", "life", index_at(NEWEST - 1))
    old = stood(index_at(NEWEST - 1))
    at, ended, n_whole, n_passed = 0, KILLED, 0, 0
    while ended == KILLED:
        at += 1
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(ready, folder)
        ended, told = killer.kill(Order("drop", str(folder), at=at))
        assert not told or not (folder / "t1").exists()
        opened = SnapshotFolder(folder, VERSION).open("t1", "life")
        n_whole += opened is not None
        n_passed += opened is None
        assert opened is None or stood(opened) == old
        _check_start(folder, opened)
    assert n_whole
    assert n_passed > 30
