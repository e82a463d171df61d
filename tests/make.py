"""Values for tests, every field defaulted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from pyroaring import FrozenBitMap

from acl.types import AccessScope, Counters, Principal
from retrieval.types import Candidate, Changes, Ids, Passage, Rows, Signal, Vectors


def make_scope(classes: Iterable[int] = (), tenant: str = "t1") -> AccessScope:
    """Give a scope over these classes, outside the one place where product code mints them."""
    counters = Counters("first", 1, 1, 0, 2**31)
    principal = Principal(tenant, 1, "ana")
    return AccessScope(tenant, principal, FrozenBitMap(classes), counters, float("inf"))


def make_units(n_rows: int, width: int = 16, seed: int = 0) -> Vectors:
    """Give random unit rows: float32 [n, d]."""
    drawn = np.random.default_rng(seed).standard_normal((n_rows, width))
    units: Vectors = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return units


def make_ids(numbers: Iterable[int]) -> Ids:
    """Give a column of ids."""
    return np.array(list(numbers), dtype=np.int64)


def make_rows(
    ids: Sequence[int],
    classes: Sequence[int] | None = None,
    *,
    documents: Sequence[int] | None = None,
    vectors: Vectors | None = None,
    texts: Sequence[str] | None = None,
    width: int = 16,
) -> Rows:
    """Give passages in columns: class 1, a document each, random vectors, one word each."""
    n_rows = len(ids)
    return Rows(
        make_ids(ids),
        make_ids(classes if classes is not None else [1] * n_rows),
        make_ids(documents if documents is not None else ids),
        vectors if vectors is not None else make_units(n_rows, width),
        tuple(texts if texts is not None else (f"word{number}" for number in ids)),
    )


def make_changes(rows: Rows, sequence: int = 1, removed: Sequence[int] = ()) -> Changes:
    """Give the change that brings these rows and removes other documents."""
    documents = np.union1d(rows.documents, make_ids(removed))
    return Changes(sequence, documents, rows)


def make_candidate(passage_id: int = 1, text: str = "a passage", score: float = 0.5) -> Candidate:
    """Give a candidate as fusion leaves it."""
    passage = Passage(passage_id, f"doc-{passage_id}", 1, 1, "title", text, 0, len(text), None)
    return Candidate(passage, score, Signal.FUSED, 0.4, 1.5)
