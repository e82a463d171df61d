"""Where indexes live beside the memory of the process: files, and a GPU."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.metadata import version

from pipeline.errors import LedgerFull, SettingsRefused
from pipeline.ledger import Ledger
from pipeline.settings import Settings
from retrieval.encode import Encoder
from retrieval.index import DensePart
from retrieval.lists.device import DeviceLists, device_count, device_self_test
from retrieval.snapshot import IndexVersion, SnapshotFolder
from retrieval.words import TERMS_RULE

_log = logging.getLogger(__name__)

GPU_ROWS = 50_000
"""A smaller part is searched on the processor as soon as it would be copied there and back."""


def build_snapshots(settings: Settings, encoder: Encoder) -> SnapshotFolder:
    """Name where indexes are kept as files, and what they must have been made by."""
    terms = (f"{package} {version(package)}" for package in ("tokenizers", "PyStemmer"))
    lexicon = f"{settings.retrieval.stem_language} {TERMS_RULE} ({', '.join(terms)})"
    folder = settings.index_folder or settings.home / "index"
    return SnapshotFolder(folder, IndexVersion(encoder.name, encoder.width, lexicon))


def build_placing(settings: Settings, ledger: Ledger) -> Callable[[DensePart], DensePart] | None:
    """Make what puts big parts of indexes on the GPU that the settings name.

    Raises: SettingsRefused if there is no such GPU or FAISS is built without; IndexUnsound if
    the device fails its self-test; LedgerFull if there is not even room for that.
    """
    gpu = settings.retrieval.gpu
    if gpu is None:
        return None
    if gpu >= device_count():
        raise SettingsRefused(
            f"OSTIARY_RETRIEVAL__GPU is {gpu}; this build of FAISS sees {device_count()} GPUs "
            "(it needs the extra `gpu` in place of `cpu`)"
        )

    def hold(owner: str, nbytes: int) -> AbstractContextManager[None]:
        return ledger.hold(f"gpu:{gpu}", owner, nbytes)

    device_self_test(gpu, hold)

    def place(part: DensePart) -> DensePart:
        if part.device is not None or part.layout.n_rows < GPU_ROWS:
            return part
        try:
            return replace(part, device=DeviceLists(part.layout.starts, part.vectors, gpu, hold))
        except LedgerFull as failure:
            _log.warning("a part of an index stays off the GPU: %s", failure)
            return part

    return place
