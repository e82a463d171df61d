"""Where indexes live beside the memory of the process: files, and a GPU."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.metadata import version

from acl.directory import tenants
from acl.session import Database
from acl.versions import all_versions
from pipeline.encoders import Encoders
from pipeline.errors import LedgerFull, SettingsRefused
from pipeline.follow import Follower
from pipeline.ledger import Ledger
from pipeline.lines import Line, Lines
from pipeline.room import LedgerRoom
from pipeline.settings import Settings
from retrieval.embeddings import Corpus
from retrieval.encode import Encoder
from retrieval.index import DensePart
from retrieval.lists.device import DeviceLists, device_count, device_self_test
from retrieval.shelf import Shelf
from retrieval.snapshot import IndexVersion, SnapshotFolder
from retrieval.words import TERMS_RULE, Lexicon

_log = logging.getLogger(__name__)

GPU_ROWS = 50_000
"""A smaller part is searched on the processor as soon as it would be copied there and back."""


def build_snapshots(settings: Settings, name: str, width: int) -> SnapshotFolder:
    """Name where indexes of an encoder are kept as files, and what they must be made by."""
    terms = (f"{package} {version(package)}" for package in ("tokenizers", "PyStemmer"))
    lexicon = f"{settings.retrieval.stem_language} {TERMS_RULE} ({', '.join(terms)})"
    # Two versions may be searched one after the other, each from its own files.
    own = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
    folder = (settings.index_folder or settings.home / "index") / own
    return SnapshotFolder(folder, IndexVersion(name, width, lexicon))


def build_lines(
    settings: Settings,
    database: Database,
    encoders: Encoders,
    encoder: Encoder,
    lexicon: Lexicon,
    ledger: Ledger,
    room: LedgerRoom,
) -> Lines:
    """Open every tenant's index of the live version, and make what opens another's.

    Raises: IndexMismatch if a stored vector is not the encoder's; SettingsRefused; IndexUnsound.
    """
    place = build_placing(settings, ledger)

    def line(encoder: Encoder) -> Line:
        corpus = Corpus(database, encoder.name, encoder.width)
        shelf = Shelf(
            corpus,
            lexicon,
            width=encoder.width,
            merge_rows=settings.retrieval.merge_rows,
            folder=build_snapshots(settings, encoder.name, encoder.width),
            place=place,
            room=room,
            measure=corpus.volume,
        )
        room.ask(shelf.cool)
        follower = Follower(database, shelf)
        for tenant in tenants(database).values():
            try:
                follower.open(tenant)
            except LedgerFull as failure:
                # The others are served; this one's questions are answered with the same fault.
                _log.error("the index of tenant %s is not opened: %s", tenant, failure)
        follower.start()
        return Line(encoder, shelf, follower)

    def another(number: int) -> Line:
        found = next(each for each in all_versions(database) if each.id == number)
        return line(encoders.of(found))

    live = next((each for each in all_versions(database) if each.live), None)
    return Lines(line(encoder), live.id if live else 0, another)


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
