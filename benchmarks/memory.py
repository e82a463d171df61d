"""Does the ledger say what the process has: memory after loads, rebuilds and swaps.

What is private is compared as anonymous PSS, what is mapped as PSS of files, every page read.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.report import Report, Row, must_be, within
from pipeline.ledger import MAPPED, RAM, Ledger
from pipeline.machine import give_back, keep_little, process_memory
from pipeline.room import LedgerRoom
from retrieval.shelf import Shelf
from retrieval.snapshot import IndexVersion, SnapshotFolder
from retrieval.tenant_index import TenantIndex
from retrieval.types import Changes, Ids, Rows, Vectors
from retrieval.words import Lexicon

_ROUNDS = 20
_N_ROWS, _WIDTH, _N_WORDS, _N_CLASSES = 24_000, 384, 6, 500
_CHANGED = 3_000
_MERGE_ROWS = 1_024
_BUDGET_NBYTES = 4 << 30
_VOCABULARY = 20_000
_PAGE_NBYTES = 1024  # at most a page
_PREFIX = "ostiary-memory-"


class History:
    """A tenant that changes: what the database would say, drawn anew so that nothing is kept."""

    def __init__(self) -> None:
        self.sequence = 1

    def changes(self, tenant: str, since: int | None) -> Changes:
        """Give all rows, or those of the last change."""
        if since is None:
            return self._rows(0, _N_ROWS)
        low = self.sequence * _CHANGED % _N_ROWS
        if since >= self.sequence:
            return self._rows(0, 0)
        return self._rows(low, min(low + _CHANGED, _N_ROWS))

    def volume(self, tenant: str) -> tuple[int, int]:
        """Count passages and letters."""
        return _N_ROWS, _N_ROWS * _N_WORDS * 6

    def _rows(self, low: int, high: int) -> Changes:
        chance = np.random.default_rng([self.sequence, low])
        vectors: Vectors = chance.standard_normal((high - low, _WIDTH), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        # Squared, so that few words are common and most are rare.
        drawn = (chance.random((high - low, _N_WORDS)) ** 2 * _VOCABULARY).astype(np.int64)
        texts = tuple(" ".join(f"w{each:04x}" for each in row) for row in drawn.tolist())
        ids: Ids = np.arange(low + 1, high + 1, dtype=np.int64)
        classes: Ids = ids * 7919 % _N_CLASSES + 1
        return Changes(self.sequence, ids, Rows(ids, classes, ids, vectors, texts))


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found once all was still. held, measured: bytes over the baseline."""

    what: str
    held: int
    measured: int

    @property
    def off_percent(self) -> float:
        """How far the ledger lies from what is measured."""
        return 100 * abs(self.held - self.measured) / max(1, self.measured)

    @property
    def other_percent(self) -> float:
        """How much of what is measured nobody holds."""
        return 100 * max(0, self.measured - self.held) / max(1, self.measured)


def run() -> None:
    """Measure with the rows in memory and with snapshots, and write the report."""
    report = Report.begin("memory")
    if process_memory() is None:
        report.write([], ["all: this system tells nothing of a process's private memory"])
        return
    keep_little()  # as a server does when it starts
    lexicon = Lexicon("english")
    _measure(None, lexicon, 1)  # loads libraries and fills caches: they are the baseline
    rows = _judged("rows in memory", _measure(None, lexicon, _ROUNDS))
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        snapshots = SnapshotFolder(Path(folder), IndexVersion("made-up", _WIDTH, "english"))
        rows += _judged("rows in files", _measure(snapshots, lexicon, _ROUNDS))
    report.write(rows)


def _measure(folder: SnapshotFolder | None, lexicon: Lexicon, n_rounds: int) -> list[Seen]:
    """Load, change so much that parts are merged and swapped, and rebuild, again and again."""
    source = History()
    ledger = Ledger({RAM: _BUDGET_NBYTES})
    baseline = _taken()
    found: list[Seen] = []
    for number in range(n_rounds):
        shelf = Shelf(
            source, lexicon, width=_WIDTH, merge_rows=_MERGE_ROWS, folder=folder,
            room=LedgerRoom(ledger), measure=source.volume,
        )  # fmt: skip
        for what, n_changes, life in (("load", 0, "a"), ("swap", 2, "a"), ("rebuild", 1, "b")):
            for _ in range(max(1, n_changes)):
                source.sequence += bool(n_changes)
                shelf.at("t1", source.sequence, f"{life}{number}")
                shelf.settle()
            _touch(shelf.at("t1", source.sequence, f"{life}{number}"))
            found.append(_seen(f"{what} {number}", ledger, baseline))
        shelf.drop("t1")
        shelf.close()
        del shelf
    found.append(_seen("dropped", ledger, baseline))
    return found


def _judged(what: str, seen: Sequence[Seen]) -> list[Row]:
    *loaded, dropped = seen
    worst = max(loaded, key=lambda each: each.off_percent)
    measured = np.array([each.measured for each in loaded], dtype=np.float64)
    kinds = {name: [e for e in loaded if e.what.startswith(name)] for name in ("load", "rebuild")}
    loads = np.array([each.measured for each in kinds["load"]], dtype=np.float64)
    slope = float(np.polyfit(np.arange(len(loads)), loads, 1)[0]) if len(loads) > 1 else 0.0
    return [
        Row(f"{what}: held, median", float(np.median([e.held for e in loaded])) / 1e6, "MB"),
        Row(f"{what}: measured, median", float(np.median(measured)) / 1e6, "MB"),
        within(f"{what}: ledger off, worst ({worst.what})", worst.off_percent, "%", 10),
        within(f"{what}: held by nobody, worst", max(e.other_percent for e in loaded), "%", 10),
        Row(f"{what}: drift a round, loads", slope / 1e6, "MB"),
        Row(f"{what}: noise of loads (standard deviation)", float(loads.std()) / 1e6, "MB"),
        must_be(f"{what}: held after the drop", float(dropped.held), "B", 0),
        Row(f"{what}: measured after the drop", dropped.measured / 1e6, "MB"),
    ]


def _seen(what: str, ledger: Ledger, baseline: int) -> Seen:
    held = ledger.held()
    nbytes = sum(sum(held.get(device, {}).values()) for device in (RAM, MAPPED))
    return Seen(what, nbytes, _taken() - baseline)


def _touch(index: TenantIndex) -> None:
    """Read every page of what is mapped: only then is it in memory, where it is measured."""
    for part in index.parts:
        columns = part.lexical.columns().values()
        for each in (part.dense.vectors, part.dense.codes.codes, *columns):
            np.asarray(each).view(np.uint8).ravel()[::_PAGE_NBYTES].sum()


def _taken() -> int:
    """Measure private memory and mapped snapshots. Cycles and freed memory are nobody's."""
    gc.collect()
    give_back()
    found = process_memory()
    return (0 if found is None else found.private) + _snapshots()


def _snapshots() -> int:
    """Add up the pages of snapshot files that are mapped, from each mapping's own line.

    Libraries are mapped too, and theirs come and go with what other programs do.
    """
    total, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line[0].islower() or line[0].isdigit():
            ours = _PREFIX in line
        elif ours and line.startswith("Pss:"):
            total += int(line.split()[1]) << 10
    return total
