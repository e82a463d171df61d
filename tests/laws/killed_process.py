"""A process whose children are killed in the middle of what they do, again and again.

Started by test_snapshot_failpoints: reads one order a line from its standard input, forks a
child for it, and tells what the child acknowledged and how it ended. Forking is what makes
hundreds of kills cheap: imports are paid for once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from retrieval.snapshot import IndexVersion, SnapshotFolder
from retrieval.tenant_index import TenantIndex, merged
from retrieval.types import Changes
from retrieval.words import Lexicon
from tests.laws.failpoints import KILLED, THROUGH, Disk, Failpoints, Order, end_writes_at
from tests.make import make_changes, make_rows, make_units

VERSION = IndexVersion("hashed", 16, "english")
LEXICON = Lexicon()

Tell = Callable[[str], None]


def changes_after(sequence: int) -> Changes:
    """Give the one change that follows a sequence, 0 to 2."""
    if sequence == 0:
        ids = list(range(1, 41))
        texts = [f"pump number{number % 7}" for number in ids]
        return make_changes(make_rows(ids, [number % 5 for number in ids], texts=texts), 1)
    drawn = make_units(2, seed=sequence)
    if sequence == 1:
        rows = make_rows([3, 4], [9, 9], vectors=drawn, texts=["pump", "seal"])
        return make_changes(rows, 2, [5])
    rows = make_rows([51, 52], [0, 9], vectors=drawn, texts=["seal", "valve"])
    return make_changes(rows, 3, [6, 17])


def index_at(sequence: int) -> TenantIndex:
    """Give the index after so many changes, a part for each."""
    index = TenantIndex.empty(VERSION.width)
    for number in range(sequence):
        index = index.apply(changes_after(number), LEXICON, 0)
    return index


def stood(index: TenantIndex) -> dict[int, tuple[int, int, bytes]]:
    """Give all that an index holds: class, document and vector of each id, which is there once."""
    rows: dict[int, tuple[int, int, bytes]] = {}
    for part in index.parts:
        held = part.columns()
        columns = zip(held.ids, held.classes, held.documents, held.vectors, strict=True)
        for number, at, document, vector in columns:
            assert int(number) not in rows
            rows[int(number)] = int(at), int(document), vector.tobytes()
    return rows


def _in_folder(order: Order, points: Failpoints, tell: Tell) -> None:
    snapshots = SnapshotFolder(Path(order.folder), VERSION)
    disk = Disk(Path(order.folder) / "t1", order.power_cut == "renamed")
    points.in_files(disk if order.power_cut else None)
    if order.scenario == "drop":
        snapshots.drop("t1")
    else:
        old = snapshots.open("t1", "life") or index_at(2)
        new = old.apply(changes_after(2), LEXICON, 0)
        # The first part stays as it lies there; the others become one.
        small = new.parts[1:]
        with snapshots.lease("t1") as ours:
            assert ours, "nobody else is there"
            snapshots.save("t1", "life", new.exchanged(small, merged(small)))
    tell(order.scenario)
    points.pass_by()


def _child(order: Order) -> None:
    def tell(said: str) -> None:
        os.write(1, f"told {said}\n".encode())

    points = Failpoints(order.at)
    if order.nbytes >= 0:
        end_writes_at(order.nbytes)
    _in_folder(order, points, tell)


def _ended(order: Order) -> str:
    process = os.fork()
    if process == 0:
        try:
            _child(order)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in {signal.SIGKILL, signal.SIGXFSZ}:
        return KILLED
    return THROUGH if status == 0 else f"failed: {status}"


def main() -> None:
    """Carry out orders until the input ends."""
    for line in sys.stdin:
        ended = _ended(Order(**json.loads(line)))
        sys.stdout.write(f"ended {ended}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
