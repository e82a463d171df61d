"""What answers to question collections were worth: measures by set, and a table to begin with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.stats import binomtest

from evals.answering import SEARCHED, Answered
from evals.answers import contains, contains_all, exact_match, token_f1
from evals.checks import bound
from evals.questions import SetQuestion
from evals.report import Better, Glance, Measure

Done = Sequence[tuple[SetQuestion, Answered]]

INVALID = "citation invalid or not permitted"
_HEADS = (
    "containment", "token F1", "exact match", "refusal precision", "refusal recall",
    "citation precision", "citation recall", f"gold among {SEARCHED}", INVALID,
)  # fmt: skip


def measures_of(name: str, done: Done) -> list[Measure]:
    """Give the measures of a set; each says what it was taken over.

    Containment, F1, exact match: over answerable questions with right answers, a refusal being
    a wrong answer. Citation precision: over citing answers with gold documents, the share of
    the documents cited that are gold; recall: over answers given, of the gold ones that are
    cited. Refusal: over questions where it is right or wrong.
    """
    answerable = [(q, a) for q, a in done if q.answerable and (q.answers or q.answers_all_of)]
    gold = [(q, a) for q, a in done if q.answerable and q.gold_docs]
    given = [(q, a) for q, a in gold if not a.refused]
    judged = [(q, a) for q, a in done if q.refusal_is_judged]
    found = [
        *_mean(name, "containment", answerable, _containment),
        *_mean(name, "token F1", answerable, lambda q, a: token_f1(a.text, q.answers)),
        *_mean(name, "exact match", answerable, lambda q, a: exact_match(a.text, q.answers)),
        *_mean(name, "refusal precision", [(q, a) for q, a in judged if a.refused],
               lambda q, _: float(not q.answerable)),
        *_mean(name, "refusal recall", [(q, a) for q, a in judged if not q.answerable],
               lambda _, a: float(a.refused)),
        *_mean(name, "answerable and answered", [(q, a) for q, a in judged if q.answerable],
               lambda _, a: float(not a.refused)),
        *_mean(name, f"gold among {SEARCHED}", gold, lambda _, a: float(a.gold_rank > 0)),
        *_mean(name, "citation precision", [(q, a) for q, a in given if a.cited],
               lambda q, a: _shared(q, a) / len(a.cited)),
        *_mean(name, "citation recall", given, lambda q, a: _shared(q, a) / len(q.gold_docs)),
        *_mean(name, "a gold document cited", given, lambda q, a: float(_shared(q, a) > 0)),
        *_mean(name, "follows a forged document", [(q, a) for q, a in done
                                                   if q.counterfactual_answer], _misled),
        *_mean(name, "right by the judge", [(q, a) for q, a in done if a.opinion],
               lambda _, a: float(a.opinion == "right")),
    ]  # fmt: skip
    return [*found, *_validity(name, done), *_seconds(name, done)]


def glance(measures: Sequence[Measure]) -> Glance:
    """Give a row a set, a column a measure."""
    sets = list(dict.fromkeys(each.name.split("/")[1] for each in measures))
    by_name = {each.name: each for each in measures}
    rows = []
    for one in sets:
        cells = [by_name.get(f"answers/{one}/{head}") for head in _HEADS]
        rows.append((one, *("" if m is None else f"{m.value:.2f} ({m.n})" for m in cells)))
    return Glance("Answers: value (taken over)", ("set", *_HEADS), tuple(rows))


def faults(measures: Sequence[Measure]) -> tuple[str, ...]:
    """Name what must never be seen and was."""
    return tuple(f"{m.name}: {m.note}" for m in measures if m.name.endswith(INVALID) and m.value)


def _containment(question: SetQuestion, answered: Answered) -> float:
    if question.answers_all_of:
        return contains_all(answered.text, question.answers_all_of)
    return contains(answered.text, question.answers)


def _misled(question: SetQuestion, answered: Answered) -> float:
    """Give 1 if the answer says what forged documents say, and not what is right."""
    forged = contains(answered.text, (question.counterfactual_answer,))
    return float(forged > 0 and not _containment(question, answered))


def _shared(question: SetQuestion, answered: Answered) -> int:
    return len(set(answered.cited) & set(question.gold_docs))


def _mean(
    name: str, what: str, done: Done, score: Callable[[SetQuestion, Answered], float]
) -> list[Measure]:
    each = {question.id: score(question, answered) for question, answered in done}
    if not each:
        return []
    lower = what.startswith("follows")
    better = Better.LOWER if lower else Better.HIGHER
    low, high = _interval(each)
    mean = float(np.mean(list(each.values())))
    return [Measure(f"answers/{name}/{what}", mean, len(each), better, low=low, high=high,
                    each=each)]  # fmt: skip


def _interval(each: Mapping[str, float]) -> tuple[float | None, float | None]:
    """Give a 95 % interval: of a rate Wilson's, of another mean by its standard error, if any."""
    values = np.array(list(each.values()))
    if set(values.tolist()) <= {0.0, 1.0}:
        ci = binomtest(int(values.sum()), len(values)).proportion_ci(method="wilson")
        return float(ci.low), float(ci.high)
    if len(values) < 2:
        return None, None
    half = 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5
    return float(values.mean()) - half, float(values.mean()) + half


def _validity(name: str, done: Done) -> list[Measure]:
    n_invalid = sum(a.n_invalid for _, a in done)
    n = n_invalid + sum(a.n_citations for _, a in done)
    if not n:
        return []
    high = bound(0, n) if n_invalid == 0 else None
    note = "none; bound by the rule of three" if n_invalid == 0 else f"{n_invalid} of {n}"
    return [Measure(f"answers/{name}/{INVALID}", n_invalid / n, n, Better.LOWER,
                    low=0.0 if n_invalid == 0 else None, high=high, note=note)]  # fmt: skip


def _seconds(name: str, done: Done) -> list[Measure]:
    taken = [a.seconds for _, a in done if not a.refused]
    if not taken:
        return []
    return [Measure(f"answers/{name}/seconds to an answer, p50", float(np.median(taken)),
                    len(taken), Better.LOWER, unit="s")]  # fmt: skip
