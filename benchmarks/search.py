"""Search under permissions against FAISS's own ways, at four selectivities."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import faiss
import numpy as np
from pyroaring import FrozenBitMap

from acl.types import AccessScope, Counters, Principal
from benchmarks.judged import DEPTH, Tally
from benchmarks.report import Report, Row, must_be, percentile
from benchmarks.synthetic import N_ROWS, WIDTH, Tenant, draw
from retrieval.search import find
from retrieval.settings import RetrievalSettings
from retrieval.tenant_index import TenantIndex
from retrieval.types import Changes, Ids, Rows, Vectors
from retrieval.words import Lexicon

N_READERS, N_QUESTIONS = 5, 40
SELECTIVITIES = {"0.1 %": 0.001, "1 %": 0.01, "5 %": 0.05, "whole tenant": 1.0}
DENSE, FIND = "dense leg", "find()"
ARRAY, BITMAP = "FAISS Flat + IDSelectorArray", "FAISS Flat + IDSelectorBitmap"
POST = "post-filter x10 over FAISS Flat"

Way = Callable[[Vectors, str], Ids]


@dataclass(frozen=True, slots=True)
class _Field:
    """All that is searched: one tenant, in the product's index and in a flat one of FAISS."""

    tenant: Tenant
    wide: np.typing.NDArray[np.float64]
    index: TenantIndex
    flat: faiss.IndexFlatIP
    lexicon: Lexicon
    settings: RetrievalSettings


def run() -> None:
    """Measure and write results/search.json."""
    report = Report.begin("search")
    chance = np.random.default_rng(7)
    at = _field(draw(chance))
    faiss.omp_set_num_threads(1)
    rows = [
        Row("product index, both legs, float32 rows included (estimate)", at.index.nbytes, "B"),
        Row("FAISS Flat, vectors only", at.flat.code_size * at.flat.ntotal, "B"),
        Row("IDSelectorBitmap of a reader", N_ROWS // 8, "B"),
    ]
    for name, share in SELECTIVITIES.items():
        rows += _at(name, share, chance, at)
    report.write(rows)


def _at(name: str, share: float, chance: np.random.Generator, at: _Field) -> list[Row]:
    tallies: dict[str, Tally] = {way: Tally() for way in (DENSE, FIND, ARRAY, BITMAP, POST)}
    n_rows, n_classes, n_scope_bytes = [], [], []
    for _ in range(N_READERS):
        allowed = at.tenant.reader(chance, share)
        permitted = np.flatnonzero(np.isin(at.tenant.classes, allowed)).astype(np.int64)
        scope = _scope(allowed)
        _ask_all(chance, at, permitted, _ways(at, allowed, permitted, scope), tallies)
        n_rows.append(len(permitted))
        n_classes.append(len(allowed))
        n_scope_bytes.append(len(scope.classes.serialize()))
    size = float(np.mean(n_rows))
    return [
        Row(f"{name}: rows a reader may read, mean", size, "rows"),
        Row(f"{name}: classes a reader may read, mean", float(np.mean(n_classes)), "classes"),
        Row(f"{name}: scope of a reader, mean", float(np.mean(n_scope_bytes)), "B"),
        Row(f"{name}: IDSelectorArray of a reader, mean", 8 * size, "B"),
        *(row for way in tallies for row in _rows(name, way, tallies)),
    ]


def _ask_all(
    chance: np.random.Generator,
    at: _Field,
    permitted: Ids,
    ways: dict[str, Way],
    tallies: dict[str, Tally],
) -> None:
    inside = np.zeros(N_ROWS, dtype=np.bool_)
    inside[permitted] = True
    mine = at.wide[permitted]
    wanted = min(DEPTH, len(permitted))
    names = list(ways)
    for number in range(N_QUESTIONS):
        vector, text = at.tenant.question(chance, permitted)
        # Brute force of its own, in float64: no code that is measured decides what is right.
        truth = permitted[np.argsort(-(mine @ vector.astype(np.float64)), kind="stable")[:wanted]]
        turn = number % len(names)
        for way in names[turn:] + names[:turn]:  # load and warm caches come to all alike
            began = time.perf_counter()
            found = ways[way](vector, text)
            spent_ms = (time.perf_counter() - began) * 1000
            tally = tallies[way]
            found = found[found >= 0]
            tally.times_ms.append(spent_ms)
            tally.n_right += int(np.isin(truth, found).sum())
            tally.n_wanted += wanted
            tally.n_short += len(found) < wanted
            tally.n_foreign += int(np.sum(~inside[found]))


def _ways(at: _Field, allowed: Ids, permitted: Ids, scope: AccessScope) -> dict[str, Way]:
    bitmap = np.packbits(np.isin(np.arange(N_ROWS), permitted), bitorder="little")
    array = _chosen_by(faiss.IDSelectorArray(permitted))
    bits = _chosen_by(faiss.IDSelectorBitmap(bitmap))  # type: ignore[call-arg, arg-type]
    inside = np.unpackbits(bitmap, count=N_ROWS, bitorder="little").astype(np.bool_)

    def post_filtered(vector: Vectors, _: str) -> Ids:
        found = at.flat.search(vector[None], 10 * DEPTH)[1][0]
        kept: Ids = found[inside[found]][:DEPTH]
        return kept

    return {
        DENSE: lambda vector, _: at.index.dense(vector, allowed, DEPTH)[0] - 1,
        FIND: lambda vector, text: (
            find(at.index, at.lexicon, vector, text, scope, at.settings).ids - 1
        ),
        ARRAY: lambda vector, _: at.flat.search(vector[None], DEPTH, params=array)[1][0],
        BITMAP: lambda vector, _: at.flat.search(vector[None], DEPTH, params=bits)[1][0],
        POST: post_filtered,
    }


def _rows(name: str, way: str, tallies: dict[str, Tally]) -> list[Row]:
    tally = tallies[way]
    p50, p95 = (percentile(tally.times_ms, percent) for percent in (50, 95))
    peer = ARRAY if way in (DENSE, FIND) else DENSE
    ratio = p50 / percentile(tallies[peer].times_ms, 50)
    measured = {
        # find() fuses two legs: what is counted of it is whether the rows are among its candidates.
        "recall@10 among candidates" if way == FIND else "recall@10": (
            tally.n_right / tally.n_wanted, "", 1),
        "under-fill": (100 * tally.n_short / len(tally.times_ms), "%", 0),
        "not permitted": (tally.n_foreign, "rows", 0),
    }  # fmt: skip
    ours = way in (DENSE, FIND)
    return [
        *(
            must_be(f"{name}: {way}: {measure}", value, unit, wanted)
            if ours
            else Row(f"{name}: {way}: {measure}", value, unit)
            for measure, (value, unit, wanted) in measured.items()
        ),
        Row(f"{name}: {way}: p50", p50, "ms", peer, ratio),
        Row(f"{name}: {way}: p95", p95, "ms"),
    ]


def _field(tenant: Tenant) -> _Field:
    ids = np.arange(1, N_ROWS + 1, dtype=np.int64)
    everything = Changes(1, ids, Rows(ids, tenant.classes, ids, tenant.vectors, tenant.texts))
    settings = RetrievalSettings()
    lexicon = Lexicon(settings.stem_language)
    index = TenantIndex.empty(WIDTH).apply(everything, lexicon, settings.merge_rows)
    flat = faiss.IndexFlatIP(WIDTH)
    flat.add(tenant.vectors)
    return _Field(tenant, tenant.vectors.astype(np.float64), index, flat, lexicon, settings)


def _scope(allowed: Ids) -> AccessScope:
    principal = Principal("bench", 1, "user:reader")
    counters = Counters("bench", 1, 1, 0, 2**31)
    return AccessScope("bench", principal, FrozenBitMap(allowed), counters, float("inf"))


def _chosen_by(selector: faiss.IDSelector) -> faiss.SearchParameters:
    # The Python layer adds this keyword at run time.
    return faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]
