"""What a part takes is known before it is built, to the byte."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from retrieval.bags import count_terms
from retrieval.layout import Layout
from retrieval.part import Columns, Part
from retrieval.sizes import PartCounts, building_nbytes, merging_nbytes, part_sizes
from retrieval.tenant_index import merged
from retrieval.types import Rows
from retrieval.words import Lexicon


@pytest.mark.parametrize(("n_rows", "n_classes", "width"), [(1, 1, 8), (300, 17, 24), (900, 3, 5)])
def test_sizes_worked_out_are_those_of_a_part_that_is_built(
    n_rows: int, n_classes: int, width: int
) -> None:
    chance = np.random.default_rng(n_rows)
    vectors = chance.standard_normal((n_rows, width)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    words = [f"wörd{number}" for number in range(50)]
    texts = tuple(" ".join(chance.choice(words, 20)) for _ in range(n_rows - 1))
    bags = count_terms((*texts, "often " * 300), Lexicon("english"))
    ids = np.arange(1, n_rows + 1, dtype=np.int64)
    classes = chance.integers(1, n_classes + 1, n_rows)
    part = Part.build(Columns(ids, classes, ids, vectors, bags))
    vocabulary = part.lexical.vocabulary

    sizes = part_sizes(
        PartCounts(
            n_rows=n_rows,
            n_lists=part.layout.n_lists,
            n_postings=len(part.lexical.rows),
            n_terms=len(vocabulary),
            n_letters=vocabulary.letters.nbytes,
            n_over=len(part.lexical.over_at),
        ),
        width,
    )

    assert sizes.layout == part.layout.nbytes
    assert sizes.codes == part.dense.codes.nbytes
    assert sizes.lexical == part.lexical.nbytes
    assert sizes.rows == part.dense.vectors.nbytes
    assert sizes.in_memory + sizes.rows == part.nbytes


def columns_of(n_rows: int, width: int, n_words: int) -> Columns:
    chance = np.random.default_rng(n_rows)
    vectors = chance.standard_normal((n_rows, width)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    words = np.array([f"word{number:x}" for number in range(3000)])
    texts = tuple(" ".join(row) for row in words[chance.integers(0, 3000, (n_rows, n_words))])
    ids = np.arange(1, n_rows + 1, dtype=np.int64)
    rows = Rows(ids, ids * 7 % 50, ids, vectors, texts)
    return Columns.of(rows, Lexicon("english"))


def peak_of(work: Callable[[], object]) -> int:
    """Run something and give the most bytes that it had at once."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("n_rows", "width", "n_words"), [(3000, 128, 20), (1500, 16, 60)])
def test_building_and_merging_stay_below_what_is_held_for_them(
    n_rows: int, width: int, n_words: int
) -> None:
    built: list[Part] = []
    building = peak_of(lambda: built.append(Part.build(columns_of(n_rows, width, n_words))))
    other = replace(built[0], layout=Layout.of(*(3 * [built[0].layout.ids + n_rows]))[0])
    merging = peak_of(lambda: merged([built[0], other]))
    n_letters = n_rows * n_words * 8

    assert building <= building_nbytes(n_rows, width, n_letters) <= 6 * building
    assert merging <= merging_nbytes([built[0], other]) <= 6 * merging
