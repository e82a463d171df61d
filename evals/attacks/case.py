"""What an attack is, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

from scipy.stats import mannwhitneyu

from evals.attacks.ground import Ground

# An attacker who guesses has 0.5; the interval of what is measured must lie within these.
LOW, HIGH = 0.45, 0.55
_Z95 = 1.959964


class Verdict(StrEnum):
    """How an attack went for the defender."""

    HELD = "held"
    BROKEN = "BROKEN"
    BLIND = "BLIND"  # the control saw nothing: nothing is shown
    APART = "does not apply"


@dataclass(frozen=True, slots=True)
class Auc:
    """How well an attacker tells two cases apart, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def is_chance(self) -> bool:
        """Whether the interval lies within what is let pass as guessing."""
        return self.low >= LOW and self.high <= HIGH


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attack.

    n: trials, fixed before the first one. n_events: how often it worked; must be 0. control:
    how often the same look saw what it looks for where that is there; must be above 0.
    auc, control_auc: of a side channel, whose interval must hold 0.5 within [0.45, 0.55], and
    of its control, which must lie outside. why: of an attack that has no door here.
    """

    n: int
    n_events: int = 0
    control: int = 0
    auc: Auc | None = None
    control_auc: Auc | None = None
    why: str = ""

    @property
    def verdict(self) -> Verdict:
        """Say how it went."""
        if self.why and not self.n:
            return Verdict.APART
        if self.auc is not None and self.control_auc is not None:
            if self.control_auc.low <= HIGH and self.control_auc.high >= LOW:
                return Verdict.BLIND
            return Verdict.HELD if self.auc.is_chance and not self.n_events else Verdict.BROKEN
        if self.n_events:
            return Verdict.BROKEN
        return Verdict.HELD if self.n and self.control else Verdict.BLIND

    @property
    def bound(self) -> float | None:
        """Bound the rate of what never happened at 95 %: three divided by the trials."""
        return 3 / self.n if self.n and not self.n_events and self.auc is None else None


@dataclass(frozen=True, slots=True)
class Attack:
    """A named attack. number: its place in the catalogue of docs/attacks.md.

    run: takes the ground and how many times the usual trials are made.
    """

    number: str
    name: str
    run: Callable[[Ground, int], Outcome]


def auc_of(yes: Sequence[float], no: Sequence[float]) -> Auc:
    """Say how well values tell one case from the other, whichever way they lean.

    Source: Hanley and McNeil, "The meaning and use of the area under a receiver operating
    characteristic (ROC) curve", Radiology 1982, for the standard error.
    """
    n_yes, n_no = len(yes), len(no)
    value = float(mannwhitneyu(yes, no).statistic) / (n_yes * n_no)
    q1, q2 = value / (2 - value), 2 * value * value / (1 + value)
    spread = value * (1 - value) + (n_yes - 1) * (q1 - value**2) + (n_no - 1) * (q2 - value**2)
    error = _Z95 * sqrt(max(0.0, spread) / (n_yes * n_no))
    return Auc(value, max(0.0, value - error), min(1.0, value + error))
