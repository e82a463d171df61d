"""What a part takes is known before it is built, to the byte."""

from __future__ import annotations

import numpy as np
import pytest

from retrieval.bags import count_terms
from retrieval.part import Columns, Part
from retrieval.sizes import PartCounts, part_sizes
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
