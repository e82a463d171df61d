"""What counts as held off, and what as an attack that worked."""

from __future__ import annotations

import numpy as np
import pytest

from evals.attacks.case import Auc, Outcome, Verdict, auc_of

CHANCE, SEEN = Auc(0.5, 0.48, 0.52), Auc(0.9, 0.85, 0.95)


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Outcome(100, 0, 5), Verdict.HELD),
        (Outcome(100, 1, 5), Verdict.BROKEN),
        (Outcome(100, 0, 0), Verdict.BLIND),
        (Outcome(0, 0, 5), Verdict.BLIND),
        (Outcome(0, why="no such door"), Verdict.APART),
        (Outcome(100, auc=CHANCE, control_auc=SEEN), Verdict.HELD),
        (Outcome(100, auc=CHANCE, control_auc=Auc(0.1, 0.05, 0.2)), Verdict.HELD),
        (Outcome(100, auc=CHANCE, control_auc=CHANCE), Verdict.BLIND),
        (Outcome(100, auc=SEEN, control_auc=SEEN), Verdict.BROKEN),
        (Outcome(100, auc=Auc(0.5, 0.3, 0.7), control_auc=SEEN), Verdict.BROKEN),
        (Outcome(100, 1, auc=CHANCE, control_auc=SEEN), Verdict.BROKEN),
    ],
)
def test_an_attack_is_held_off_only_where_its_control_sees(
    outcome: Outcome, verdict: Verdict
) -> None:
    assert outcome.verdict is verdict


def test_a_bound_is_told_only_where_nothing_happened() -> None:
    assert Outcome(300, 0, 1).bound == pytest.approx(0.01)
    assert Outcome(300, 2, 1).bound is None


def test_the_area_says_how_well_two_cases_are_told_apart() -> None:
    chance = np.random.default_rng(1)
    same = auc_of(chance.normal(0, 1, 2000).tolist(), chance.normal(0, 1, 2000).tolist())
    apart = auc_of(chance.normal(1, 1, 2000).tolist(), chance.normal(0, 1, 2000).tolist())

    assert same.is_chance
    assert apart.value == pytest.approx(0.76, abs=0.02)  # of two normals one deviation apart
    assert apart.low < apart.value < apart.high
    assert not apart.is_chance


def test_the_area_of_ties_is_a_guess() -> None:
    assert auc_of([1.0] * 50, [1.0] * 50).value == 0.5
