"""Law 2: what is found equals brute force over the permitted passages, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval import index as dense_leg
from retrieval.search import find
from retrieval.settings import RetrievalSettings
from retrieval.tenant_index import TenantIndex
from retrieval.types import Ids, Vectors
from retrieval.words import Lexicon
from tests.laws import brute_force
from tests.laws.brute_force import Row
from tests.laws.corpora import WIDTH, WORDS, everything, histories, steps, unit_vector
from tests.make import make_ids, make_scope

LEXICON = Lexicon()
questions = st.lists(st.sampled_from((*WORDS, "unheard")), max_size=5).map(" ".join)
class_sets = st.frozensets(st.integers(0, 7))


@pytest.fixture(params=[0, dense_leg.SCANNED_ROWS], autouse=True, scope="module")
def scanned_rows(request: pytest.FixtureRequest) -> Iterator[None]:
    """Few rows go through the codes too, as many do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_leg, "SCANNED_ROWS", request.param)
        yield


def indexed(states: list[list[Row]], merge_rows: int) -> TenantIndex:
    index = TenantIndex.empty(WIDTH)
    for changes in steps(states):
        index = index.apply(changes, LEXICON, merge_rows)
    return index


def pairs(ids: Ids, scores: Vectors) -> brute_force.Ranked:
    return list(zip(ids.tolist(), scores.tolist(), strict=True))


@given(
    histories(), class_sets, st.integers(0, 40), questions, st.integers(1, 9), st.integers(0, 40)
)
@settings(max_examples=120, deadline=None)
def test_both_legs_and_their_fusion_equal_brute_force(
    states: list[list[Row]],
    classes: frozenset[int],
    seed: int,
    question: str,
    depth: int,
    merge_rows: int,
) -> None:
    """After any history of new versions, moves and removals, whatever was merged when."""
    live, vector = states[-1], unit_vector(seed)
    index = indexed(states, merge_rows)
    asked = make_ids(sorted(classes))

    dense = brute_force.nearest(live, set(classes), vector, depth)
    assert pairs(*index.dense(vector, asked, depth)) == dense

    lexical = brute_force.matching(live, set(classes), question, LEXICON)
    assert pairs(*index.lexical(LEXICON.terms(question), asked).best()) == lexical

    knobs = RetrievalSettings(legs_depth=depth, dense_weight=0.5)
    hits = find(index, LEXICON, vector, question, make_scope(classes), knobs)
    assert pairs(hits.ids, hits.scores) == brute_force.find(
        live, set(classes), vector, question, LEXICON, depth, 0.5
    )


@given(histories(), class_sets, st.integers(0, 40), questions, st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_a_history_leaves_what_a_fresh_index_holds(
    states: list[list[Row]], classes: frozenset[int], seed: int, question: str, merge_rows: int
) -> None:
    grown = indexed(states, merge_rows)
    fresh = TenantIndex.empty(WIDTH).apply(everything(states[-1]), LEXICON, 10**6)
    knobs = RetrievalSettings(legs_depth=3)
    scope = make_scope(classes)
    found = [
        find(index, LEXICON, unit_vector(seed), question, scope, knobs) for index in (grown, fresh)
    ]
    assert grown.n_rows == fresh.n_rows == len(states[-1])
    for column in ("ids", "scores", "dense", "lexical"):
        assert getattr(found[0], column).tobytes() == getattr(found[1], column).tobytes()


@pytest.mark.parametrize("n_readable", [1, 2, 10, 50, 100, 200])
def test_exact_at_every_selectivity(n_readable: int) -> None:
    """Of 200 classes with 3,000 passages in clumps of near-duplicates, one to all are read."""
    rows = [Row(n + 1, (n * 7919) % 200, n + 1, unit_vector(n), WORDS[n % 6]) for n in range(3000)]
    index = TenantIndex.empty(WIDTH).apply(everything(rows), LEXICON, 100)
    classes = set(range(0, 200, 200 // n_readable))
    for seed in range(3000, 3012):
        vector = unit_vector(seed)
        expected = brute_force.nearest(rows, classes, vector, 10)
        assert pairs(*index.dense(vector, make_ids(sorted(classes)), 10)) == expected


def test_never_short_and_never_outside_for_every_set_of_classes() -> None:
    rows = [Row(n + 1, n % 5, n + 1, unit_vector(n), WORDS[n % 6]) for n in range(60)]
    index = TenantIndex.empty(WIDTH).apply(everything(rows), LEXICON, 10)
    knobs = RetrievalSettings(legs_depth=60)
    for n_classes in range(6):
        for classes in combinations(range(5), n_classes):
            hits = find(index, LEXICON, unit_vector(1), "pump", make_scope(classes), knobs)
            assert sorted(hits.ids) == [r.id for r in rows if r.access_class in classes]


def test_deeper_searches_begin_with_shallower_ones() -> None:
    rows = [Row(n + 1, n % 3, n + 1, unit_vector(n), "pump") for n in range(500)]
    index = TenantIndex.empty(WIDTH).apply(everything(rows), LEXICON, 10)
    asked = make_ids([0, 2])
    deepest = index.dense(unit_vector(7), asked, 500)[0]
    for depth in (1, 5, 20, 80, 320):
        assert np.array_equal(index.dense(unit_vector(7), asked, depth)[0], deepest[:depth])
