"""Terms counted, thinned and joined."""

from __future__ import annotations

import numpy as np

from retrieval.bags import count_terms, join
from tests.retrieval.worlds import LEXICON


def test_kept_and_joined_bags_are_those_of_the_texts_together() -> None:
    first = count_terms(["pump seal", "valve", "seal"], LEXICON).kept(np.array([1, 0, 1], bool))
    joined = join(first, count_terms(["bolt pump pump"], LEXICON), 2)
    direct = count_terms(["pump seal", "seal", "bolt pump pump"], LEXICON)
    named = [
        {
            (int(row), bags.vocabulary[term], int(count))
            for row, term, count in zip(bags.rows, bags.terms, bags.counts, strict=True)
        }
        for bags in (joined, direct)
    ]
    assert named[0] == named[1]
    assert "valv" not in joined.vocabulary


def test_the_vocabulary_holds_what_kept_rows_say_and_no_more() -> None:
    bags = count_terms(["pump seal", "valve", ""], LEXICON)
    assert bags.kept(np.zeros(3, bool)).vocabulary == ()
    assert bags.kept(np.ones(3, bool)) is bags
    assert bags.kept(np.array([0, 1, 1], bool)).vocabulary == ("valv",)


def test_moved_rows_keep_what_they_say() -> None:
    bags = count_terms(["pump pump", "seal"], LEXICON).moved(np.array([1, 0]))
    assert (bags.rows.tolist(), bags.counts.tolist()) == ([1, 0], [2, 1])
    assert {column.dtype for column in (bags.rows, bags.terms, bags.counts)} == {np.dtype(np.int32)}
