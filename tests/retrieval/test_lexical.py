"""BM25 over the asked classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from retrieval.bags import Bags
from retrieval.layout import Layout
from retrieval.lexical import bm25 as matches_of
from retrieval.postings import LexicalPart
from tests.make import make_ids
from tests.retrieval.worlds import bm25, part_of, tally


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


def test_the_score_of_any_row_can_be_asked() -> None:
    part = part_of(["pump", "pump pump seal", "valve", "pump"], [1, 2, 2, 3])
    said = tally(part, ["pump"], [1, 2], [0])
    matches = matches_of([said], [1])
    ids, scores = matches.best()
    assert ids.tolist() == [2]
    assert matches.scores(0, make_ids([0, 1, 2, 3])).tolist() == [0, scores[0], 0, 0]


@pytest.mark.parametrize("depth", [1, 3, 10, 5000])
def test_the_best_are_the_first_of_all(depth: int) -> None:
    """With ties at the last place, over more rows than are sampled."""
    texts = ["pump " * (1 + number % 7) + "seal" for number in range(6000)]
    matches = matches_of([tally(part_of(texts, [1] * 6000), ["pump"], [1])], [1])
    ids, scores = matches.best()
    best = matches.best(depth)
    assert best[0].tolist() == ids[:depth].tolist()
    assert best[1].tobytes() == scores[:depth].tobytes()


@dataclass(frozen=True, slots=True)
class Row:
    """A passage by what the lexical leg knows of it; counts by term."""

    id: int
    access_class: int
    counts: dict[str, int]


TERMS = [f"t{number}" for number in range(9)]
ASKED = [*TERMS[1:7:2], "t44", "zz"]  # two are in no row
WEIGHTS = [1, 2, 1, 3, 1]


def world(chance: np.random.Generator, n_rows: int) -> list[Row]:
    """Rows in up to 12 classes; some terms are rare, some counts do not fit a byte."""
    rows = []
    for number in range(n_rows):
        said = chance.random(len(TERMS)) < np.linspace(0.05, 0.8, len(TERMS))
        counts = chance.choice([1, 1, 2, 3, 254, 255, 256, 70_000], size=len(TERMS))
        bag = {TERMS[n]: int(counts[n]) for n in np.flatnonzero(said)}
        rows.append(Row(number + 1, int(chance.integers(12)), bag))
    return rows


def indexed(rows: Sequence[Row]) -> LexicalPart:
    ids, classes = make_ids([r.id for r in rows]), make_ids([r.access_class for r in rows])
    layout, order = Layout.of(ids, classes, ids)
    said = [
        (row, TERMS.index(term), count)
        for row, position in enumerate(order.tolist())
        for term, count in rows[position].counts.items()
    ]
    columns = np.array(said, dtype=np.int32).reshape(-1, 3)
    return LexicalPart.build(layout, Bags(tuple(TERMS), *columns.T.copy()))


def by_hand(rows: Sequence[Row], classes: set[int]) -> list[tuple[int, float]]:
    """BM25 over the permitted rows alone, a row and a term at a time."""
    mine = [row for row in rows if row.access_class in classes]
    n_tokens = sum(sum(row.counts.values()) for row in mine)
    scored = []
    for row in mine:
        score = 0.0
        for term, weight in zip(ASKED, WEIGHTS, strict=True):
            if term in row.counts:
                n_with = sum(term in other.counts for other in mine)
                rarity = weight * math.log(1 + (len(mine) - n_with + 0.5) / (n_with + 0.5))
                mean = n_tokens / len(mine)
                norm = 1.2 * (1 - 0.75 + 0.75 * (sum(row.counts.values()) / mean))
                score += rarity * (row.counts[term] / (row.counts[term] + norm))
        if score:
            scored.append((row.id, float(np.float32(score))))
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))


@pytest.mark.parametrize("seed", range(30))
def test_scores_equal_those_worked_out_by_hand_to_the_last_bit(seed: int) -> None:
    """In parts of any make, with dead rows, and with or without all that may not be read."""
    chance = np.random.default_rng(seed)
    rows = world(chance, int(chance.integers(1, 120)))
    classes = set(np.flatnonzero(chance.random(12) < chance.choice([0.1, 0.5, 0.9])).tolist())
    dead = {row.id for row in rows if chance.random() < 0.2}
    live = [row for row in rows if row.id not in dead]
    expected = by_hand(live, classes)
    permitted = [row for row in rows if row.access_class in classes]
    for held in (rows, permitted):
        for n_parts in (1, 3):
            part_of_row = chance.integers(n_parts, size=len(held))
            tallies = []
            for number in range(n_parts):
                mine = [row for row, part in zip(held, part_of_row, strict=True) if part == number]
                part = indexed(mine)
                gone = np.flatnonzero(np.isin(part.layout.ids, sorted(dead))).tolist()
                tallies.append(tally(part, ASKED, sorted(classes), gone))
            matches = matches_of(tallies, WEIGHTS)
            for depth in (None, 1, 7):
                ids, scores = matches.best(depth)
                assert list(zip(ids.tolist(), scores.tolist(), strict=True)) == expected[:depth]
            scored = dict(expected)
            for number, each in enumerate(tallies):
                every = np.arange(each.layout.n_rows)
                wanted = [scored.get(row, 0.0) for row in each.layout.ids.tolist()]
                assert matches.scores(number, every).tolist() == wanted


def test_rows_that_tie_only_in_float32_rank_by_id() -> None:
    """Over more rows than are sampled, the last places one unit of float64 apart."""
    part = part_of(["pump"] * 40_000, [1] * 40_000)
    matches = matches_of([tally(part, ["pump"], [1])], [1])
    matches.sums[0][::2] = np.nextafter(matches.sums[0][0], 1)
    assert matches.best(9)[0].tolist() == list(range(1, 10))
