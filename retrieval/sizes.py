"""What an index will take before there is one: the bytes of each column of a part.

The same sums as `Layout.nbytes`, `ByteCodes.nbytes` and `LexicalPart.nbytes` give of a part
that exists; a test holds them to it, to the byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_ID = np.dtype(np.int64).itemsize
_PLACE = np.dtype(np.int32).itemsize
_REAL = np.dtype(np.float32).itemsize


@dataclass(frozen=True, slots=True)
class PartCounts:
    """How much a part holds. n_lists: its access classes. n_postings: different terms of each
    row, summed. n_terms, n_letters: its vocabulary, in UTF-8. n_over: counts of 255 and more.
    """

    n_rows: int
    n_lists: int
    n_postings: int = 0
    n_terms: int = 0
    n_letters: int = 0
    n_over: int = 0


@dataclass(frozen=True, slots=True)
class PartSizes:
    """Bytes of a part. layout: ids, documents and the orders over them. rows: float32."""

    layout: int
    codes: int
    lexical: int
    rows: int

    @property
    def in_memory(self) -> int:
        """What is always in memory. The float32 rows can be mapped from a file."""
        return self.layout + self.codes + self.lexical


def part_sizes(counts: PartCounts, width: int) -> PartSizes:
    """Work out the bytes of a part whose vectors have this width."""
    n_rows, n_lists = counts.n_rows, counts.n_lists
    # ids, documents and both again in order; the two orders; classes twice, starts.
    layout = n_rows * (4 * _ID + 2 * _PLACE) + n_lists * 2 * _ID + (n_lists + 1) * _ID
    codes = n_rows * (width + _REAL) + n_lists * _REAL
    # rows and counts of postings; lengths; starts and ends of terms; ends of lists.
    lexical = (
        counts.n_postings * (_PLACE + 1)
        + counts.n_over * (_ID + _PLACE)
        + n_rows * _PLACE
        + 2 * (counts.n_terms + 1) * _ID
        + counts.n_letters
        + (n_lists + 1) * _ID
    )
    return PartSizes(layout, codes, lexical, n_rows * width * _REAL)
