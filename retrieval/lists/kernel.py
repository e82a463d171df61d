"""The one kernel that decides every ranking, and what fp16 codes may differ from it by."""

from __future__ import annotations

import math

import faiss
import numpy as np

from retrieval.errors import IndexMismatch, IndexUnsound
from retrieval.types import Ids, Vectors

UNIT_SLACK = 1e-3
"""How far from 1 the length of a unit vector may lie."""

_CHUNK = 65_536  # rows that are checked at once, so that a mapped file is not copied whole


def exact_scores(vectors: Vectors, query: Vectors, rows: Ids | None = None) -> Vectors:
    """Score rows against one query by the kernel that decides every ranking.

    FAISS computes each row's inner product alone, by one fixed sequence of float32 steps: a
    row scores the same alone as in any batch and at any alignment (`self_test` proves it of
    this build on this processor). A processor with other vector units may differ from this
    one in the last bit; a search never mixes two. Sums by BLAS do not have that property.

    Args: vectors: float32 [m, d]. query: float32 [d]. rows: int64 [n] in [0, m); None for all.
    Returns: float32 [n].
    Raises: IndexUnsound if a row is not in [0, m): FAISS would read other memory.
    """
    chosen = np.arange(len(vectors), dtype=np.int64) if rows is None else rows
    scores = np.empty(len(chosen), dtype=np.float32)
    if not len(chosen):
        return scores
    if chosen.min() < 0 or chosen.max() >= len(vectors):
        raise IndexUnsound(f"a row to score is outside the {len(vectors)} that are here")
    # Each array keeps a name until the call is over: swig_ptr does not hold it.
    held_rows = np.ascontiguousarray(chosen)
    held, held_query = np.ascontiguousarray(vectors), np.ascontiguousarray(query)
    faiss.fvec_inner_products_by_idx(  # type: ignore[attr-defined]  # its types lack it
        faiss.swig_ptr(scores),
        faiss.swig_ptr(held_query),
        faiss.swig_ptr(held),
        faiss.swig_ptr(held_rows),
        held.shape[1],
        1,
        len(held_rows),
    )
    return scores


def code_error(width: int) -> float:
    """Bound how far a score on fp16 codes can lie from the exact score of the same row.

    For rows x, codes y and query q, with |x|, |q| <= 1 + UNIT_SLACK = s, u = 2^-24:
    - a component is rounded to nearest: by at most 2^-11 of itself, or by 2^-25 where it is
      subnormal in fp16; so |x - y| <= 2^-11 s + 2^-25 sqrt(d), and |<q, x - y>| <= s times that;
    - a float32 sum of d products, in any order, with or without fused steps, errs by at most
      g = d u / (1 - d u) times sum |q_i y_i| <= s (s + |x - y|): once on codes, once here;
    - float32 products that underflow add less than d 2^-149 in each.
    It is a constant of the width: a maximum over the stored rows would tell of forbidden ones.

    Source: N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.
    """
    unit = 1 + UNIT_SLACK
    rounded = 2.0**-11 * unit + 2.0**-25 * math.sqrt(width)
    growth = width * 2.0**-24 / (1 - width * 2.0**-24)
    return unit * rounded + 2 * growth * unit * (unit + rounded) + width * 2.0**-148


def check_units(vectors: Vectors) -> None:
    """Refuse rows that are not finite unit vectors: the bound above rests on it.

    Raises: IndexMismatch.
    """
    n_wrong = 0
    for start in range(0, len(vectors), _CHUNK):
        some = vectors[start : start + _CHUNK]
        lengths = np.sqrt(np.einsum("ij,ij->i", some, some, dtype=np.float64))
        n_wrong += int(np.sum(~(np.abs(lengths - 1) <= UNIT_SLACK)))
    if n_wrong:
        raise IndexMismatch(f"{n_wrong} of {len(vectors)} vectors are not unit; needed all")


def check_query(vector: Vectors, width: int) -> Vectors:
    """Give the query vector as the kernels take it.

    Raises: ValueError if it is not a finite float32 unit vector of this width.
    """
    if vector.dtype != np.float32 or vector.shape != (width,):
        found = f"{vector.dtype} {list(vector.shape)}"
        raise ValueError(f"query vector is {found}; needed float32 [{width}]")
    held = np.ascontiguousarray(vector)
    length = math.sqrt(float(held @ held))
    if not abs(length - 1) <= UNIT_SLACK:
        raise ValueError(f"query vector has length {length:.4f}; needed 1 within {UNIT_SLACK}")
    return held
