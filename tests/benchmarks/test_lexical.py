"""The benchmark of the lexical leg, at a thousandth of its size."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lexical import N_WORDS, Field, by_hand, draw, reader
from retrieval.lexical import bm25
from retrieval.postings import LexicalPart
from tests.make import make_ids

COMMON = ["w000000", "w000003", "w001000"]


@pytest.fixture(scope="module")
def at() -> Field:
    layout, bags = draw(np.random.default_rng(1), 1000)
    return Field(layout, bags, LexicalPart.build(layout, bags))


def test_every_passage_says_as_many_words_as_are_stated(at: Field) -> None:
    assert np.bincount(at.bags.rows, at.bags.counts).tolist() == [N_WORDS] * 1000


@pytest.mark.parametrize("share", [0.01, 0.1, 1.0])
def test_a_reader_reads_about_the_share_that_is_asked_for(at: Field, share: float) -> None:
    classes = reader(np.random.default_rng(2), at.layout, share)
    n_rows = int(at.layout.sizes(at.layout.lists(classes)).sum())
    assert share * 1000 <= n_rows <= share * 1000 + at.layout.sizes(np.arange(10)).max() + 10


@pytest.mark.parametrize("share", [0.01, 0.1, 1.0])
def test_what_is_worked_out_by_hand_is_what_the_part_says(at: Field, share: float) -> None:
    chance = np.random.default_rng(3)
    reach = at.layout.reach(reader(chance, at.layout, share), make_ids([]))
    ids, scores = by_hand(at, COMMON, reach, 20)
    found_ids, found = bm25([at.part.tally(COMMON, reach)], [1, 1, 1]).best(20)
    assert len(ids) > 0
    assert np.array_equal(ids, found_ids)
    assert np.array_equal(scores, found)


def test_a_term_that_is_left_out_would_be_seen(at: Field) -> None:
    reach = at.layout.reach(at.layout.classes, make_ids([]))
    ids, _ = by_hand(at, COMMON, reach, 20)
    other, _ = bm25([at.part.tally(COMMON[:2], reach)], [1, 1]).best(20)
    assert not np.array_equal(ids, other)
