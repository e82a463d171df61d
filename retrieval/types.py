"""The vocabulary of retrieval: documents come in, passages are stored, candidates go out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]


class Signal(StrEnum):
    """What a candidate's score means; scores of different signals are never compared."""

    FUSED = "fused"
    RERANK = "rerank"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a parsed document: its number as printed by the reader, from 1, and its span.

    `start, end` are character offsets in the document's text, half-open.
    """

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a parser made of one file. `pages` is empty where the format has none."""

    title: str
    text: str
    media_type: str
    pages: tuple[Page, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a document's text that becomes a passage: text[start:end]."""

    text: str
    start: int
    end: int
    page: int | None


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, and how many candidates are wanted."""

    text: str
    depth: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Passages as the index takes them, in columns, ascending by id.

    ids: int64 [n], unique, never reused. classes: int64 [n], the one access class of each.
    documents: int64 [n], row ids. vectors: float32 [n, d], unit rows.
    texts: n strings for the lexical leg (title and passage).
    """

    ids: Ids
    classes: Ids
    documents: Ids
    vectors: Vectors
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a tenant's corpus after a content sequence.

    Every document in `documents` (row ids) loses all the rows the index holds of it, then
    `rows` are added: they are all the passages those documents have at `sequence`.
    """

    sequence: int
    documents: Ids
    rows: Rows


@dataclass(frozen=True, slots=True)
class Hits:
    """Candidates before their text is loaded: columns, best first.

    ids: int64 [n]. scores: float32 [n], fused, in [0, 1]. dense: float32 [n], cosine.
    lexical: float32 [n], BM25 with the statistics of the scope.
    """

    ids: Ids
    scores: Vectors
    dense: Vectors
    lexical: Vectors

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Passage:
    """The unit that is indexed and cited: text[start:end] of a document.

    `document` is the public id of the document, `ordinal` the passage's place in it, from 1,
    `collection` the path of the folder that it lies in; "" where nobody asked for it.
    """

    id: int
    document: str
    ordinal: int
    access_class: int
    title: str
    text: str
    start: int
    end: int
    page: int | None
    collection: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that was found, with the score that ranks it and the two it came from."""

    passage: Passage
    score: float
    signal: Signal
    dense: float
    lexical: float
