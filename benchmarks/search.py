"""The dense leg under permissions, against FAISS's own ways, at four selectivities.

The access model is that of many companies: a third of the rows open to all of a tenant, the
rest to teams, pairs of teams and single people, in some 2,000 classes of Zipf sizes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import faiss
import numpy as np

from benchmarks.report import Row, write
from retrieval.index import exact_scores
from retrieval.tenant_index import TenantIndex
from retrieval.types import Changes, Ids, Rows, Vectors
from retrieval.words import Lexicon

N_ROWS, WIDTH, N_CLASSES, DEPTH, N_QUERIES = 50_000, 384, 2_000, 10, 40
SELECTIVITIES = {"0.1 %": 0.001, "1 %": 0.01, "5 %": 0.05, "whole tenant": 1.0}

Found = Callable[[Vectors], Ids]


def run() -> None:
    """Measure and write results/search.json."""
    chance = np.random.default_rng(7)
    vectors, classes = _corpus(chance)
    index = _index(vectors, classes)
    flat = faiss.IndexFlatIP(WIDTH)
    flat.add(vectors)
    faiss.omp_set_num_threads(1)
    rows = [Row("index bytes for a passage, both legs", index.nbytes / N_ROWS, "B")]
    for name, share in SELECTIVITIES.items():
        rows += _at(name, share, chance, vectors, classes, index, flat)
    write("search", rows)


def _at(
    name: str,
    share: float,
    chance: np.random.Generator,
    vectors: Vectors,
    classes: Ids,
    index: TenantIndex,
    flat: faiss.IndexFlatIP,
) -> list[Row]:
    allowed = _allowed(chance, classes, share)
    permitted = np.flatnonzero(np.isin(classes, allowed)).astype(np.int64)
    bitmap = np.zeros(N_ROWS // 8 + 1, np.uint8)
    np.bitwise_or.at(bitmap, permitted // 8, (1 << (permitted % 8)).astype(np.uint8))
    array = _chosen_by(faiss.IDSelectorArray(permitted))
    bits = _chosen_by(faiss.IDSelectorBitmap(bitmap))  # type: ignore[call-arg, arg-type]
    inside = np.zeros(N_ROWS, bool)
    inside[permitted] = True

    def post_filter(query: Vectors) -> Ids:
        _, ids = flat.search(query[None], 10 * DEPTH)
        found: Ids = ids[0][inside[ids[0]]][:DEPTH]
        return found

    ways: dict[str, Found] = {
        "ours": lambda q: index.dense(q, allowed, DEPTH)[0] - 1,
        "FAISS Flat + IDSelectorArray": lambda q: flat.search(q[None], DEPTH, params=array)[1][0],
        "FAISS Flat + IDSelectorBitmap": lambda q: flat.search(q[None], DEPTH, params=bits)[1][0],
        "post-filter x10": post_filter,
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    recall: dict[str, list[float]] = {way: [] for way in ways}
    n_short = dict.fromkeys(ways, 0)
    n_foreign = dict.fromkeys(ways, 0)
    wanted = min(DEPTH, len(permitted))
    for query in _queries(chance, vectors):
        scores = exact_scores(vectors[permitted], query)
        truth = set(permitted[np.lexsort((permitted, -scores))[:wanted]].tolist())
        for way, search in ways.items():  # one after the other, so that load hits all alike
            began = time.perf_counter()
            found = search(query)
            times[way].append((time.perf_counter() - began) * 1000)
            recall[way].append(len(truth & set(found.tolist())) / wanted)
            n_short[way] += len(found) < wanted
            n_foreign[way] += int(np.sum(~inside[found]))
    ours = float(np.median(times["ours"]))
    label = f"{name} ({len(permitted)} rows, {len(allowed)} classes)"
    rows = [
        Row(f"{label}: recall@10", float(np.mean(recall["ours"])), "", "brute force", None,
            "= 1", bool(np.mean(recall["ours"]) == 1.0)),
        Row(f"{label}: short", n_short["ours"], "searches", "", None, "= 0", n_short["ours"] == 0),
        Row(f"{label}: not permitted", n_foreign["ours"], "rows", "", None, "= 0",
            n_foreign["ours"] == 0),
        Row(f"{label}: p95", float(np.percentile(times["ours"], 95)), "ms"),
    ]  # fmt: skip
    for way in list(ways)[1:]:
        theirs = float(np.median(times[way]))
        peer = f"{way}: {theirs:.3f} ms, recall {np.mean(recall[way]):.2f}, {n_short[way]} short"
        rows.append(Row(f"{label}: p50", ours, "ms", peer, ours / theirs))
    return rows


def _chosen_by(selector: faiss.IDSelector) -> faiss.SearchParameters:
    # The Python layer adds this keyword at run time.
    return faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]


def _corpus(chance: np.random.Generator) -> tuple[Vectors, Ids]:
    centres = chance.standard_normal((200, WIDTH))
    vectors = centres[chance.integers(200, size=N_ROWS)]
    vectors = vectors + 0.9 * chance.standard_normal((N_ROWS, WIDTH))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    sizes = 1 / np.arange(1, N_CLASSES + 1)
    classes = chance.choice(N_CLASSES, size=N_ROWS, p=sizes / sizes.sum()) + 1
    return vectors.astype(np.float32), classes.astype(np.int64)


def _index(vectors: Vectors, classes: Ids) -> TenantIndex:
    ids = np.arange(1, N_ROWS + 1, dtype=np.int64)
    texts = tuple(f"passage {number % 977} of class {number % 83}" for number in range(N_ROWS))
    everything = Changes(1, ids, Rows(ids, classes, ids, vectors, texts))
    return TenantIndex.empty(WIDTH).apply(everything, Lexicon(), 1000)


def _allowed(chance: np.random.Generator, classes: Ids, share: float) -> Ids:
    """Draw classes until they hold the share of the rows."""
    if share >= 1:
        return np.unique(classes)
    sizes = np.bincount(classes, minlength=N_CLASSES + 1)
    chosen, n_rows = [], 0
    for number in chance.permutation(np.unique(classes)):
        if n_rows + sizes[number] <= share * N_ROWS * 1.2:
            chosen.append(int(number))
            n_rows += int(sizes[number])
        if n_rows >= share * N_ROWS:
            break
    return np.asarray(sorted(chosen), np.int64)


def _queries(chance: np.random.Generator, vectors: Vectors) -> Vectors:
    picked = vectors[chance.integers(N_ROWS, size=N_QUERIES)]
    noisy = picked + 0.02 * chance.standard_normal(picked.shape)
    queries: Vectors = (noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float32)
    return queries
