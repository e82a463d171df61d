"""BM25 over the asked classes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from retrieval.layout import Layout
from retrieval.lexical import LexicalPart, bm25, count_terms, join
from retrieval.words import Lexicon
from tests.make import make_ids

LEXICON = Lexicon()
NONE = make_ids([])


def part_of(texts: list[str], classes: list[int]) -> LexicalPart:
    layout = Layout(make_ids(range(1, len(texts) + 1)), make_ids(classes))
    bags = count_terms([texts[position] for position in layout.order], LEXICON)
    return LexicalPart(layout, bags)


def test_a_score_is_bm25_over_the_scope() -> None:
    part = part_of(["pump pump seal", "seal", "pump"], [1, 1, 2])
    ids, scores = bm25([part.tally(["pump"], make_ids([1]), NONE)], [1])
    rarity = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    expected = rarity * 2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2))
    assert ids.tolist() == [1]
    assert scores[0] == pytest.approx(expected, rel=1e-6)


def test_a_term_said_twice_weighs_twice() -> None:
    part = part_of(["pump seal", "seal valve"], [1, 1])
    tally = part.tally(["pump"], make_ids([1]), NONE)
    once, twice = bm25([tally], [1])[1], bm25([tally], [2])[1]
    assert twice[0] == pytest.approx(2 * once[0])


@pytest.mark.parametrize("classes", [[], [2], [9], [1, 2, 9]])
@pytest.mark.parametrize("terms", [[], ["pump"], ["unheard"], ["pump", "unheard"]])
def test_only_rows_of_the_scope_with_a_term_are_ranked(
    classes: list[int], terms: list[str]
) -> None:
    part = part_of(["pump", "pump pump", "seal", "pump"], [1, 2, 2, 3])
    ids, scores = bm25([part.tally(terms, make_ids(classes), NONE)], [1] * len(terms))
    expected = {1: 1, 2: 2}
    wanted = {row for row, held in expected.items() if held in classes and "pump" in terms}
    assert set(ids.tolist()) == wanted
    assert np.all(scores > 0)


def test_dead_rows_leave_no_trace_in_the_statistics() -> None:
    part = part_of(["pump", "pump valve seal", "seal pump"], [1, 1, 1])
    without = part_of(["pump", "seal pump"], [1, 1])
    asked = make_ids([1])
    ids, scores = bm25([part.tally(["pump", "seal"], asked, make_ids([1]))], [1, 1])
    expected_ids, expected = bm25([without.tally(["pump", "seal"], asked, NONE)], [1, 1])
    assert [1 if row == 1 else 2 for row in ids.tolist()] == expected_ids.tolist()
    assert scores.tobytes() == expected.tobytes()


def test_equal_scores_rank_by_id() -> None:
    part = part_of(["pump"] * 9, [3, 1, 2, 3, 1, 2, 3, 1, 2])
    ids, _ = bm25([part.tally(["pump"], make_ids([1, 2, 3]), NONE)], [1])
    assert ids.tolist() == list(range(1, 10))


def test_a_part_gives_back_what_it_was_built_from() -> None:
    texts = ["pump seal pump", "", "valve", "seal"]
    part = part_of(texts, [2, 1, 1, 2])
    bags = part.bags()
    again = LexicalPart(Layout(make_ids([1, 2, 3, 4]), make_ids([1, 1, 2, 2])), bags)
    for column in ("rows", "terms", "counts"):
        assert getattr(again.bags(), column).tolist() == getattr(bags, column).tolist()
    assert part.nbytes == again.nbytes


def test_kept_and_joined_bags_are_those_of_the_texts_together() -> None:
    first = count_terms(["pump seal", "valve", "seal"], LEXICON).kept(np.array([1, 0, 1], bool))
    joined = join(first, count_terms(["bolt pump pump"], LEXICON), 2)
    direct = count_terms(["pump seal", "seal", "bolt pump pump"], LEXICON)
    named = [
        {
            (row, bags.vocabulary[term], count)
            for row, term, count in zip(bags.rows, bags.terms, bags.counts, strict=True)
        }
        for bags in (joined, direct)
    ]
    assert named[0] == named[1]
    assert "valv" not in joined.vocabulary


def test_the_postings_walked_are_those_of_the_scope() -> None:
    """A word on every forbidden page costs a scope that has it on one page a single posting."""
    part = part_of(["pump"] * 1000 + ["pump"], [1] * 1000 + [2])
    assert len(part.tally(["pump"], make_ids([2]), NONE).at) == 1
