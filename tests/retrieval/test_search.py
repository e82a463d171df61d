"""A question and a scope to hits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from retrieval.search import QUESTION_TERMS, find
from retrieval.settings import RetrievalSettings
from retrieval.tenant_index import TenantIndex
from retrieval.words import Lexicon
from tests.make import make_changes, make_rows, make_scope, make_units

LEXICON = Lexicon()
KNOBS = RetrievalSettings(legs_depth=5)
VECTORS = make_units(60)


@pytest.fixture(scope="module")
def index() -> TenantIndex:
    rows = make_rows(
        range(1, 61),
        [number % 4 for number in range(60)],
        vectors=VECTORS,
        texts=[f"pump number{number}" for number in range(60)],
    )
    return TenantIndex.empty(16).apply(make_changes(rows), LEXICON, 2048)


def test_a_passage_that_only_its_word_finds_is_among_the_hits(index: TenantIndex) -> None:
    far = int(np.argmin(VECTORS[::4] @ VECTORS[0])) * 4
    hits = find(index, LEXICON, VECTORS[0], f"number{far}", make_scope([0]), KNOBS)
    place = hits.ids.tolist().index(far + 1)
    assert hits.lexical[place] > 0
    assert hits.dense[place] == hits.dense.min()


def test_every_hit_of_both_legs_is_returned_with_both_scores(index: TenantIndex) -> None:
    hits = find(index, LEXICON, VECTORS[0], "pump number8", make_scope([0, 1]), KNOBS)
    assert KNOBS.legs_depth <= len(hits) <= 2 * KNOBS.legs_depth
    assert len(set(hits.ids.tolist())) == len(hits)
    assert np.all(hits.lexical > 0)
    assert {column.dtype for column in (hits.scores, hits.dense, hits.lexical)} == {
        np.dtype(np.float32)
    }


def test_all_permitted_passages_appear_when_they_are_few(index: TenantIndex) -> None:
    hits = find(index, LEXICON, VECTORS[0], "", make_scope([3]), replace(KNOBS, legs_depth=15))
    assert sorted(hits.ids.tolist()) == list(range(4, 61, 4))


def test_an_empty_scope_finds_nothing(index: TenantIndex) -> None:
    assert len(find(index, LEXICON, VECTORS[0], "pump", make_scope([]), KNOBS)) == 0
    assert len(find(index, LEXICON, VECTORS[0], "pump", make_scope([77]), KNOBS)) == 0


def test_a_pasted_book_is_cut_to_its_first_words(index: TenantIndex) -> None:
    book = " ".join(f"filler{number}" for number in range(QUESTION_TERMS))
    scope = make_scope([0])
    inside = find(index, LEXICON, VECTORS[0], f"number8 {book}", scope, KNOBS)
    beyond = find(index, LEXICON, VECTORS[0], f"{book} number8", scope, KNOBS)
    assert inside.lexical.any()
    assert not beyond.lexical.any()


def test_a_vector_of_another_width_is_refused(index: TenantIndex) -> None:
    with pytest.raises(ValueError, match=r"needed float32 \[16\]"):
        find(index, LEXICON, make_units(1, 8)[0], "pump", make_scope([0]), KNOBS)
