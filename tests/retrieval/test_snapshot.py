"""Indexes in files: derived, checked, and never trusted when damaged or foreign."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from retrieval.sealed import measured
from retrieval.snapshot import IndexVersion, SnapshotFolder
from retrieval.tenant_index import TenantIndex, merged
from retrieval.words import Lexicon
from tests.make import make_changes, make_ids, make_rows, make_units

LEXICON = Lexicon()
VERSION = IndexVersion("hashed", 16, "english")
VECTOR = make_units(1)[0]


def index_of(n_rows: int = 40) -> TenantIndex:
    """Give an index of two parts, with dead rows in the first."""
    ids = list(range(1, n_rows + 1))
    texts = [f"pump number{number % 7}" for number in ids]
    rows = make_rows(ids, [number % 5 for number in ids], texts=texts)
    index = TenantIndex.empty(16).apply(make_changes(rows), LEXICON, 0)
    moved = make_rows([3, 4], [9, 9], texts=["pump", "seal"])
    return index.apply(make_changes(moved, 2, [5]), LEXICON, 0)


def answers(index: TenantIndex) -> list[bytes]:
    found = []
    for classes in ([0], [1, 2], [3], [0, 1, 2, 3, 4, 9]):
        asked = make_ids(classes)
        found += [each.tobytes() for each in index.dense(VECTOR, asked, 12)]
        found += [each.tobytes() for each in index.lexical(["pump", "seal"], asked).best()]
    return found


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    return SnapshotFolder(tmp_path / "index", VERSION)


def test_what_is_opened_answers_as_what_was_saved(folder: SnapshotFolder) -> None:
    index = index_of()
    saved = folder.save("t1", "first", index)
    opened = folder.open("t1", "first")
    assert opened is not None
    assert (opened.sequence, opened.n_rows, opened.width) == (2, 39, 16)
    assert answers(index) == answers(saved) == answers(opened)
    assert saved.nbytes < index.nbytes
    assert saved.mapped_nbytes == opened.mapped_nbytes == 42 * 16 * 4


def test_an_opened_index_takes_changes_and_is_saved_again(
    folder: SnapshotFolder, tmp_path: Path
) -> None:
    folder.save("t1", "first", index_of())
    opened = folder.open("t1", "first")
    assert opened is not None
    later = opened.apply(make_changes(make_rows([50], [0], texts=["seal"]), 3, [10]), LEXICON, 0)
    fresh = index_of().apply(
        make_changes(make_rows([50], [0], texts=["seal"]), 3, [10]), LEXICON, 0
    )
    assert answers(later) == answers(fresh)
    again = folder.save("t1", "first", later)
    assert [part.saved for part in again.parts][:2] == [part.saved for part in opened.parts]
    reopened = folder.open("t1", "first")
    assert reopened is not None
    assert answers(reopened) == answers(fresh)
    one = replace(again, parts=(merged(again.parts),))
    folder.save("t1", "first", one)
    assert answers(one) == answers(fresh)
    names = {path.name.split("-")[0] for path in (tmp_path / "index" / "t1").iterdir()}
    assert names == {"current.json", "part"}  # what is no longer named is swept away


def test_nothing_there_is_nothing(folder: SnapshotFolder) -> None:
    assert folder.open("t1", "first") is None
    assert folder.sequence("t1", "first") is None
    folder.drop("t1")


@pytest.mark.parametrize(
    "version",
    [
        replace(VERSION, encoder="another"),
        replace(VERSION, lexicon="german"),
        replace(VERSION, normalised=False),
    ],
)
def test_a_snapshot_of_another_version_or_life_is_not_opened(
    tmp_path: Path, folder: SnapshotFolder, version: IndexVersion
) -> None:
    folder.save("t1", "first", index_of())
    assert folder.open("t1", "second") is None
    assert SnapshotFolder(tmp_path / "index", version).open("t1", "first") is None
    assert folder.open("t1", "first") is not None


def files_of(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("*") if path.is_file() and path.name != "lease")


def test_any_damaged_file_is_noticed(tmp_path: Path, folder: SnapshotFolder) -> None:
    """One bit in the middle, a byte short, or not there at all: in each file."""
    folder.save("t1", "first", index_of())
    files = files_of(tmp_path / "index" / "t1")
    assert len(files) > 20
    for path in files:
        content = path.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        for damaged in (flipped, content[:-1], b""):
            path.write_bytes(damaged)
            assert folder.open("t1", "first") is None, path.name
        path.unlink()
        assert folder.open("t1", "first") is None, path.name
        path.write_bytes(content)
    assert folder.open("t1", "first") is not None


def test_a_manifest_with_a_matching_checksum_but_foreign_columns_is_refused(
    tmp_path: Path, folder: SnapshotFolder
) -> None:
    """Sealed by someone who got it wrong: the columns must still fit each other."""
    folder.save("t1", "first", index_of())
    home = tmp_path / "index" / "t1"
    codes = next(home.glob("part-*/codes.npy"))
    np.save(codes, np.zeros((3, 16), dtype=np.int8))
    held = json.loads((home / "current.json").read_text())
    held["content"]["files"][f"{codes.parent.name}/codes.npy"] = list(measured(codes))
    del held["digest"]
    folder._name_current(home, "first", folder._read(held))
    assert folder.open("t1", "first") is None


def test_a_save_that_fails_leaves_the_old_snapshot(
    tmp_path: Path, folder: SnapshotFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at some write: whichever it is."""
    folder.save("t1", "first", index_of())
    before = answers(index_of())
    for n_writes in range(0, 24, 3):
        left = [n_writes]

        def failing(path: Path, held: object, left: list[int] = left) -> tuple[int, str]:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            np.save(path, held)  # type: ignore[arg-type]
            return measured(path)

        with monkeypatch.context() as patch:
            patch.setattr("retrieval.snapshot.write_array", failing)
            with pytest.raises(OSError, match="No space"):
                folder.save("t1", "first", index_of(60))
        opened = folder.open("t1", "first")
        assert opened is not None
        assert answers(opened) == before


def test_only_the_owner_may_look_in(tmp_path: Path, folder: SnapshotFolder) -> None:
    folder.save("t1", "first", index_of())
    for path in files_of(tmp_path / "index" / "t1"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "index" / "t1").stat().st_mode) == 0o700


def test_a_lease_is_held_by_one(folder: SnapshotFolder, tmp_path: Path) -> None:
    other = SnapshotFolder(tmp_path / "index", VERSION)
    with folder.lease("t1") as ours, other.lease("t1") as theirs, other.lease("t2") as apart:
        assert (ours, theirs, apart) == (True, False, True)
    with other.lease("t1") as free:
        assert free


@pytest.mark.parametrize("tenant", ["", "../t1", "a/b", "a\0b"])
def test_a_tenant_id_that_leaves_the_folder_is_refused(folder: SnapshotFolder, tenant: str) -> None:
    with pytest.raises(ValueError, match="folder"):
        folder.open(tenant, "first")
