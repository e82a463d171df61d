"""BM25 over the asked classes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from retrieval.bags import count_terms, join
from retrieval.layout import Layout
from retrieval.lexical import Tally
from retrieval.lexical import bm25 as matches_of
from retrieval.postings import LexicalPart
from retrieval.types import Ids, Vectors
from retrieval.words import Lexicon
from tests.make import make_ids

LEXICON = Lexicon()


def part_of(texts: list[str], classes: list[int]) -> LexicalPart:
    ids = make_ids(range(1, len(texts) + 1))
    layout, order = Layout.of(ids, make_ids(classes), ids)
    return LexicalPart.build(layout, count_terms([texts[position] for position in order], LEXICON))


def tally(
    part: LexicalPart, terms: list[str], classes: list[int], dead: list[int] | None = None
) -> Tally:
    return part.tally(terms, part.layout.reach(make_ids(classes), make_ids(dead or [])))


def bm25(tallies: list[Tally], weights: list[int]) -> tuple[Ids, Vectors]:
    return matches_of(tallies, weights).best()


def test_a_score_is_bm25_over_the_scope() -> None:
    part = part_of(["pump pump seal", "seal", "pump"], [1, 1, 2])
    ids, scores = bm25([tally(part, ["pump"], [1])], [1])
    rarity = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    expected = rarity * 2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2))
    assert ids.tolist() == [1]
    assert scores[0] == pytest.approx(expected, rel=1e-6)


def test_a_term_said_twice_weighs_twice() -> None:
    part = part_of(["pump seal", "seal valve"], [1, 1])
    said = tally(part, ["pump"], [1])
    once, twice = bm25([said], [1])[1], bm25([said], [2])[1]
    assert twice[0] == pytest.approx(2 * once[0])


@pytest.mark.parametrize("classes", [[], [2], [9], [1, 2, 9]])
@pytest.mark.parametrize("terms", [[], ["pump"], ["unheard"], ["pump", "unheard"]])
def test_only_rows_of_the_scope_with_a_term_are_ranked(
    classes: list[int], terms: list[str]
) -> None:
    part = part_of(["pump", "pump pump", "seal", "pump"], [1, 2, 2, 3])
    ids, scores = bm25([tally(part, terms, classes)], [1] * len(terms))
    expected = {1: 1, 2: 2}
    wanted = {row for row, held in expected.items() if held in classes and "pump" in terms}
    assert set(ids.tolist()) == wanted
    assert np.all(scores > 0)


def test_dead_rows_leave_no_trace_in_the_statistics() -> None:
    part = part_of(["pump", "pump valve seal", "seal pump"], [1, 1, 1])
    without = part_of(["pump", "seal pump"], [1, 1])
    ids, scores = bm25([tally(part, ["pump", "seal"], [1], [1])], [1, 1])
    expected_ids, expected = bm25([tally(without, ["pump", "seal"], [1])], [1, 1])
    assert [1 if row == 1 else 2 for row in ids.tolist()] == expected_ids.tolist()
    assert scores.tobytes() == expected.tobytes()


def test_equal_scores_rank_by_id() -> None:
    part = part_of(["pump"] * 9, [3, 1, 2, 3, 1, 2, 3, 1, 2])
    ids, _ = bm25([tally(part, ["pump"], [1, 2, 3])], [1])
    assert ids.tolist() == list(range(1, 10))


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
    assert part.counts.max() == 400
    with pytest.raises(ValueError, match="fit"):
        LexicalPart.opened(part.layout, {**held, "starts": held["starts"][:-1]})
    with pytest.raises(ValueError, match="another layout"):
        LexicalPart.opened(part.layout, {**held, "lengths": held["lengths"][:-1]})


def test_the_score_of_any_row_can_be_asked() -> None:
    part = part_of(["pump", "pump pump seal", "valve", "pump"], [1, 2, 2, 3])
    said = tally(part, ["pump"], [1, 2], [0])
    matches = matches_of([said], [1])
    ids, scores = matches.best()
    assert ids.tolist() == [2]
    assert matches.scores(0, make_ids([0, 1, 2, 3])).tolist() == [0, scores[0], 0, 0]


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


def test_the_postings_walked_are_those_of_the_scope() -> None:
    """A word on every forbidden page costs a scope that has it on one page a single posting."""
    part = part_of(["pump"] * 1000 + ["pump"], [1] * 1000 + [2])
    (postings,) = tally(part, ["pump"], [2]).found
    assert postings.at.tolist() == [0]
    part = part_of(["pump"] * 300, [number % 3 for number in range(300)])
    (postings,) = tally(part, ["pump"], [0, 2]).found
    assert postings.at.tolist() == list(range(200))


@pytest.mark.parametrize("depth", [1, 3, 10, 5000])
def test_the_best_are_the_first_of_all(depth: int) -> None:
    """With ties at the last place, over more rows than are sampled."""
    texts = ["pump " * (1 + number % 7) + "seal" for number in range(6000)]
    matches = matches_of([tally(part_of(texts, [1] * 6000), ["pump"], [1])], [1])
    ids, scores = matches.best()
    best = matches.best(depth)
    assert best[0].tolist() == ids[:depth].tolist()
    assert best[1].tobytes() == scores[:depth].tobytes()
