"""What decides a ranking: the kernel, and the codes that say which rows it need not see."""

from __future__ import annotations

import numpy as np
import pytest

from retrieval.errors import IndexUnsound
from retrieval.lists.bytecodes import ByteCodes
from retrieval.lists.codes import CodeLists, self_test
from retrieval.lists.kernel import code_error, exact_scores
from retrieval.types import Vectors
from tests.make import make_ids, make_units


@pytest.mark.parametrize("width", [1, 2, 3, 7, 24, 384, 385, 768])
def test_a_row_scores_the_same_bits_alone_and_in_any_batch(width: int) -> None:
    rows, query = make_units(1100, width), make_units(1, width, seed=1)[0]
    together = exact_scores(rows, query)
    alone = np.concatenate([exact_scores(rows[n : n + 1], query) for n in range(len(rows))])
    assert together.tobytes() == alone.tobytes()
    for start, stop, step in [(1, 1100, 1), (3, 700, 7), (511, 513, 1), (1099, 0, -1)]:
        part = exact_scores(rows[start:stop:step], query)
        assert part.tobytes() == together[start:stop:step].tobytes()


@pytest.mark.parametrize("shift", range(1, 16))
def test_a_row_scores_the_same_bits_at_any_alignment(shift: int) -> None:
    rows, query = make_units(9, 384), make_units(1, 384, seed=1)[0]
    space = np.zeros(rows.nbytes + 64, dtype=np.uint8)
    moved = space[shift : shift + rows.nbytes].view(np.float32).reshape(rows.shape)
    moved[:] = rows
    assert exact_scores(moved, query).tobytes() == exact_scores(rows, query).tobytes()
    fortran = np.asfortranarray(rows)
    assert exact_scores(fortran, query).tobytes() == exact_scores(rows, query).tobytes()


def test_the_kernel_is_the_inner_product() -> None:
    rows, query = make_units(500, 384), make_units(1, 384, seed=1)[0]
    true = rows.astype(np.float64) @ query.astype(np.float64)
    assert np.abs(exact_scores(rows, query) - true).max() < 1e-6


@pytest.mark.parametrize("width", [2, 24, 384, 1024])
def test_no_code_score_lies_outside_the_bound(width: int) -> None:
    vectors = make_units(2000, width)
    vectors[::2, ::2] *= np.float32(1e-5)  # subnormal or zero as fp16
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    codes = CodeLists.build(make_ids([0, 2000]), vectors)
    query = vectors[1]
    rows, scores = codes.search(query, make_ids([0]), 2000)
    assert len(rows) == 2000
    worst = np.abs(scores - exact_scores(vectors[rows], query)).max()
    assert 0 < worst < code_error(width) < 2e-3


@pytest.mark.parametrize("lists", [[0, 0], [1, 0], [-1], [0, 3], [0, 1, 2, 2], [], [0, 1, 2, 3]])
def test_tampered_keys_are_refused(lists: list[int]) -> None:
    """FAISS takes them: it reads other keys, returns rows twice, or past the end of memory."""
    codes = CodeLists.build(make_ids([0, 2, 4, 6]), make_units(6))
    with pytest.raises(IndexUnsound, match="lists"):
        codes.search(make_units(1)[0], make_ids(lists), 4)


def test_rows_outside_memory_are_refused() -> None:
    vectors, query = make_units(3), make_units(1)[0]
    for rows in ([3], [-1], [0, 1, 9]):
        with pytest.raises(IndexUnsound, match="outside the 3"):
            exact_scores(vectors, query, make_ids(rows))


def spread(width: int, kind: str) -> Vectors:
    vectors = make_units(3000, width)
    if kind == "spiky":
        vectors[:, 0] = 30  # one column takes nearly all of the scale
    if kind == "tiny":
        vectors[::2, 1:] *= np.float32(1e-30)
    units: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return units


@pytest.mark.parametrize("width", [1, 3, 24, 384, 1024, 2048])
@pytest.mark.parametrize("kind", ["even", "spiky", "tiny"])
def test_no_score_on_byte_codes_lies_outside_their_bound(width: int, kind: str) -> None:
    vectors = spread(width, kind)
    starts = make_ids([0, 7, 1200, 1201, 3000])
    codes = ByteCodes.build(starts, vectors)
    for query_row in (0, 1, 2999):
        coded = codes.query(vectors[query_row])
        for lists in ([0], [2], [1, 3], [0, 1, 2, 3]):
            asked = make_ids(lists)
            rows = np.concatenate([np.arange(starts[n], starts[n + 1]) for n in lists])
            scores = coded.scale * codes.scores(coded, starts[asked], starts[asked + 1]).astype(
                np.float64
            )
            truth = vectors[rows].astype(np.float64) @ vectors[query_row].astype(np.float64)
            assert np.abs(scores - truth).max() <= codes.bound(coded, asked)
            exact = exact_scores(vectors, vectors[query_row], rows)
            assert np.abs(scores - exact).max() <= codes.bound(coded, asked)


def test_the_bound_says_something_about_real_widths() -> None:
    codes = ByteCodes.build(make_ids([0, 3000]), spread(384, "even"))
    assert codes.bound(codes.query(make_units(1, 384)[0]), make_ids([0])) < 0.03


def test_the_bound_of_a_scope_knows_nothing_of_other_lists() -> None:
    vectors = spread(64, "even")
    vectors[1500:] = spread(64, "spiky")[1500:]
    both = ByteCodes.build(make_ids([0, 1500, 3000]), vectors)
    alone = ByteCodes.build(make_ids([0, 1500]), vectors[:1500])
    query = both.query(vectors[0])
    assert both.bound(query, make_ids([0])) == alone.bound(query, make_ids([0]))
    assert both.bound(query, make_ids([0])) != both.bound(query, make_ids([1]))


def test_this_build_passes_the_self_test() -> None:
    assert self_test() is None  # type: ignore[func-returns-value]  # it raises or returns
