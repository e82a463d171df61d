"""The lexical leg at a million passages in 100,000 access classes: bytes, building, questions.

Passages say 60 words of 200,000, of Zipf-Mandelbrot frequencies; access classes are of uneven
sizes and a reader's are drawn at random, so that they lie scattered: the hardest scope there is.
"""

from __future__ import annotations

import gc
import math
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.report import Report, Row, must_be, percentile, within
from retrieval.bags import Bags, count_terms, join
from retrieval.layout import Layout, Reach
from retrieval.lexical import bm25
from retrieval.postings import LexicalPart
from retrieval.types import Ids, Vectors
from retrieval.words import Lexicon

N_ROWS, N_CLASSES, N_TERMS, N_WORDS = 1_000_000, 100_000, 200_000, 60
SHARES = {"0.01 %": 0.0001, "0.1 %": 0.001, "1 %": 0.01, "5 %": 0.05, "whole tenant": 1.0}
RAM_BAR, WHOLE_MS, BUILD_GB = 600, 30, 10
_DEPTH, _N_READERS, _N_QUESTIONS, _N_JUDGED = 200, 5, 12, 2
_COMMON, _MIDDLE = (0, 100), (1_000, 10_000)  # ranks of the words that are asked
_UNEVEN, _FLAT, _CHUNK = 1.2, 2.7, 50_000
_N_TEXTS, _N_NEW = 3_000, 10_000
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Field:
    """All that is searched. bags number their rows as the layout does."""

    layout: Layout
    bags: Bags
    part: LexicalPart


def run() -> None:
    """Measure and write results/lexical.json."""
    report = Report.begin("lexical")
    chance = np.random.default_rng(3)
    rows = _counting(chance)
    layout, bags = draw(chance, N_ROWS)
    began = time.perf_counter()
    part = LexicalPart.build(layout, bags)
    rows += [
        Row("part built from bags", N_ROWS / (time.perf_counter() - began), "passages/s"),
        within("most memory of the process, corpus made and part built", _peak(), "GB", BUILD_GB),
        within("columns and vocabulary a passage", part.nbytes / N_ROWS, "B", RAM_BAR),
    ]
    at = Field(layout, bags, part)
    whole: float | None = None
    for name in reversed(SHARES):
        found, p50 = _at(name, chance, at, whole)
        rows += found
        whole = whole or p50
    rows += _merging(chance, at)
    with TemporaryDirectory(prefix="ostiary-bench-") as space:
        for name, column in part.columns().items():
            np.save(Path(space, name), column)
        del at, bags, part  # only what is read back is held from here on
        rows += _opened(Path(space), chance, layout)
    report.write(rows)


def draw(chance: np.random.Generator, n_rows: int) -> tuple[Layout, Bags]:
    """Draw a corpus of so many passages, as arrays: no text is written and read again."""
    sizes = chance.lognormal(0, _UNEVEN, N_CLASSES).cumsum()
    classes = 1 + np.searchsorted(sizes / sizes[-1], chance.random(n_rows)).astype(np.int64)
    ids = np.arange(1, n_rows + 1, dtype=np.int64)
    layout, _ = Layout.of(ids, np.minimum(classes, N_CLASSES), ids)
    return layout, _bags(chance, n_rows)


def _bags(chance: np.random.Generator, n_rows: int) -> Bags:
    rows, terms, counts = [], [], []
    for low in range(0, n_rows, _CHUNK):
        n = min(_CHUNK, n_rows - low)
        said = np.repeat(np.arange(n, dtype=np.int64), N_WORDS) * N_TERMS
        said += _ranks(chance, n * N_WORDS)
        said.sort()
        first = np.flatnonzero(np.append(True, said[1:] != said[:-1]))
        counts.append(np.diff(np.append(first, len(said))).astype(np.int32))
        row, term = np.divmod(said[first], N_TERMS)
        rows.append((row + low).astype(np.int32))
        terms.append(term.astype(np.int32))
    vocabulary = tuple(_term(rank) for rank in range(N_TERMS))
    return Bags(vocabulary, np.concatenate(rows), np.concatenate(terms), np.concatenate(counts))


def _at(
    name: str, chance: np.random.Generator, at: Field, whole_ms: float | None
) -> tuple[list[Row], float]:
    times_ms: list[float] = []
    n_spans, n_rows, n_postings, n_wrong = [], [], [], 0
    for _ in range(_N_READERS):
        reach = at.layout.reach(reader(chance, at.layout, SHARES[name]), _none())
        n_spans.append(len(reach.lows))
        n_rows.append(reach.n_rows)
        for number in range(_N_QUESTIONS):
            terms = _question(chance)
            began = time.perf_counter()
            tally = at.part.tally(terms, reach)
            ids, scores = bm25([tally], [1] * len(terms)).best(_DEPTH)
            times_ms.append((time.perf_counter() - began) * 1000)
            n_postings.append(sum(len(each.at) for each in tally.found))
            if number < _N_JUDGED:
                true_ids, true_scores = by_hand(at, terms, reach, _DEPTH)
                same = np.array_equal(ids, true_ids) and np.array_equal(scores, true_scores)
                n_wrong += not same
    p50, p95 = (percentile(times_ms, percent) for percent in (50, 95))
    timed = within(f"{name}: question of 4 terms, p50", p50, "ms", WHOLE_MS)
    if whole_ms is not None:
        timed = Row(f"{name}: question of 4 terms, p50", p50, "ms", "whole tenant",
                    p50 / whole_ms, "< whole tenant", p50 < whole_ms)  # fmt: skip
    return [
        Row(f"{name}: passages of a reader, mean", float(np.mean(n_rows)), "passages"),
        Row(f"{name}: spans of rows, mean", float(np.mean(n_spans)), "spans"),
        Row(f"{name}: postings read a question, mean", float(np.mean(n_postings)), "postings"),
        timed,
        Row(f"{name}: question of 4 terms, p95", p95, "ms"),
        must_be(f"{name}: rankings that differ from those worked out by hand", n_wrong, "", 0),
        *_unseen(name, chance, at),
    ], p50


def _unseen(name: str, chance: np.random.Generator, at: Field) -> list[Row]:
    """Time one term that stands only outside the scope, against one that is nowhere."""
    reach = at.layout.reach(reader(chance, at.layout, SHARES[name]), _none())
    inside = np.unique(at.bags.terms[reach.holds(at.bags.rows.astype(np.int64))])
    hidden = np.setdiff1d(np.arange(*_MIDDLE), inside)[-20:]
    if not len(hidden):
        return []
    p50: list[float] = []
    for written in (map(_term, hidden.tolist()), (_term(n) + "x" for n in hidden.tolist())):
        times_ms = []
        for term in written:
            began = time.perf_counter()
            bm25([at.part.tally([term], reach)], [1]).best(_DEPTH)
            times_ms.append((time.perf_counter() - began) * 1000)
        p50.append(percentile(times_ms, 50))
    measure = f"{name}: a term only others may read, p50"
    return [Row(measure, p50[0], "ms", "a term that is nowhere", p50[0] / p50[1])]


def reader(chance: np.random.Generator, layout: Layout, share: float) -> Ids:
    """Draw the classes of somebody who may read about this share of the passages."""
    if share >= 1:
        return layout.classes
    order = chance.permutation(layout.n_lists)
    n_rows = layout.sizes(order).cumsum()
    n_classes = int(np.searchsorted(n_rows, share * n_rows[-1])) + 1
    return layout.classes[np.sort(order[:n_classes])]


def by_hand(at: Field, terms: Sequence[str], reach: Reach, depth: int) -> tuple[Ids, Vectors]:
    """Rank by BM25 from the bags, with no postings: what is measured does not judge itself."""
    inside = np.zeros(at.layout.n_rows, dtype=np.bool_)
    inside[at.layout.rows(reach.lists)] = True
    lengths = np.bincount(at.bags.rows, at.bags.counts, at.layout.n_rows)
    n_rows, n_tokens = int(inside.sum()), int(lengths[inside].sum())
    sums = np.zeros(at.layout.n_rows)
    for term in terms:
        said = np.flatnonzero(at.bags.terms == at.bags.vocabulary.index(term))
        said = said[inside[at.bags.rows[said]]]
        rows, counts = at.bags.rows[said], at.bags.counts[said]
        rarity = math.log(1 + (n_rows - len(rows) + 0.5) / (len(rows) + 0.5))
        norm = 1.2 * (1 - 0.75 + 0.75 * (lengths[rows] / (n_tokens / n_rows)))
        sums[rows] += rarity * (counts / (counts + norm))
    matched = np.flatnonzero(sums)
    scores, ids = sums[matched].astype(np.float32), at.layout.ids[matched]
    order = np.lexsort((ids, -scores))[:depth]
    return ids[order], scores[order]


def _counting(chance: np.random.Generator) -> list[Row]:
    ranks = _ranks(chance, _N_TEXTS * N_WORDS).reshape(_N_TEXTS, N_WORDS)
    texts = [" ".join(map(_term, row)) for row in ranks.tolist()]
    began = time.perf_counter()
    count_terms(texts, Lexicon())
    return [Row("terms of texts counted", _N_TEXTS / (time.perf_counter() - began), "passages/s")]


def _merging(chance: np.random.Generator, at: Field) -> list[Row]:
    """Time what a merger does: give the bags back without a tenth of the rows, join new ones."""
    keep = chance.random(at.layout.n_rows) >= 0.1
    fresh = _bags(chance, _N_NEW)
    began = time.perf_counter()
    join(at.part.bags().kept(keep), fresh, int(keep.sum()))
    spent_s = time.perf_counter() - began
    return [Row("bags given back, thinned and joined", at.layout.n_rows / spent_s, "passages/s")]


def _opened(space: Path, chance: np.random.Generator, layout: Layout) -> list[Row]:
    """Read the part back from files, ask it questions, and see what the process has grown by."""
    gc.collect()
    before = _resident()
    began = time.perf_counter()
    part = LexicalPart.opened(layout, {path.stem: np.load(path) for path in space.iterdir()})
    spent_ms = (time.perf_counter() - began) * 1000
    reach = layout.reach(layout.classes, _none())
    for _ in range(_N_QUESTIONS):
        terms = _question(chance)
        bm25([part.tally(terms, reach)], [1] * len(terms)).best(_DEPTH)
    return [
        Row("part read from files", spent_ms, "ms"),
        within("growth of the process a passage", (_resident() - before) / N_ROWS, "B", RAM_BAR),
    ]


def _question(chance: np.random.Generator) -> list[str]:
    ranks = {*chance.integers(*_COMMON, 2).tolist(), *chance.integers(*_MIDDLE, 2).tolist()}
    return sorted(_term(rank) for rank in ranks)


def _ranks(chance: np.random.Generator, n: int) -> Ids:
    weights = (1 / (np.arange(N_TERMS) + _FLAT)).cumsum()
    return np.searchsorted(weights / weights[-1], chance.random(n)).astype(np.int64)


def _term(rank: int) -> str:
    return f"w{rank:06d}"


def _none() -> Ids:
    return np.empty(0, dtype=np.int64)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _resident() -> int:
    (line,) = [line for line in _STATUS.read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024
