"""Law 1 in search: what may not be read changes no bit of what is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval import index as dense_leg
from retrieval.search import find
from retrieval.settings import RetrievalSettings
from retrieval.tenant_index import TenantIndex
from retrieval.types import Hits
from retrieval.words import Lexicon
from tests.laws.brute_force import Row
from tests.laws.corpora import WIDTH, WORDS, everything, histories, steps, unit_vector
from tests.make import make_scope

LEXICON = Lexicon()
KNOBS = RetrievalSettings(legs_depth=4)
questions = st.lists(st.sampled_from((*WORDS, "unheard")), max_size=5).map(" ".join)


@pytest.fixture(params=[0, dense_leg.SCANNED_ROWS], autouse=True, scope="module")
def scanned_rows(request: pytest.FixtureRequest) -> Iterator[None]:
    """Few rows go through the codes too, as many do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_leg, "SCANNED_ROWS", request.param)
        yield


def bits(hits: Hits) -> tuple[bytes, ...]:
    return tuple(c.tobytes() for c in (hits.ids, hits.scores, hits.dense, hits.lexical))


@given(
    histories(),
    st.frozensets(st.integers(0, 5), max_size=5),
    st.integers(0, 40),
    questions,
    st.integers(0, 40),
)
@settings(max_examples=120, deadline=None)
def test_an_index_without_the_forbidden_rows_gives_the_same_bits(
    states: list[list[Row]], classes: frozenset[int], seed: int, question: str, merge_rows: int
) -> None:
    """Forbidden rows come, go and move through the whole history, and cause merges in one only."""
    permitted = [[row for row in state if row.access_class in classes] for state in states]
    found = []
    for history in (states, permitted):
        index = TenantIndex.empty(WIDTH)
        for changes in steps(history):
            index = index.apply(changes, LEXICON, merge_rows)
        vector = unit_vector(seed)
        found.append(find(index, LEXICON, vector, question, make_scope(classes), KNOBS))
    assert bits(found[0]) == bits(found[1])
    assert set(found[0].ids.tolist()) <= {row.id for row in permitted[-1]}


@pytest.mark.parametrize("n_forbidden", [1, 100, 3000])
def test_a_flood_of_forbidden_near_duplicates_changes_nothing(n_forbidden: int) -> None:
    """Nearest to the question, full of its words, of another length: and not felt."""
    own = [Row(n + 1, 2, n + 1, unit_vector(n), WORDS[n % 6]) for n in range(300)]
    vector = unit_vector(7)
    flood = [
        Row(10_000 + n, n % 2 * 2 + 1, 10_000 + n, vector, "pump pump valve secret " * (n % 9))
        for n in range(n_forbidden)
    ]
    scope = make_scope([2])
    without, among_many = (
        TenantIndex.empty(WIDTH).apply(everything(rows), LEXICON, 50) for rows in (own, own + flood)
    )
    for question in ("pump", "secret", "pump secret valve", ""):
        assert bits(find(without, LEXICON, vector, question, scope, KNOBS)) == bits(
            find(among_many, LEXICON, vector, question, scope, KNOBS)
        )


def test_the_probe_sees_a_difference_where_there_is_one() -> None:
    """A positive control: one more permitted passage does change the bits."""
    own = [Row(n + 1, 2, n + 1, unit_vector(n), WORDS[n % 6]) for n in range(30)]
    more = [*own, Row(99, 2, 99, unit_vector(4), "pump pump")]
    one, other = (
        TenantIndex.empty(WIDTH).apply(everything(rows), LEXICON, 50) for rows in (own, more)
    )
    scope, knobs = make_scope([2]), replace(KNOBS, legs_depth=100)
    vector = unit_vector(4)
    assert bits(find(one, LEXICON, vector, "pump", scope, knobs)) != bits(
        find(other, LEXICON, vector, "pump", scope, knobs)
    )


def test_a_canary_word_of_a_forbidden_document_finds_nothing_by_words() -> None:
    own = [Row(n + 1, 2, n + 1, unit_vector(n), "pump") for n in range(5)]
    secret = Row(50, 3, 50, unit_vector(9), "zanzibarcanary")
    index = TenantIndex.empty(WIDTH).apply(everything([*own, secret]), LEXICON, 50)
    hits = find(index, LEXICON, unit_vector(9), "zanzibarcanary", make_scope([2]), KNOBS)
    assert 50 not in hits.ids
    assert not np.any(hits.lexical)
