"""Files that are on the disk when a write returns, and whose damage is seen when they are read."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from retrieval.types import Ids

Seal = tuple[int, str]
"""What a file must be like to be trusted: its bytes, and XXH3-128 of them in hex."""


def write(path: Path, content: bytes) -> None:
    """Write a file that only its owner reads, through to the disk."""
    with open(path, "wb", opener=_private) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_array(path: Path, held: NDArray[np.generic]) -> Seal:
    """Write an array as .npy, through to the disk; gives the file's seal."""
    with open(path, "wb", opener=_private) as file:
        np.save(file, held, allow_pickle=False)
    return seal(path)


def seal(path: Path) -> Seal:
    """Bring a file to the disk; gives its seal."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    return measured(path)


def measured(path: Path) -> Seal:
    """Read a file once and give the seal that fits it."""
    nbytes = path.stat().st_size
    if not nbytes:
        return 0, xxhash.xxh3_128_hexdigest(b"")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        return nbytes, xxhash.xxh3_128_hexdigest(whole)


def refuse_damage(folder: Path, files: Mapping[str, Seal]) -> None:
    """Read all files of a folder.

    Raises: ValueError if one is not as it was sealed; OSError if one is not there.
    """
    for name, sealed in files.items():
        found = measured(folder / name)
        if found != sealed:
            raise ValueError(f"{name} has {found[0]} bytes or a checksum that was not written")


def loaded(path: Path) -> Ids:
    """Load a column of int64."""
    held: Ids = np.load(path, allow_pickle=False)
    if held.dtype != np.int64:
        raise ValueError(f"{path.name} holds {held.dtype}; needed int64")
    return held


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
