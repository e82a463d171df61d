"""Measures of rankings, by `ir-measures`, and whether two runs differ beyond chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ir_measures
import numpy as np
from ir_measures import AP, RR, R, nDCG
from ir_measures.measures import Measure as Metric
from scipy.stats import bootstrap, permutation_test

from evals.report import Measure
from evals.retrieval.ranking import Run

MEASURES = (nDCG @ 10, R @ 100, RR @ 10, AP @ 100)
HEADLINE = "nDCG@10"
_N_RESAMPLES = 9_999


@dataclass(frozen=True, slots=True)
class Difference:
    """What one run has over another, paired by query, with its 95 % interval and p-value."""

    mean: float
    low: float
    high: float
    p: float
    n: int


def by_query(
    run: Run, qrels: Mapping[str, Mapping[str, int]], measures: Sequence[Metric] = MEASURES
) -> dict[str, dict[str, float]]:
    """Give each measure of each judged query; one for which nothing was found has 0."""
    judged = {query: dict(found) for query, found in qrels.items() if query in run}
    found = {str(measure): dict.fromkeys(judged, 0.0) for measure in measures}
    for each in ir_measures.iter_calc(measures, judged, run):
        found[str(each.measure)][each.query_id] = float(each.value)
    return found


def headline(run: Run, qrels: Mapping[str, Mapping[str, int]]) -> float:
    """Give the mean nDCG@10."""
    return float(np.mean(list(by_query(run, qrels, MEASURES[:1])[HEADLINE].values())))


def measured(
    name: str, run: Run, qrels: Mapping[str, Mapping[str, int]], seed: int, note: str = ""
) -> list[Measure]:
    """Give each measure of a run, its mean with a 95 % interval (bootstrap) and by query.

    Args: name: stands before the measure's.
    """
    found = []
    for measure, values in by_query(run, qrels).items():
        low, high = _interval(np.array(list(values.values())), seed)
        mean = float(np.mean(list(values.values())))
        found.append(
            Measure(f"{name}/{measure}", mean, len(values), low=low, high=high, note=note,
                    each=values)
        )  # fmt: skip
    return found


def difference(new: Mapping[str, float], base: Mapping[str, float], seed: int) -> Difference:
    """Compare two runs over the queries that both have.

    Source: M. Smucker et al., A Comparison of Statistical Significance Tests for Information
    Retrieval Evaluation, CIKM 2007: the paired randomisation test.
    Raises: ValueError if they share no query.
    """
    shared = sorted(new.keys() & base.keys())
    if not shared:
        raise ValueError("the two runs share no query")
    gains = np.array([new[query] - base[query] for query in shared])
    low, high = _interval(gains, seed)
    if not gains.any():
        return Difference(0.0, 0.0, 0.0, 1.0, len(shared))
    tested = permutation_test(
        (gains,), np.mean, permutation_type="samples", n_resamples=_N_RESAMPLES,
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return Difference(float(gains.mean()), low, high, float(tested.pvalue), len(shared))


def _interval(values: np.ndarray, seed: int) -> tuple[float, float]:
    if len(values) < 2 or np.ptp(values) == 0:
        return float(values.mean()), float(values.mean())
    drawn = bootstrap(
        (values,), np.mean, n_resamples=_N_RESAMPLES, method="percentile",
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)
