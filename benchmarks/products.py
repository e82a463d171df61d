"""Products of others, each asked in a process and an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from retrieval.types import Ids, Vectors

_LIMIT_S = 900


class LeftOut(Exception):
    """A product that could not be asked; says why."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who asks. allowed: classes. permitted: rows. vectors: float32 [n, d], questions."""

    allowed: Ids
    permitted: Ids
    vectors: Vectors


def ask_product(
    name: str, vectors: Vectors, classes: Ids, asked: Mapping[str, Sequence[Reader]]
) -> dict[str, list[tuple[Ids, float]]]:
    """Give a product's answers, question by question: rows, and the milliseconds each took.

    Args: asked: by share, the readers and their questions.
    Raises: LeftOut if the product can't be installed, or load and answer in time.
    """
    with tempfile.TemporaryDirectory(prefix="ostiary-peers-") as space:
        folder = Path(space)
        np.save(folder / "vectors.npy", vectors)
        np.save(folder / "classes.npy", classes)
        held: dict[str, np.ndarray] = {}
        for share, readers in asked.items():
            held[f"{share}/n"] = np.array(len(readers))
            for number, reader in enumerate(readers):
                held[f"{share}/{number}/classes"] = reader.allowed
                held[f"{share}/{number}/vectors"] = reader.vectors
        np.savez(folder / "questions.npz", **held)  # type: ignore[arg-type]
        try:
            command = [str(_python()), "-W", "ignore", "-m", "benchmarks.peers", name, space]
            subprocess.run(  # noqa: S603 - a program of ours in an environment of ours
                command, check=True, capture_output=True, timeout=_LIMIT_S
            )
            found = json.loads((folder / f"{name}.json").read_text())
        except (subprocess.SubprocessError, OSError) as failure:
            raise LeftOut(f"{name}: {_reason(failure)}") from failure
    return {
        share: [
            (np.array(rows, dtype=np.int64), spent_ms)
            for rows, spent_ms in zip(each["answers"], each["times_ms"], strict=True)
        ]
        for share, each in found["buckets"].items()
    }


def _reason(failure: Exception) -> str:
    if isinstance(failure, subprocess.CalledProcessError):
        lines = failure.stderr.decode(errors="replace").strip().splitlines()
        return f"failed: {lines[-1] if lines else failure.returncode}"
    if isinstance(failure, subprocess.TimeoutExpired):
        return f"took longer than {failure.timeout} s to load and answer"
    return str(failure)


def _python() -> Path:
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
