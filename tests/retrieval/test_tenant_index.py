"""What changes do to a tenant's index."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import FrozenBitMap

from retrieval.errors import IndexMismatch
from retrieval.tenant_index import TenantIndex, merged
from retrieval.types import Changes
from retrieval.words import Lexicon
from tests.make import make_changes, make_ids, make_rows, make_units

LEXICON = Lexicon()
EMPTY = TenantIndex.empty(16)


def ids_in(index: TenantIndex, classes: list[int]) -> list[int]:
    """Say what both legs find, and that they agree."""
    asked = make_ids(classes)
    by_vector = sorted(index.dense(make_units(1)[0], asked, 1000)[0].tolist())
    by_word = sorted(index.lexical(["pump"], asked).best()[0].tolist())
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


def test_dead_rows_are_given_back_by_a_merge() -> None:
    ids = list(range(1, 101))
    index = grown((ids, [1] * 100, ids, []), ([], [], [], ids[:50]), merge=49)
    due = index.due(49)
    assert due == index.parts
    after = index.exchanged(due, merged(due))
    assert ids_in(index, [1]) == ids_in(after, [1]) == ids[50:]
    assert after.nbytes < 0.7 * index.nbytes
    assert after.due(49) == ()


def test_what_changes_while_parts_are_merged_is_not_lost() -> None:
    """A document removed, one moved and one added after the merger had read its parts."""
    before = grown(([1, 2, 3], [1, 1, 1], [7, 8, 9], []), ([4], [1], [10], []), merge=0)
    new = merged(before.parts)
    rows = make_rows([2, 5], [2, 1], documents=[8, 11], texts=["pump"] * 2)
    now = before.apply(make_changes(rows, 3, [7]), LEXICON, 0)
    after = now.exchanged(before.parts, new)
    assert len(after.parts) == 2
    for classes in ([1], [2], [1, 2]):
        assert ids_in(after, classes) == ids_in(now, classes)
    assert ids_in(after, [1]) == [3, 4, 5]


def test_a_part_that_died_whole_while_it_was_merged_stays_dead() -> None:
    before = grown(([1, 2], [1, 1], [7, 7], []), ([3], [1], [8], []), merge=0)
    new = merged(before.parts)
    now = before.apply(make_changes(make_rows([]), 3, [7]), LEXICON, 0)
    assert ids_in(now.exchanged(before.parts, new), [1]) == [3]


def test_parts_stay_few_however_many_changes_come() -> None:
    index = EMPTY
    for number in range(1, 300):
        rows = make_rows([number], texts=["pump"])
        index = index.apply(make_changes(rows, number), LEXICON, 16)
        while due := index.due(16):
            index = index.exchanged(due, merged(due))
    assert len(index.parts) <= 9
    assert ids_in(index, [1]) == list(range(1, 300))


def test_the_reach_of_a_scope_is_found_once_and_is_that_of_its_classes() -> None:
    index = grown(([1, 2, 3], [1, 2, 3], [7, 8, 9], []), merge=9)
    classes = FrozenBitMap([1, 3])
    assert index.reach(classes) is index.reach(classes)
    vector = make_units(1)[0]
    assert sorted(index.dense(vector, index.reach(classes), 9)[0]) == [1, 3]
    assert sorted(index.dense(vector, index.reach(FrozenBitMap([2])), 9)[0]) == [2]
    later = index.apply(make_changes(make_rows([]), 2, [9]), LEXICON, 9)
    assert sorted(later.dense(vector, later.reach(classes), 9)[0]) == [1]


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
