"""How often each passage uses each term: what a lexical part is built from."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.layout import Flags
from retrieval.types import Ids
from retrieval.words import Lexicon

Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Bags:
    """How often each row uses each term, as triples (row, term, count).

    vocabulary: the terms by number. rows, terms: int32 [m]. counts: int32 [m], at least 1.
    """

    vocabulary: tuple[str, ...]
    rows: Numbers
    terms: Numbers
    counts: Numbers

    def kept(self, keep: Flags) -> Bags:
        """Leave only the flagged rows, numbered anew in the same order."""
        if keep.all():
            return self
        renumbered = (np.cumsum(keep) - 1).astype(np.int32)
        stays = keep[self.rows]
        rows, terms = renumbered[self.rows[stays]], self.terms[stays]
        used = np.zeros(len(self.vocabulary), dtype=np.bool_)
        used[terms] = True
        narrowed = (np.cumsum(used) - 1).astype(np.int32)
        vocabulary = tuple(self.vocabulary[number] for number in np.flatnonzero(used).tolist())
        return Bags(vocabulary, rows, narrowed[terms], self.counts[stays])

    def moved(self, rows: Ids) -> Bags:
        """Give each row another number: row r becomes rows[r]."""
        return Bags(self.vocabulary, rows.astype(np.int32)[self.rows], self.terms, self.counts)


def count_terms(texts: Iterable[str], lexicon: Lexicon) -> Bags:
    """Count the terms of each text; text number r is row r."""
    number: dict[str, int] = {}
    # A million passages say a hundred million things: as lists these would be gigabytes.
    sizes, terms, counts = array("i"), array("i"), array("i")
    for text in texts:
        bag = Counter(lexicon.terms(text))
        sizes.append(len(bag))
        terms.extend([number.setdefault(term, len(number)) for term in bag])
        counts.extend(bag.values())
    rows = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return Bags(
        tuple(number), rows, np.array(terms, dtype=np.int32), np.array(counts, dtype=np.int32)
    )


def join(first: Bags, second: Bags, n_first: int) -> Bags:
    """Put the rows of the second, renumbered from n_first on, after those of the first."""
    number = {term: place for place, term in enumerate(first.vocabulary)}
    renamed = np.array(
        [number.setdefault(term, len(number)) for term in second.vocabulary], dtype=np.int32
    )
    return Bags(
        tuple(number),
        np.concatenate([first.rows, second.rows + np.int32(n_first)]),
        np.concatenate([first.terms, renamed[second.terms]]),
        np.concatenate([first.counts, second.counts]),
    )
