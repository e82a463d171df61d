"""A question and a scope to hits: both legs over the permitted lists, fused."""

from __future__ import annotations

import numpy as np

from acl.types import AccessScope
from retrieval.fuse import fuse
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
    classes = np.array(scope.classes.to_array(), dtype=np.int64)
    dense_ids, _ = index.dense(vector, classes, settings.legs_depth)
    lexical_ids, lexical = index.lexical(_cut(lexicon.terms(text)), classes)
    ids = np.union1d(dense_ids, lexical_ids[: settings.legs_depth])
    return fuse(
        ids,
        index.cosines(ids, vector),
        _looked_up(ids, lexical_ids, lexical),
        settings.dense_weight,
    )


def _cut(terms: list[str]) -> list[str]:
    first = set(list(dict.fromkeys(terms))[:QUESTION_TERMS])
    return [term for term in terms if term in first]


def _looked_up(ids: Ids, matched: Ids, scores: Vectors) -> Vectors:
    """Give the lexical score of each id; 0 is the score of what shares no term."""
    by_id = np.argsort(matched)
    at = np.searchsorted(matched[by_id], ids)
    found = np.zeros(len(ids), dtype=np.float32)
    inside = np.flatnonzero(at < len(matched))
    places = by_id[at[inside]]
    same = matched[places] == ids[inside]
    found[inside[same]] = scores[places[same]]
    return found
