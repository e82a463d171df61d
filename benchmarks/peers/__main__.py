"""Runs one peer over the questions in a folder."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.peers import engines

DEPTH = 10


def main() -> None:
    """Load, ask, time, write."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    classes = np.load(folder / "classes.npy")
    held = np.load(folder / "questions.npz")
    with tempfile.TemporaryDirectory(prefix="ostiary-peer-") as space:
        began = time.perf_counter()
        peer = engines.PEERS[name](vectors, classes, Path(space))
        loaded_s = time.perf_counter() - began
        found: dict[str, object] = {"loaded_s": loaded_s, "buckets": {}}
        for bucket in sorted({key.partition("/")[0] for key in held.files}):
            found["buckets"][bucket] = _asked(peer, held, bucket)  # type: ignore[index]
        found["nbytes"] = peer.nbytes()
        peer.close()
    (folder / f"{name}.json").write_text(json.dumps(found))


def _asked(peer: engines.Peer, held: np.lib.npyio.NpzFile, bucket: str) -> dict[str, object]:
    times_ms, answers = [], []
    for number in range(int(held[f"{bucket}/n"])):
        allowed = held[f"{bucket}/{number}/classes"]
        for vector in held[f"{bucket}/{number}/vectors"]:
            began = time.perf_counter()
            rows = peer.search(vector, allowed, DEPTH)
            times_ms.append((time.perf_counter() - began) * 1000)
            answers.append([int(row) for row in rows])
    return {"times_ms": times_ms, "answers": answers}


if __name__ == "__main__":
    main()
