"""The quality of retrieval on collections: stage by stage, cut as the product does, by scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evals.report import Glance, Measure
from evals.retrieval.collection import Collection
from evals.retrieval.measures import HEADLINE, difference, headline, measured
from evals.retrieval.ranking import Searched, index_of, search
from evals.retrieval.vectors import Passages, vectors_of
from retrieval.chunk import Chunker
from retrieval.encode import Encoder
from retrieval.rerank import Reranker
from retrieval.settings import RetrievalSettings
from retrieval.types import Ids, Parsed, Vectors

# Where the weight of the dense leg is looked for.
WEIGHTS = tuple(round(0.1 * step, 1) for step in range(1, 10))
_SHARES = {"5 %": 0.05, "30 %": 0.3}
_N_CLASSES = 200
_STAGES = (
    "lexical", "dense", "fused", "fused, weight chosen on the others", "fused, product's passages",
    "reranked",
)  # fmt: skip

Told = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Quality:
    """What was measured on one collection; `searched` is kept to choose a weight with."""

    collection: Collection
    searched: Searched
    measures: tuple[Measure, ...]


def judge(
    collection: Collection,
    encoder: Encoder,
    settings: RetrievalSettings,
    seed: int,
    *,
    chunked: bool = False,
    reranker: Reranker | None = None,
    told: Told = lambda _: None,
) -> Quality:
    """Measure the legs and their fusion on a collection, one passage a document.

    Args: chunked: measure the product's own passages as well, each document by its best.
        reranker: measured too, over the fusion.
    """
    name = collection.name
    told(f"{name}: encoding")
    whole = _whole(collection)
    queries = {query: encoder.encode_query(text) for query, text in collection.queries.items()}
    vectors = vectors_of(encoder, whole.shown)
    told(f"{name}: searching")
    searched = _searched(collection, whole, vectors, queries, settings)
    fused = searched.fused(settings.dense_weight)
    runs = {"lexical": searched.lexical(), "dense": searched.dense(), "fused": fused}
    if reranker is not None:
        told(f"{name}: reranking")
        weight, depth = settings.dense_weight, settings.rerank_depth
        runs["reranked"] = searched.reranked(weight, reranker, depth)
    measures: list[Measure] = []
    for stage, run in runs.items():
        measures += measured(f"{name}/{stage}", run, collection.qrels, seed)
    measures += _against(name, measures, seed)
    if chunked:
        told(f"{name}: encoding passages as the product cuts them")
        cut = _cut(collection, encoder, settings)
        chunks = vectors_of(encoder, cut.shown)
        found = _searched(collection, cut, chunks, queries, settings)
        run = found.fused(settings.dense_weight)
        measures += measured(f"{name}/fused, product's passages", run, collection.qrels, seed)
    told(f"{name}: under scopes")
    measures += _scoped(collection, whole, vectors, queries, settings, seed)
    return Quality(collection, searched, tuple(measures))


def chosen_elsewhere(judged: Sequence[Quality], seed: int) -> list[Measure]:
    """Fuse each collection with the weight that is best on the mean of the others.

    A weight that is picked on the collection that it is told of flatters itself.
    """
    if len(judged) < 2:
        return []
    heights = {
        (one.collection.name, weight): headline(one.searched.fused(weight), one.collection.qrels)
        for one in judged
        for weight in WEIGHTS
    }

    def mean(weight: float, names: Sequence[str]) -> float:
        return float(np.mean([heights[name, weight] for name in names]))

    found: list[Measure] = []
    everywhere = [each.collection.name for each in judged]
    for one in judged:
        name = one.collection.name
        others = [each for each in everywhere if each != name]
        best = max(WEIGHTS, key=lambda weight: mean(weight, others))
        found += measured(
            f"{name}/fused, weight chosen on the others", one.searched.fused(best),
            one.collection.qrels, seed, f"dense weight {best}",
        )  # fmt: skip
    found += [
        Measure(f"weights/dense {weight}/mean {HEADLINE}", mean(weight, everywhere), len(judged))
        for weight in WEIGHTS
    ]
    return found


def glance(measures: Sequence[Measure]) -> Glance:
    """Give a row a collection, a column a stage."""
    by_name = {each.name: each for each in measures}
    names = [n for n in dict.fromkeys(m.name.split("/")[0] for m in measures) if n != "weights"]
    stages = [s for s in _STAGES if any(f"{n}/{s}/{HEADLINE}" in by_name for n in names)]
    rows = []
    for name in names:
        cells = [by_name.get(f"{name}/{stage}/{HEADLINE}") for stage in stages]
        rows.append((name, *("" if m is None else f"{m.value:.3f}" for m in cells)))
    return Glance(HEADLINE, ("collection", *stages), tuple(rows))


def _searched(
    collection: Collection,
    passages: Passages,
    vectors: Vectors,
    queries: Mapping[str, Vectors],
    settings: RetrievalSettings,
) -> Searched:
    n = len(passages.texts)
    one = np.ones(n, dtype=np.int64)
    index = index_of(passages, vectors, one, np.arange(n, dtype=np.int64))
    return search(index, collection, passages, queries, np.array([1], dtype=np.int64), settings)


def _scoped(
    collection: Collection,
    passages: Passages,
    vectors: Vectors,
    queries: Mapping[str, Vectors],
    settings: RetrievalSettings,
    seed: int,
) -> list[Measure]:
    """Give quality under a scope, divided by that of an index of nothing but the scope."""
    chance = np.random.default_rng(seed)
    n = len(passages.texts)
    documents = tuple(collection.texts)
    classes: Ids = chance.integers(1, _N_CLASSES + 1, n).astype(np.int64)
    index = index_of(passages, vectors, classes, np.arange(n, dtype=np.int64))
    found = []
    for named, share in _SHARES.items():
        allowed = np.flatnonzero(chance.random(_N_CLASSES) < share).astype(np.int64) + 1
        keep = np.flatnonzero(np.isin(classes, allowed)).astype(np.int64)
        if not len(keep):
            continue
        permitted = {documents[row] for row in passages.documents[keep].tolist()}
        qrels = {
            query: left for query, judged in collection.qrels.items()
            if (left := {d: r for d, r in judged.items() if d in permitted})
        }  # fmt: skip
        asked = {query: vector for query, vector in queries.items() if query in qrels}
        if not asked:
            continue
        oracle = index_of(passages, vectors, classes, keep)
        runs = [
            search(each, collection, passages, asked, allowed, settings).fused(
                settings.dense_weight
            )
            for each in (index, oracle)
        ]
        ours, best = (headline(run, qrels) for run in runs)
        same = float(np.mean([runs[0][query] == runs[1][query] for query in asked]))
        name, n_asked = f"{collection.name}/scope of {named}", len(asked)
        found += [
            Measure(f"{name}/{HEADLINE}", ours, n_asked),
            Measure(f"{name}/against an index of the permitted alone", ours / best if best else 1.0,
                    n_asked, note="must be 1"),
            Measure(f"{name}/same rankings", same, n_asked, note="must be 1"),
        ]  # fmt: skip
    return found


def _against(name: str, measures: Sequence[Measure], seed: int) -> list[Measure]:
    by_name = {each.name: each for each in measures}
    found = []
    for upper, lower in (("fused", "lexical"), ("fused", "dense"), ("reranked", "fused")):
        stages = [by_name.get(f"{name}/{stage}/{HEADLINE}") for stage in (upper, lower)]
        if stages[0] is None or stages[1] is None:
            continue
        gained = difference(stages[0].each, stages[1].each, seed)
        found.append(
            Measure(f"{name}/{upper} over {lower}/{HEADLINE}", gained.mean, gained.n,
                    low=gained.low, high=gained.high,
                    note=f"p = {gained.p:.3g}, paired randomisation")
        )  # fmt: skip
    return found


def _whole(collection: Collection) -> Passages:
    pairs = [(collection.titles[each], collection.texts[each]) for each in collection.texts]
    texts = tuple(f"{title}\n{text}" for title, text in pairs)
    shown = tuple(f"{title} {text}".strip() for title, text in pairs)
    return Passages(texts, shown, np.arange(len(texts), dtype=np.int64))


def _cut(collection: Collection, encoder: Encoder, settings: RetrievalSettings) -> Passages:
    chunker = Chunker(encoder.tokenizer, settings.passage_tokens, settings.overlap_tokens)
    texts, shown, documents = [], [], []
    for number, (name, text) in enumerate(collection.texts.items()):
        title = collection.titles[name]
        pieces = chunker.split(Parsed(title, text or title, "text/plain"))
        texts += [f"{title}\n{piece.text}" for piece in pieces]
        shown += [chunker.encoded(title, piece.text) for piece in pieces]
        documents += [number] * len(pieces)
    return Passages(tuple(texts), tuple(shown), np.array(documents, dtype=np.int64))
