"""Four server processes, a bulk ingest, and a right taken away: how soon, and is it gone?"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from acl.session import Database
from benchmarks.report import Report, Row, must_be, percentile, within
from tests.api.houses import open_home
from tests.databases import fresh_sqlite, running_postgres
from tests.laws.processes import N_PROCESSES, Rounds, take_and_give

N_ROUNDS, N_BETWEEN = 100, 28
ACKNOWLEDGED_MS = 250


def run() -> None:
    """Measure and write results/revocation.json; OSTIARY_BENCH_ROUNDS for fewer rounds."""
    report, rows, left_out = Report.begin("revocation"), [], []
    with tempfile.TemporaryDirectory() as folder:
        rows += _measured("SQLite", fresh_sqlite(Path(folder)))
    try:
        with running_postgres() as server:
            rows += _measured("PostgreSQL", server.fresh())
    except pytest.skip.Exception as reason:
        left_out.append(f"PostgreSQL: {reason}")
    report.write(rows, left_out)


def _measured(named: str, database: Database) -> list[Row]:
    n_rounds = int(os.environ.get("OSTIARY_BENCH_ROUNDS", N_ROUNDS))
    with (
        tempfile.TemporaryDirectory() as folder,
        open_home(Path(folder), database=database) as home,
    ):
        rounds = take_and_give(home, Path(folder), n_rounds, N_BETWEEN)
    return [replace(row, measure=f"{named}: {row.measure}") for row in _rows(rounds)]


def _rows(rounds: Rounds) -> list[Row]:
    if rounds.failed:
        raise RuntimeError(f"{len(rounds.failed)} requests failed, the first: {rounds.failed[0]}")
    if not all(any(saw for *_, saw in process) for process in rounds.asked):
        raise RuntimeError("a process never saw the secret while it had the right: no control")
    inside = rounds.inside()
    took_ms = [1000 * each for each in rounds.acknowledged_s]
    return [
        Row(f"requests of {N_PROCESSES} processes after an acknowledgement", len(inside), ""),
        must_be("of these used the right", sum(inside), "", 0),
        Row("documents written meanwhile", rounds.n_written, ""),
        Row("acknowledged: p50", percentile(took_ms, 50), "ms"),
        within("acknowledged: p99", percentile(took_ms, 99), "ms", ACKNOWLEDGED_MS),
        Row("acknowledged: worst", max(took_ms), "ms"),
    ]
