"""The knobs of retrieval, as values; `pipeline.settings` reads them from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """How passages are made, found and ranked.

    encoder: "default" (the packaged all-MiniLM-L6-v2), a local path, a hub name, or "hashed"
        (deterministic and model-free, for tests).
    passage_tokens: most encoder tokens in a passage, its title included.
    overlap_tokens: most tokens that two neighbours share.
    legs_depth: how many rows each leg (dense, lexical) hands to fusion.
    dense_weight: weight of the dense leg in the convex fusion, in [0, 1].
    reranker: "fusion" (keep fusion order and say so), "cross-encoder" or "remote".
    reranker_model: path or hub name of the cross-encoder, or the model that the endpoint serves.
    reranker_url: address of a /rerank endpoint, with its path, for "remote".
    rerank_depth: how many candidates are reranked.
    rerank_collections: paths of the collections, each with all below it, whose passages are
        reranked; the others keep their places. Empty: all.
    stem_language: Snowball language of the lexical leg.
    merge_rows: rows up to which the parts of an index are small and joined as they come, and
        changed rows after which a snapshot is written.
    gpu: number of the GPU that holds big parts of indexes too; none: the processor alone.
    gpu_nbytes: how many bytes of it indexes may hold.
    """

    encoder: str = "default"
    passage_tokens: int = 200
    overlap_tokens: int = 24
    legs_depth: int = 200
    dense_weight: float = 0.5
    reranker: Literal["fusion", "cross-encoder", "remote"] = "fusion"
    reranker_model: str = ""
    reranker_url: str = ""
    rerank_depth: int = 25
    rerank_collections: tuple[str, ...] = ()
    stem_language: str = "english"
    merge_rows: int = 2048
    gpu: int | None = None
    gpu_nbytes: int = 8 << 30
