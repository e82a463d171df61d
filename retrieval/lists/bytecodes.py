"""Byte codes of rows: a quarter of the bytes, and a proven bound on what they hide.

The only importer of numkong, whose integer products are exact on every processor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numkong
import numpy as np
from numpy.typing import NDArray

from retrieval.layout import runs
from retrieval.lists.kernel import UNIT_SLACK
from retrieval.types import Ids, Vectors

_LEVELS = 127
_CHUNK = 65_536  # rows encoded at once
_LONG = 64  # a run with fewer rows costs more to call for than to copy
_COPIED = 8_192  # rows copied at once: their codes stay in the processor's cache
# Products and scales are multiplied in float32: two roundings of numbers below 1.01.
_ROUNDING = 4 * 2.0**-24


@dataclass(frozen=True, slots=True)
class Query:
    """A question's vector in byte codes. error: how far, at most, the codes lie from it."""

    codes: NDArray[np.int8]
    scale: float
    error: float


@dataclass(frozen=True, slots=True)
class ByteCodes:
    """Each row x as codes c and a scale s: x is s c, but for an error of known length.

    codes: int8 [n, d]. scales: float32 [n]. errors: float32 [l], for each list the greatest
    |x - s c| of its rows. They may be mapped from a file.
    """

    codes: NDArray[np.int8]
    scales: Vectors
    errors: Vectors

    @classmethod
    def build(cls, starts: Ids, vectors: Vectors) -> ByteCodes:
        """Encode rows. starts: int64 [l + 1]; no list is empty. vectors: float32 [n, d]."""
        n_rows, width = vectors.shape
        codes = np.empty((n_rows, width), dtype=np.int8)
        scales = np.empty(n_rows, dtype=np.float32)
        errors = np.empty(n_rows, dtype=np.float32)
        for start in range(0, n_rows, _CHUNK):
            end = start + _CHUNK
            codes[start:end], scales[start:end], errors[start:end] = _encoded(vectors[start:end])
        greatest = np.maximum.reduceat(errors, starts[:-1]) if n_rows else errors
        return cls(codes, scales, greatest)

    @property
    def nbytes(self) -> int:
        """How many bytes codes, scales and errors take."""
        return int(self.codes.nbytes + self.scales.nbytes + self.errors.nbytes)

    def query(self, vector: Vectors) -> Query:
        """Encode a question's vector: float32 [d]."""
        codes, scales, errors = _encoded(vector[None])
        return Query(codes, float(scales[0]), float(errors[0]))

    def bound(self, query: Query, lists: Ids) -> float:
        """Bound how far a score on codes lies from the exact score, for rows of these lists.

        For row x = y + e and query q = p + f, y and p on codes, all lengths known:
        <q, x> - <p, y> = <f, y> + <q, e>, at most |f| (|x| + |e|) + |q| |e|. The exact kernel
        errs by g = d u / (1 - d u) more, u = 2^-24. It rests on rows of these lists alone.

        Source: N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.
        """
        unit, width = 1 + UNIT_SLACK, self.codes.shape[1]
        error = float(self.errors[lists].max())
        growth = width * 2.0**-24 / (1 - width * 2.0**-24)
        hidden = query.error * (unit + error) + unit * error
        bound: float = hidden + growth * unit**2 + _ROUNDING
        return bound

    def scores(self, query: Query, lows: Ids, highs: Ids) -> Vectors:
        """Score runs of rows [low, high) on their codes, run after run.

        Returns: float32, in units of the query's scale.
        """
        sizes = highs - lows
        ends = sizes.cumsum()
        n_rows = int(ends[-1])
        # A float32 holds integers up to 2^24 exactly; the greatest product sum is d 127^2.
        exact = np.float32 if self.codes.shape[1] * _LEVELS**2 < 2**24 else np.float64
        sums = np.empty((1, n_rows), dtype=exact)
        long = sizes >= _LONG
        for low, high, end in zip(
            lows[long].tolist(), highs[long].tolist(), ends[long].tolist(), strict=True
        ):
            held = sums[:, end - (high - low) : end]
            numkong.cdist(query.codes, self.codes[low:high], "dot", out=held)
        if not long.all():
            short = ~long
            rows = runs(lows[short], sizes[short])
            sums[0, runs((ends - sizes)[short], sizes[short])] = self._copied(query, rows, exact)
        if len(lows) == 1:
            scales = self.scales[int(lows[0]) : int(highs[0])]
        else:
            scales = self.scales[runs(lows, sizes)]
        scores: Vectors = np.multiply(sums[0], scales, dtype=exact).astype(np.float32, copy=False)
        return scores

    def _copied(
        self, query: Query, rows: Ids, exact: type[np.float32] | type[np.float64]
    ) -> NDArray[np.floating]:
        sums: NDArray[np.floating] = np.empty((1, len(rows)), dtype=exact)
        for start in range(0, len(rows), _COPIED):
            held = self.codes.take(rows[start : start + _COPIED], axis=0)
            numkong.cdist(query.codes, held, "dot", out=sums[:, start : start + len(held)])
        copied: NDArray[np.floating] = sums[0]
        return copied


def _encoded(vectors: Vectors) -> tuple[NDArray[np.int8], Vectors, Vectors]:
    greatest = np.abs(vectors).max(axis=1)
    scales = np.maximum(greatest / np.float32(_LEVELS), np.float32(2.0**-100))
    codes = np.clip(np.rint(vectors / scales[:, None]), -_LEVELS, _LEVELS).astype(np.int8)
    wide = scales.astype(np.float64)[:, None] * codes
    lengths = np.sqrt(np.square(vectors - wide).sum(axis=1))
    # Rounded up: float64 sums of d squares err by less than this share.
    errors = np.nextafter((lengths * (1 + math.ulp(1.0) * vectors.shape[1])).astype(np.float32),
                          np.float32(math.inf))  # fmt: skip
    return codes, scales, errors
