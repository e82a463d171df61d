"""What is right for a question of search under permissions, and how often a way is right."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from retrieval.types import Ids, Vectors

DEPTH = 10
_TIE = 1e-6  # scores nearer than that are equal to float32


@dataclass(slots=True)
class Tally:
    """What one way did over the questions of a share."""

    times_ms: list[float] = field(default_factory=list)
    n_right: int = 0
    n_wanted: int = 0
    n_short: int = 0
    n_foreign: int = 0

    def count(self, rows: Ids, spent_ms: float, truth: Truth) -> None:
        """Count one answer. A row that ties with the last right one is right."""
        wanted = min(DEPTH, len(truth.permitted))
        rows = rows[rows >= 0]
        inside = truth.permitted[
            np.minimum(truth.permitted.searchsorted(rows), len(truth.permitted) - 1)
        ]
        own = np.unique(rows[inside == rows])
        scores = truth.vectors[own].astype(np.float64) @ truth.question.astype(np.float64)
        self.times_ms.append(spent_ms)
        self.n_wanted += wanted
        self.n_right += min(wanted, int(np.sum(scores >= truth.last - _TIE)))
        self.n_short += len(own) < wanted
        self.n_foreign += int(np.sum(inside != rows))


@dataclass(frozen=True, slots=True)
class Truth:
    """What is right for one question: the float64 score of the last right row."""

    vectors: Vectors
    permitted: Ids
    question: Vectors
    last: float


def truth_of(vectors: Vectors, permitted: Ids, question: Vectors) -> Truth:
    """Brute force of its own: float32 by BLAS to find who is near, float64 to decide."""
    mine = vectors[permitted[0] : permitted[-1] + 1] @ question
    coarse = mine[permitted - permitted[0]]
    near = permitted[np.argsort(-coarse, kind="stable")[: 10 * DEPTH]]
    scores = np.sort(vectors[near].astype(np.float64) @ question.astype(np.float64))[::-1]
    return Truth(vectors, permitted, question, float(scores[min(DEPTH, len(permitted)) - 1]))
