"""Which row says a term how often, in arrays and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from retrieval.postings import LexicalPart
from tests.retrieval.worlds import bm25, part_of, tally


def test_a_part_gives_back_what_it_was_built_from() -> None:
    texts = ["pump seal pump", "", "valve", "seal"]
    part = part_of(texts, [2, 1, 1, 2])
    bags = part.bags()
    again = LexicalPart.build(part.layout, bags)
    for column, held in again.columns().items():
        assert held.tolist() == part.columns()[column].tolist()
    assert set(zip(bags.rows.tolist(), bags.counts.tolist(), strict=True)) == {
        (1, 1), (2, 2), (2, 1), (3, 1),
    }  # fmt: skip


def test_columns_go_through_files_unread(tmp_path: Path) -> None:
    part = part_of(["pump seal pump " * 200, "naïve 泵站", "", "seal"], [2, 1, 1, 2])
    held = {}
    for name, column in part.columns().items():
        np.save(tmp_path / f"{name}.npy", column)
        held[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    opened = LexicalPart.opened(part.layout, held)
    for terms in (["pump"], ["seal", "naiv", "泵站"], ["unheard"]):
        for classes in ([1], [2], [1, 2]):
            found = [
                bm25([tally(each, terms, classes)], [1] * len(terms)) for each in (part, opened)
            ]
            assert found[0][0].tolist() == found[1][0].tolist()
            assert found[0][1].tobytes() == found[1][1].tobytes()
    assert part.bags().counts.max() == 400
    with pytest.raises(ValueError, match="fit"):
        LexicalPart.opened(part.layout, {**held, "starts": held["starts"][:-1]})
    with pytest.raises(ValueError, match="another layout"):
        LexicalPart.opened(part.layout, {**held, "lengths": held["lengths"][:-1]})


def test_the_postings_walked_are_those_of_the_scope() -> None:
    """A word on every forbidden page costs a scope that has it on one page a single posting."""
    part = part_of(["pump"] * 1000 + ["pump"], [1] * 1000 + [2])
    (postings,) = tally(part, ["pump"], [2]).found
    assert postings.at.tolist() == [0]
    part = part_of(["pump"] * 300, [number % 3 for number in range(300)])
    (postings,) = tally(part, ["pump"], [0, 2]).found
    assert postings.at.tolist() == list(range(200))


def test_a_count_of_any_size_costs_one_byte_for_all_others() -> None:
    small = part_of(["pump"] * 1000, [1] * 1000)
    large = part_of(["pump"] * 998 + ["pump " * 255, "pump " * 100_000], [1] * 1000)
    assert large.nbytes - small.nbytes == 2 * 12
    (postings,) = tally(large, ["pump"], [1]).found
    assert postings.counts.tolist() == [1] * 998 + [255, 100_000]


def test_a_term_that_is_nowhere_is_found_nowhere_whatever_its_neighbours() -> None:
    part = part_of(["pump seal"] * 5, [1, 2, 1, 2, 3])
    for term in ("a", "pumq", "pum", "zzz", "\U0010ffff", ""):
        for classes in ([1], [1, 3], [1, 2, 3]):
            (postings,) = tally(part, [term], classes).found
            assert (len(postings.at), postings.n_live) == (0, 0)


def test_rows_without_words_are_rows_all_the_same() -> None:
    part = part_of(["", "", ""], [1, 1, 2])
    said = tally(part, ["pump"], [1])
    assert (said.n_rows, said.n_tokens, said.found) == (2, 0, ())
    assert len(bm25([said], [1])[0]) == 0
