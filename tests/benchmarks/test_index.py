"""What the index benchmark counts as right, short and leaked."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import company
from benchmarks.judged import Tally, Truth
from tests.make import make_ids, make_units


@pytest.fixture
def truth() -> Truth:
    vectors = make_units(100, 16)
    vectors[50] = vectors[8]  # an exact copy, permitted too
    permitted = make_ids(range(0, 100, 2))
    scores = np.sort(vectors[permitted].astype(np.float64) @ vectors[8].astype(np.float64))
    return Truth(vectors, permitted, vectors[8], float(scores[-10]))


def best(truth: Truth, depth: int = 10) -> list[int]:
    scores = truth.vectors[truth.permitted].astype(np.float64) @ truth.question.astype(np.float64)
    found: list[int] = truth.permitted[np.argsort(-scores)[:depth]].tolist()
    return found


def tally(truth: Truth, rows: list[int]) -> Tally:
    counted = Tally()
    counted.count(make_ids(rows), 1.0, truth)
    return counted


def test_the_right_rows_are_right_and_a_copy_is_as_good_as_its_original(truth: Truth) -> None:
    counted = tally(truth, best(truth))
    assert (counted.n_right, counted.n_wanted) == (10, 10)
    assert (counted.n_short, counted.n_foreign) == (0, 0)
    assert {8, 50} <= set(best(truth))


def test_a_row_that_may_not_be_read_is_counted_and_helps_nothing(truth: Truth) -> None:
    """Also one nearer than all, and one beyond the last permitted row."""
    counted = tally(truth, [1, 99, *best(truth, 8)])
    assert (counted.n_foreign, counted.n_right, counted.n_short) == (2, 8, 1)


def test_what_is_short_or_twice_there_is_short(truth: Truth) -> None:
    assert tally(truth, best(truth, 9)).n_short == 1
    assert tally(truth, [*best(truth, 9), best(truth, 9)[0], -1, -1]).n_short == 1


def test_a_reader_reads_about_its_share_and_only_its_tenant() -> None:
    chance = np.random.default_rng(3)
    corpus = company.draw(chance, 30_000)
    for share in (0.001, 0.01, 0.05):
        allowed = corpus.reader(chance, share)
        permitted = np.flatnonzero(np.isin(corpus.classes, allowed))
        assert 0.2 * share < len(permitted) / 30_000 <= 1.2 * share
        assert permitted.max() < corpus.companies[0].high
    whole = corpus.reader(chance, 1)
    assert np.isin(corpus.classes[: corpus.companies[0].high], whole).all()
    assert not np.isin(corpus.classes[corpus.companies[0].high :], whole).any()
