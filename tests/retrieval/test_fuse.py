"""One ranking from two legs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.fuse import fuse
from retrieval.types import Vectors
from tests.make import make_ids


def column(*values: float) -> Vectors:
    return np.array(values, dtype=np.float32)


def test_each_leg_is_stretched_over_the_rows_and_weighed() -> None:
    hits = fuse(make_ids([1, 2, 3]), column(0.2, 0.6, 0.4), column(0, 0, 8), 0.75)
    assert hits.ids.tolist() == [2, 3, 1]
    assert hits.scores.tolist() == pytest.approx([0.75, 0.625, 0.0])
    assert hits.dense.tolist() == pytest.approx([0.6, 0.4, 0.2])
    assert hits.lexical.tolist() == [0, 8, 0]


@pytest.mark.parametrize(("weight", "first"), [(1.0, 1), (0.0, 2)])
def test_a_leg_of_weight_one_decides_alone(weight: float, first: int) -> None:
    hits = fuse(make_ids([1, 2]), column(0.9, 0.1), column(0, 5), weight)
    assert hits.ids[0] == first


def test_a_leg_that_scores_all_alike_gives_zeros() -> None:
    hits = fuse(make_ids([4, 3]), column(0.5, 0.5), column(1, 2), 0.5)
    assert hits.ids.tolist() == [3, 4]
    assert hits.scores.tolist() == [0.5, 0.0]
    assert fuse(make_ids([9]), column(0.99), column(3), 0.5).scores.tolist() == [0.0]


def test_nothing_fuses_to_nothing() -> None:
    assert len(fuse(make_ids([]), column(), column(), 0.5)) == 0


scores = st.floats(-1, 1, width=32)


@given(st.lists(st.tuples(scores, scores), max_size=30), st.floats(0, 1), st.integers(0, 99))
def test_the_order_of_the_input_changes_no_bit(
    pairs: list[tuple[float, float]], weight: float, seed: int
) -> None:
    order = np.random.default_rng(seed).permutation(len(pairs))
    ids = make_ids(range(len(pairs)))
    dense, lexical = column(*(d for d, _ in pairs)), column(*(b for _, b in pairs))
    one = fuse(ids, dense, lexical, weight)
    other = fuse(ids[order], dense[order], lexical[order], weight)
    assert one.ids.tobytes() == other.ids.tobytes()
    assert one.scores.tobytes() == other.scores.tobytes()
    assert np.all((one.scores >= 0) & (one.scores <= 1))
