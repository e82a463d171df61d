"""What changes do to a tenant's index."""

from __future__ import annotations

import numpy as np
import pytest

from retrieval.errors import IndexMismatch
from retrieval.tenant_index import TenantIndex
from retrieval.types import Changes
from retrieval.words import Lexicon
from tests.make import make_changes, make_ids, make_rows, make_units

LEXICON = Lexicon()
EMPTY = TenantIndex.empty(16)


def ids_in(index: TenantIndex, classes: list[int]) -> list[int]:
    """Say what both legs find, and that they agree."""
    asked = make_ids(classes)
    by_vector = sorted(index.dense(make_units(1)[0], asked, 1000)[0].tolist())
    by_word = sorted(index.lexical(["pump"], asked)[0].tolist())
    assert by_vector == by_word
    return by_vector


def grown(*changes: tuple[list[int], list[int], list[int], list[int]], merge: int) -> TenantIndex:
    """Apply changes of (ids, classes, documents, removed documents)."""
    index = EMPTY
    for sequence, (ids, classes, documents, removed) in enumerate(changes, start=1):
        rows = make_rows(ids, classes, documents=documents, texts=["pump"] * len(ids))
        index = index.apply(make_changes(rows, sequence, removed), LEXICON, merge)
    return index


@pytest.mark.parametrize("merge", [0, 2, 1000])
def test_a_new_version_replaces_all_passages_of_its_document(merge: int) -> None:
    index = grown(
        ([1, 2, 3], [1, 1, 1], [7, 7, 8], []), ([4], [1], [7], []), ([5], [1], [7], []), merge=merge
    )
    assert ids_in(index, [1]) == [3, 5]
    assert index.n_rows == 2
    assert index.sequence == 3


@pytest.mark.parametrize("merge", [0, 2, 1000])
def test_a_moved_passage_leaves_its_old_class_and_keeps_its_id(merge: int) -> None:
    """An id once stayed searchable in the class that it had left."""
    index = grown(
        ([1, 2, 3], [1, 1, 1], [7, 7, 8], []),
        ([1, 2], [2, 2], [7, 7], []),
        ([1, 2], [3, 3], [7, 7], []),
        merge=merge,
    )
    assert ids_in(index, [1]) == [3]
    assert ids_in(index, [2]) == []
    assert ids_in(index, [3]) == [1, 2]
    assert ids_in(index, [1, 2, 3]) == [1, 2, 3]
    vector = make_units(1)[0]
    ids, scores = index.dense(vector, make_ids([1, 2, 3]), 9)
    assert index.cosines(ids, vector).tobytes() == scores.tobytes()


@pytest.mark.parametrize("merge", [0, 1000])
def test_a_removed_document_is_gone_at_once(merge: int) -> None:
    index = grown(([1, 2], [1, 1], [7, 8], []), ([], [], [], [7]), merge=merge)
    assert ids_in(index, [1]) == [2]
    with pytest.raises(ValueError, match="2 passages to score; 1"):
        index.cosines(make_ids([1, 2]), make_units(1)[0])


def test_the_older_index_still_answers_as_before() -> None:
    before = grown(([1, 2], [1, 1], [7, 8], []), merge=1)
    after = before.apply(make_changes(make_rows([]), 2, [7]), LEXICON, 1)
    assert ids_in(before, [1]) == [1, 2]
    assert ids_in(after, [1]) == [2]


def test_changes_without_documents_only_move_the_sequence() -> None:
    before = grown(([1], [1], [7], []), merge=9)
    after = before.apply(make_changes(make_rows([]), 8), LEXICON, 9)
    assert (after.sequence, after.n_rows) == (8, 1)


def test_dead_rows_are_given_back_by_the_merge() -> None:
    ids = list(range(1, 101))
    index = grown((ids, [1] * 100, ids, []), ([], [], [], ids[:49]), merge=49)
    merged = index.apply(make_changes(make_rows([]), 3, [50]), LEXICON, 49)
    assert ids_in(index, [1]) == ids[49:]
    assert ids_in(merged, [1]) == ids[50:]
    assert merged.nbytes < 0.7 * index.nbytes


def test_a_passage_held_by_two_documents_is_refused() -> None:
    """The second row would stay readable when the first is moved."""
    for merge in (0, 1000):
        index = grown(([1, 2], [1, 1], [7, 8], []), merge=merge)
        rows = make_rows([2, 3], documents=[9, 9])
        with pytest.raises(ValueError, match="already holds"):
            index.apply(make_changes(rows, 2), LEXICON, merge)


@pytest.mark.parametrize("merge", [0, 1000])
def test_documents_that_bring_rows_need_not_be_named_as_changed(merge: int) -> None:
    rows = make_rows([1, 2], documents=[7, 8], texts=["pump"] * 2)
    index = EMPTY.apply(Changes(1, make_ids([]), rows), LEXICON, merge)
    again = make_rows([3], documents=[7], texts=["pump"])
    assert ids_in(index, [1]) == [1, 2]
    assert ids_in(index.apply(Changes(2, make_ids([]), again), LEXICON, merge), [1]) == [2, 3]


def test_changes_older_than_the_index_are_refused() -> None:
    index = grown(([1], [1], [7], []), ([2], [1], [8], []), merge=9)
    with pytest.raises(ValueError, match="end at 1; the index is at 2"):
        index.apply(make_changes(make_rows([3]), 1), LEXICON, 9)


def test_another_encoder_width_is_refused_with_both_widths() -> None:
    with pytest.raises(IndexMismatch, match=r"24 wide.*16"):
        EMPTY.apply(make_changes(make_rows([1, 2], width=24)), LEXICON, 9)


def test_an_empty_index_finds_nothing() -> None:
    assert ids_in(EMPTY, [1, 2]) == []
    assert (EMPTY.n_rows, EMPTY.sequence) == (0, 0)
    assert np.all(EMPTY.cosines(make_ids([]), make_units(1)[0]) == 0)
