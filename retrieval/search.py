"""A question and a scope to hits: both legs over the permitted lists, fused."""

from __future__ import annotations

import numpy as np

from acl.types import AccessScope
from retrieval.fuse import fuse
from retrieval.reach import ScopeReach
from retrieval.settings import RetrievalSettings
from retrieval.tenant_index import TenantIndex
from retrieval.types import Hits, Ids, Vectors
from retrieval.words import Lexicon

QUESTION_TERMS = 128
"""Different terms of a question that are looked up: its first ones. Beyond, work would grow
with what a caller pastes, not with what it may read."""


def find(
    index: TenantIndex,
    lexicon: Lexicon,
    vector: Vectors,
    text: str,
    scope: AccessScope,
    settings: RetrievalSettings,
) -> Hits:
    """Give all that the two legs find in the scope, best first; the caller cuts.

    Only rows of the scope's classes are read, scored and counted: the answer, to the last bit,
    is what an index without all other rows would give. If the scope holds no more passages
    than `settings.legs_depth`, every one is there.

    Args: vector: float32 [width], unit. text: the question, for the lexical leg.
    Raises: ValueError for an unfit vector; IndexUnsound if a guard around FAISS tripped.
    """
    reach = index.reach(scope.classes)
    ids, dense, lexical = legs(index, lexicon, vector, text, reach, settings.legs_depth)
    return fuse(ids, dense, lexical, settings.dense_weight)


def legs(
    index: TenantIndex,
    lexicon: Lexicon,
    vector: Vectors,
    text: str,
    reach: ScopeReach,
    depth: int,
) -> tuple[Ids, Vectors, Vectors]:
    """Give what either leg finds in a reach, ascending by id, scored exactly in both.

    Args: as `find`; depth: rows that each leg hands over.
    Returns: int64 [n]; float32 [n] cosines; float32 [n] lexical scores, 0 without a shared term.
    """
    dense_ids, _ = index.dense(vector, reach, depth)
    matches = index.lexical(_cut(lexicon.terms(text)), reach)
    lexical_ids, _ = matches.best(depth)
    ids = np.union1d(dense_ids, lexical_ids)
    return ids, index.cosines(ids, vector), index.matched(matches, ids)


def _cut(terms: list[str]) -> list[str]:
    first = set(list(dict.fromkeys(terms))[:QUESTION_TERMS])
    return [term for term in terms if term in first]
