"""What an index will take before there is one: the bytes of each column of a part.

The same sums as `Layout.nbytes`, `ByteCodes.nbytes` and `LexicalPart.nbytes` give of a part
that exists; a test holds them to it, to the byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retrieval.part import Part

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


# Measured on parts of 5,000 to 40,000 rows, rounded up (tests/retrieval/test_sizes.py).
_MERGED_POSTING_NBYTES = 40
_SCRATCH_NBYTES = 28  # for each number of the rows that are encoded at once
_SCRATCH_ROWS = 65_536
_WORD_LETTERS = 6  # with the space behind it
_BUILT_POSTING_NBYTES = 50
_BUILT_ROWS = 4


def building_nbytes(n_rows: int, width: int, n_letters: int) -> int:
    """Say what reading so many passages and building a part of them takes at most, text included.

    Rows as bytes, as float32, in layout order and between two of these; text twice; a list
    entry, a number and three columns, twice ordered, for each word.
    """
    words = n_letters // _WORD_LETTERS
    counts = PartCounts(n_rows, n_rows, words, words // 8, n_letters // 8)
    sizes = part_sizes(counts, width)
    made = words * _BUILT_POSTING_NBYTES + _BUILT_ROWS * sizes.rows + 2 * n_letters
    return made + sizes.in_memory + _scratch(n_rows, width)


def merging_nbytes(parts: Sequence[Part]) -> int:
    """Say what merging parts takes at most: columns taken out, joined, and laid out again."""
    rows = sum(part.dense.vectors.nbytes for part in parts)
    codes = sum(part.dense.codes.nbytes for part in parts)
    postings = sum(len(part.lexical.rows) for part in parts)
    layouts = sum(part.layout.nbytes for part in parts)
    n_rows = sum(part.n_live for part in parts)
    scratch = _scratch(n_rows, parts[0].dense.width) if parts else 0
    return 3 * rows + codes + 2 * layouts + postings * _MERGED_POSTING_NBYTES + scratch


def _scratch(n_rows: int, width: int) -> int:
    return min(n_rows, _SCRATCH_ROWS) * width * _SCRATCH_NBYTES
