"""Search under permissions against every exact way at hand: 200,000 and 1,000,000 rows.

`python -m benchmarks index` runs both sizes; `OSTIARY_BENCH_SIZES=20000` another one, and
`OSTIARY_BENCH_PEERS=` none of the peers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import faiss
import numpy as np
from platformdirs import user_cache_path
from rich.progress import track

from benchmarks import company
from benchmarks.peers.engines import EXACT, PEERS
from benchmarks.report import Report, Row, must_be, percentile
from retrieval.settings import RetrievalSettings
from retrieval.snapshot import IndexVersion, SnapshotFolder
from retrieval.tenant_index import TenantIndex
from retrieval.types import Changes, Ids, Rows, Vectors
from retrieval.words import Lexicon

DEPTH, N_READERS, N_QUESTIONS = 10, 5, 20
SHARES = {"0.01 %": 0.0001, "0.1 %": 0.001, "1 %": 0.01, "5 %": 0.05, "whole tenant": 1.0}
OURS, ALONE = "ours", "ours, alone"
ARRAY, BITMAP = "FAISS Flat + IDSelectorArray", "FAISS Flat + IDSelectorBitmap"
POST = "post-filter x10 over FAISS Flat"
# What the project asks of itself at a million rows, against the first of FAISS's ways.
BARS = {"0.01 %": 1.3, "0.1 %": 1.3, "1 %": 0.6, "5 %": 0.6, "whole tenant": 0.7}
PEER_BAR, BANDWIDTH_BAR, RAM_BAR = 1 / 3, 0.7, 900
_PEER_LIMIT_S = 900
_TIE = 1e-6  # scores nearer than that are equal to float32

Way = Callable[[Vectors], Ids]


@dataclass(slots=True)
class Tally:
    """What one way did over the questions of a share."""

    times_ms: list[float] = field(default_factory=list)
    n_right: int = 0
    n_wanted: int = 0
    n_short: int = 0
    n_foreign: int = 0

    def count(self, rows: Ids, spent_ms: float, truth: Truth) -> None:
        """Count one answer. A row that ties with the last right one is right."""
        wanted = min(DEPTH, len(truth.permitted))
        rows = rows[rows >= 0]
        inside = truth.permitted[
            np.minimum(truth.permitted.searchsorted(rows), len(truth.permitted) - 1)
        ]
        own = np.unique(rows[inside == rows])
        scores = truth.vectors[own].astype(np.float64) @ truth.question.astype(np.float64)
        self.times_ms.append(spent_ms)
        self.n_wanted += wanted
        self.n_right += min(wanted, int(np.sum(scores >= truth.last - _TIE)))
        self.n_short += len(own) < wanted
        self.n_foreign += int(np.sum(inside != rows))


@dataclass(frozen=True, slots=True)
class Truth:
    """What is right for one question: the float64 score of the last right row."""

    vectors: Vectors
    permitted: Ids
    question: Vectors
    last: float


def run() -> None:
    """Measure and write results/index.json."""
    report = Report.begin("index")
    sizes = os.environ.get("OSTIARY_BENCH_SIZES", "200000,1000000")
    left_out: list[str] = []
    rows: list[Row] = []
    for size in map(int, sizes.split(",")):
        # The products are asked at the smaller size, where all of them load in minutes.
        peers = list(PEERS) if size <= 200_000 else []
        if "OSTIARY_BENCH_PEERS" in os.environ:
            peers = [name for name in os.environ["OSTIARY_BENCH_PEERS"].split(",") if name]
        rows += _at(size, peers, left_out)
        if not peers:
            left_out.append(f"{size:,} rows: products other than FAISS, which load in hours")
    report.write(rows, left_out)


def _at(size: int, peers: list[str], left_out: list[str]) -> list[Row]:
    chance = np.random.default_rng(11)
    corpus = company.draw(chance, size)
    name = f"{size:,} rows"
    with tempfile.TemporaryDirectory(prefix="ostiary-bench-") as space:
        index, build_s = _ours(corpus, Path(space))
        flat = faiss.IndexFlatIP(company.WIDTH)
        flat.add(corpus.vectors)
        faiss.omp_set_num_threads(1)
        n_held = corpus.companies[0].high
        coded = sum(p.dense.codes.nbytes + p.layout.nbytes for p in index.parts) / n_held
        rows = [
            Row(f"{name}: the largest tenant built and saved", build_s, "s"),
            Row(f"{name}: codes, ids and lists a passage", coded, "B", "bar", coded / RAM_BAR,
                f"<= {RAM_BAR}", coded <= RAM_BAR),
        ]  # fmt: skip
        asked: dict[str, list[tuple[Ids, Ids, Vectors]]] = {}
        tallies: dict[str, dict[str, Tally]] = {}
        for share in track(SHARES, description=name):
            asked[share] = _questions(corpus, chance, SHARES[share])
            tallies[share] = _interleaved(corpus, index, flat, asked[share])
        for share in SHARES:
            tallies[share][ALONE] = _alone(corpus, index, asked[share])
        for peer in peers:
            _peer(peer, corpus, asked, tallies, left_out)
        for share in SHARES:
            rows += _rows(name, share, tallies[share], size)
        rows.append(_bandwidth(name, corpus, tallies["whole tenant"][ALONE]))
    return rows


def _ours(corpus: company.Corpus, space: Path) -> tuple[TenantIndex, float]:
    """Build the largest tenant's index, save it and map it, as a server has it."""
    one = corpus.companies[0]
    ids = np.arange(one.low + 1, one.high + 1, dtype=np.int64)
    vectors, classes = corpus.vectors[one.low : one.high], corpus.classes[one.low : one.high]
    everything = Changes(1, ids, Rows(ids, classes, ids, vectors, ("",) * len(ids)))
    settings = RetrievalSettings()
    began = time.perf_counter()
    index = TenantIndex.empty(company.WIDTH).apply(
        everything, Lexicon(settings.stem_language), settings.merge_rows
    )
    folder = SnapshotFolder(space, IndexVersion("bench", company.WIDTH, "english"))
    return folder.save("bench", "bench", index), time.perf_counter() - began


def _questions(
    corpus: company.Corpus, chance: np.random.Generator, share: float
) -> list[tuple[Ids, Ids, Vectors]]:
    drawn = []
    for _ in range(N_READERS):
        allowed = corpus.reader(chance, share)
        permitted = np.flatnonzero(np.isin(corpus.classes, allowed)).astype(np.int64)
        vectors = np.stack([corpus.question(chance, permitted) for _ in range(N_QUESTIONS)])
        drawn.append((allowed, permitted, vectors))
    return drawn


def _interleaved(
    corpus: company.Corpus,
    index: TenantIndex,
    flat: faiss.IndexFlatIP,
    asked: list[tuple[Ids, Ids, Vectors]],
) -> dict[str, Tally]:
    tallies = {way: Tally() for way in (OURS, ARRAY, BITMAP, POST)}
    for allowed, permitted, vectors in asked:
        ways = _ways(index, flat, allowed, permitted, len(corpus.classes))
        names = list(ways)
        for number, vector in enumerate(vectors):
            truth = _truth(corpus, permitted, vector)
            turn = number % len(names)
            for way in names[turn:] + names[:turn]:  # load and warm caches come to all alike
                began = time.perf_counter()
                found = ways[way](vector)
                tallies[way].count(found, (time.perf_counter() - began) * 1000, truth)
    return tallies


def _alone(
    corpus: company.Corpus, index: TenantIndex, asked: list[tuple[Ids, Ids, Vectors]]
) -> Tally:
    """Ask ours one question after the other, as the products are asked in their processes."""
    tally = Tally()
    for allowed, permitted, vectors in asked:
        reach = index.reach(allowed)
        found = []
        for vector in vectors:
            began = time.perf_counter()
            rows = index.dense(vector, reach, DEPTH)[0] - 1
            found.append((rows, (time.perf_counter() - began) * 1000))
        for vector, (rows, spent_ms) in zip(vectors, found, strict=True):
            tally.count(rows, spent_ms, _truth(corpus, permitted, vector))
    return tally


def _ways(
    index: TenantIndex, flat: faiss.IndexFlatIP, allowed: Ids, permitted: Ids, n_rows: int
) -> Mapping[str, Way]:
    inside = np.zeros(n_rows, dtype=np.bool_)
    inside[permitted] = True
    bitmap = np.packbits(inside, bitorder="little")
    array = faiss.SearchParameters(sel=faiss.IDSelectorArray(permitted))  # type: ignore[call-arg]
    selector = faiss.IDSelectorBitmap(bitmap)  # type: ignore[call-arg, arg-type]
    bits = faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]
    # FAISS's selectors are made once a reader; so is the reach of a scope.
    reach = index.reach(allowed)

    def post_filtered(vector: Vectors) -> Ids:
        found = flat.search(vector[None], 10 * DEPTH)[1][0]
        kept: Ids = found[inside[found]][:DEPTH]
        return kept

    return {
        OURS: lambda vector: index.dense(vector, reach, DEPTH)[0] - 1,
        ARRAY: lambda vector: flat.search(vector[None], DEPTH, params=array)[1][0],
        BITMAP: lambda vector: flat.search(vector[None], DEPTH, params=bits)[1][0],
        POST: post_filtered,
    }


def _truth(corpus: company.Corpus, permitted: Ids, question: Vectors) -> Truth:
    """Brute force of its own: float32 by BLAS to find who is near, float64 to decide."""
    mine = corpus.vectors[permitted[0] : permitted[-1] + 1] @ question
    coarse = mine[permitted - permitted[0]]
    near = permitted[np.argsort(-coarse, kind="stable")[: 10 * DEPTH]]
    scores = np.sort(corpus.vectors[near].astype(np.float64) @ question.astype(np.float64))[::-1]
    return Truth(corpus.vectors, permitted, question, float(scores[min(DEPTH, len(permitted)) - 1]))


def _peer(
    name: str,
    corpus: company.Corpus,
    asked: Mapping[str, list[tuple[Ids, Ids, Vectors]]],
    tallies: dict[str, dict[str, Tally]],
    left_out: list[str],
) -> None:
    """Ask one product in a process of its own, in its own environment."""
    with tempfile.TemporaryDirectory(prefix="ostiary-peers-") as space:
        folder = Path(space)
        np.save(folder / "vectors.npy", corpus.vectors)
        np.save(folder / "classes.npy", corpus.classes)
        held: dict[str, np.ndarray] = {}
        for share, readers in asked.items():
            held[f"{share}/n"] = np.array(len(readers))
            for number, (allowed, _, vectors) in enumerate(readers):
                held[f"{share}/{number}/classes"] = allowed
                held[f"{share}/{number}/vectors"] = vectors
        np.savez(folder / "questions.npz", **held)  # type: ignore[arg-type]
        try:
            command = [str(_peers_python()), "-W", "ignore", "-m", "benchmarks.peers", name, space]
            subprocess.run(  # noqa: S603 - a program of ours in an environment of ours
                command, check=True, capture_output=True, timeout=_PEER_LIMIT_S
            )
            found = json.loads((folder / f"{name}.json").read_text())
        except (subprocess.SubprocessError, OSError) as failure:
            left_out.append(f"{name}: {_reason(failure)}")
            return
    for share, readers in asked.items():
        tally = tallies[share].setdefault(name, Tally())
        answers = iter(zip(found["buckets"][share]["answers"],
                           found["buckets"][share]["times_ms"], strict=True))  # fmt: skip
        for _, permitted, vectors in readers:
            for vector in vectors:
                rows, spent_ms = next(answers)
                truth = _truth(corpus, permitted, vector)
                tally.count(np.array(rows, dtype=np.int64), spent_ms, truth)


def _reason(failure: Exception) -> str:
    if isinstance(failure, subprocess.CalledProcessError):
        lines = failure.stderr.decode(errors="replace").strip().splitlines()
        return f"failed: {lines[-1] if lines else failure.returncode}"
    if isinstance(failure, subprocess.TimeoutExpired):
        return f"took longer than {failure.timeout} s to load and answer"
    return str(failure)


def _peers_python() -> Path:
    """Make the peers' environment, once; gives its interpreter."""
    wanted = Path(__file__).with_name("requirements-peers.txt")
    home = user_cache_path("ostiary") / "peers"
    python, mark = home / "bin" / "python", home / "made-from"
    if not mark.exists() or mark.read_text() != wanted.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)  # noqa: S603
        pip = [str(python), "-m", "pip", "install", "--quiet", "-r", str(wanted)]
        subprocess.run(pip, check=True, capture_output=True)  # noqa: S603
        mark.write_text(wanted.read_text())
    return python


def _rows(name: str, share: str, tallies: Mapping[str, Tally], size: int) -> list[Row]:
    rows: list[Row] = []
    ours, alone = (percentile(tallies[way].times_ms, 50) for way in (OURS, ALONE))
    for way, tally in tallies.items():
        label = f"{name}, {share}: {way}"
        p50 = percentile(tally.times_ms, 50)
        counted = {
            "recall@10": (tally.n_right / tally.n_wanted, "", 1),
            "under-fill": (100 * tally.n_short / len(tally.times_ms), "%", 0),
            "not permitted": (tally.n_foreign, "rows", 0),
        }
        for measure, (value, unit, wanted) in counted.items():
            full = f"{label}: {measure}"
            rows.append(
                must_be(full, value, unit, wanted)
                if way in (OURS, ALONE)
                else Row(full, value, unit)
            )
        against = ARRAY if way == OURS else OURS
        ratio = p50 / (percentile(tallies[ARRAY].times_ms, 50) if way == OURS else ours)
        bar = BARS[share] if way == OURS and size >= 1_000_000 else None
        rows += [
            Row(f"{label}: p50", p50, "ms", against, ratio, f"<= {bar}" if bar else None,
                ratio <= bar if bar else None),
            Row(f"{label}: p95", percentile(tally.times_ms, 95), "ms"),
            Row(f"{label}: one after the other", 1000 / float(np.mean(tally.times_ms)), "/s"),
        ]  # fmt: skip
    exact = {
        peer: percentile(tallies[peer].times_ms, 50)
        for peer in EXACT
        if peer in tallies and tallies[peer].n_right == tallies[peer].n_wanted
    }
    if exact:
        best = min(exact, key=lambda peer: exact[peer])
        ratio = alone / exact[best]
        rows.append(
            Row(f"{name}, {share}: ours, alone, against the best exact product", alone, "ms",
                best, ratio, f"<= {PEER_BAR:.2f}", ratio <= PEER_BAR)
        )  # fmt: skip
    return rows


def _bandwidth(name: str, corpus: company.Corpus, tally: Tally) -> Row:
    """Compare with numpy's sgemv over as many bytes as the whole-tenant scan reads."""
    nbytes = corpus.companies[0].high * (company.WIDTH + 4)
    n_rows = nbytes // (4 * company.WIDTH)
    matrix, vector = corpus.vectors[-n_rows:], corpus.vectors[0]
    times_ms = []
    for _ in range(30):
        began = time.perf_counter()
        np.dot(matrix, vector)
        times_ms.append((time.perf_counter() - began) * 1000)
    ours = nbytes / percentile(tally.times_ms, 50) / 1e6
    limit = n_rows * 4 * company.WIDTH / percentile(times_ms, 50) / 1e6
    return Row(
        f"{name}, whole tenant: bandwidth reached", ours, "GB/s", "numpy sgemv, as many bytes",
        ours / limit, f">= {BANDWIDTH_BAR}", ours / limit >= BANDWIDTH_BAR,
    )  # fmt: skip
