"""Vectors of a collection's passages, kept: encoding takes minutes, asking again should not."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from retrieval.encode import Encoder
from retrieval.types import Ids, Vectors

_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Passages:
    """Passages in rows: the texts, and the row number of the document of each.

    texts: as the product's lexical leg reads them. shown: as its encoder does.
    """

    texts: tuple[str, ...]
    shown: tuple[str, ...]
    documents: Ids


def cache_folder() -> Path:
    """Give the folder of kept vectors, for its owner alone."""
    folder = user_cache_path("ostiary") / "evals"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def vectors_of(
    encoder: Encoder, shown: Sequence[str], told: Callable[[int], object] = lambda _: None
) -> Vectors:
    """Give float32 [n, d], unit rows, from the cache or encoded; a break loses a chunk at most.

    The name of a kept chunk is a digest of the encoder's name and of its texts, so that what is
    kept can't be another's. Args: told: called with how many were done.
    """
    found = []
    for start in range(0, len(shown), _CHUNK):
        chunk = shown[start : start + _CHUNK]
        digest = hashlib.sha256(encoder.name.encode())
        for text in chunk:
            raw = text.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "big") + raw)
        path = cache_folder() / f"{digest.hexdigest()}.npy"
        if not path.exists():
            _keep(path, encoder.encode_passages(chunk))
        found.append(np.load(path))
        told(len(chunk))
    return np.concatenate(found) if found else np.empty((0, encoder.width), np.float32)


def _keep(path: Path, vectors: Vectors) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        np.save(file, vectors)
    part.replace(path)
