"""One ranking from the two legs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from retrieval.layout import best_first
from retrieval.types import Hits, Ids, Vectors


def fuse(ids: Ids, dense: Vectors, lexical: Vectors, dense_weight: float) -> Hits:
    """Rank rows by a weighted sum of their two scores, each stretched to [0, 1] over the rows.

    A leg that scores all rows alike says nothing and gives zeros: so a single row has the
    fused score 0. The order of the input does not matter; equal scores rank by ascending id.

    Args:
        ids: int64 [n], unique: what either leg found. dense, lexical: float32 [n], the score of
            every row in that leg, also of those the leg itself did not hand over.
        dense_weight: in [0, 1]; the lexical leg has the rest.

    Source: S. Bruch et al., An Analysis of Fusion Functions for Hybrid Retrieval, 2023.
    """
    summed = dense_weight * _stretched(dense) + (1 - dense_weight) * _stretched(lexical)
    # What ranks is what is shown: ties are ties of the float32 score.
    scores = summed.astype(np.float32)
    order = best_first(ids, scores)
    return Hits(ids[order], scores[order], dense[order], lexical[order])


def _stretched(scores: Vectors) -> NDArray[np.float64]:
    wide = scores.astype(np.float64)
    low, high = (wide.min(), wide.max()) if len(wide) else (0.0, 0.0)
    return (wide - low) / (high - low) if high > low else np.zeros_like(wide)
