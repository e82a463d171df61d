"""The terms of a part, numbered in order: arrays that can lie in a file."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.types import Ids


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Terms in the order of their UTF-8 bytes; a term's number is its place.

    letters: uint8, all terms one after the other. ends: int64 [t + 1], from 0.
    """

    letters: NDArray[np.uint8]
    ends: Ids

    @classmethod
    def of(cls, terms: Sequence[str]) -> tuple[Vocabulary, NDArray[np.int32]]:
        """Number unique terms. Gives int32 [t] too: the new number of each."""
        written = [term.encode() for term in terms]
        order = sorted(range(len(written)), key=written.__getitem__)
        numbers = np.empty(len(terms), dtype=np.int32)
        numbers[order] = np.arange(len(terms), dtype=np.int32)
        ordered = [written[place] for place in order]
        ends = np.cumsum([0, *map(len, ordered)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(ordered), dtype=np.uint8), ends), numbers

    def __len__(self) -> int:
        """Count the terms."""
        return len(self.ends) - 1

    def place(self, term: str) -> tuple[int, bool]:
        """Give the number of a term and True, or that of a neighbour and False if it is unknown.

        The vocabulary must not be empty.
        """
        wanted = term.encode()
        place = min(bisect_left(range(len(self)), wanted, key=self._written), len(self) - 1)
        return place, self._written(place) == wanted

    def terms(self) -> tuple[str, ...]:
        """Give all terms in order."""
        whole, ends = self.letters.tobytes(), self.ends.tolist()
        return tuple(whole[ends[place] : ends[place + 1]].decode() for place in range(len(self)))

    @property
    def nbytes(self) -> int:
        """How many bytes the terms take."""
        return int(self.letters.nbytes + self.ends.nbytes)

    def _written(self, place: int) -> bytes:
        return self.letters[self.ends[place] : self.ends[place + 1]].tobytes()
