"""A report of attacks: a line for each, and figures that a gate can hold."""

from __future__ import annotations

from collections.abc import Sequence

from evals.attacks.case import Verdict
from evals.attacks.suite import Fought
from evals.report import Better, Glance, Measure, Report


def report_of(fought: Sequence[Fought], times: int) -> Report:
    """Give the report. An attack without a door here is left out of the figures, and named."""
    apart = [each for each in fought if each.outcome.verdict is Verdict.APART]
    rows = tuple(tuple(each.line().values()) for each in fought)
    return Report(
        "Attacks", 0, {"server": "its own, over an empty folder", "times the tries": str(times)},
        tuple(_measure(each) for each in fought if each not in apart),
        tuple(f"{each.attack.number} {each.attack.name}: {each.outcome.why}" for each in apart),
        (Glance("Attacks", Fought.HEADS, rows),),
        tuple(
            f"{each.attack.number} {each.attack.name}: {each.outcome.verdict.value}"
            for each in fought
            if each.outcome.verdict in {Verdict.BROKEN, Verdict.BLIND}
        ),
    )  # fmt: skip


def _measure(fought: Fought) -> Measure:
    done, name = fought.outcome, f"attacks/{fought.attack.number} {fought.attack.name}"
    if done.auc is not None:
        return Measure(f"{name}/AUC", done.auc.value, done.n, low=done.auc.low,
                       high=done.auc.high, note=f"chance is 0.5; {done.verdict.value}")  # fmt: skip
    low, high = (None, None) if done.bound is None else (0.0, done.bound)
    return Measure(f"{name}/worked", done.n_events / done.n if done.n else 0.0, done.n,
                   Better.LOWER, low=low, high=high,
                   note=f"control saw {done.control}; {done.verdict.value}")  # fmt: skip
