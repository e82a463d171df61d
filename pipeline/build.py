"""The one composition root: settings in, everything that serves or ingests out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from acl.audit import AuditLog
from acl.authorize import Authority
from acl.chain import chain_key
from acl.directory import tenants
from acl.session import Database
from generation.capabilities import RECORDS
from generation.types import Engine
from pipeline.admit import Gate
from pipeline.assemble import Assembler
from pipeline.documents import Documents
from pipeline.encoders import Encoders
from pipeline.explaining import Explaining
from pipeline.indexing import build_lines
from pipeline.ledger import RAM, Ledger
from pipeline.loading import load_engine, load_model, note_program
from pipeline.machine import default_budget
from pipeline.making import Maker
from pipeline.memory import Memory
from pipeline.migrate import open_database
from pipeline.models import models_folder, resolve
from pipeline.rights import Rights
from pipeline.room import LedgerRoom
from pipeline.serve import Pipeline
from pipeline.settings import Settings
from pipeline.stages import Stages
from pipeline.telemetry import Meter
from retrieval.chunk import Chunker
from retrieval.encode import Encoder, SentenceEncoder
from retrieval.hashed import HashedEncoder
from retrieval.lists.codes import self_test
from retrieval.parse import ParseLimits
from retrieval.rerank import (
    ChosenReranker,
    CrossEncoderReranker,
    FusionOrder,
    RemoteReranker,
    Reranker,
)
from retrieval.sandbox import Sandbox
from retrieval.words import Lexicon

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class House:
    """All that one serving process holds, with the doors the API needs."""

    settings: Settings
    database: Database
    authority: Authority
    maker: Maker
    pipeline: Pipeline
    documents: Documents
    rights: Rights
    explaining: Explaining
    audit: AuditLog
    sandbox: Sandbox
    memory: Memory
    pool: ThreadPoolExecutor

    def thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run a blocking call in the bounded pool."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self.pool, lambda: call(*args, **kwargs))

    async def ready(self) -> dict[str, str]:
        """Say of each part whether a request would be served: "ok", or what is wrong."""
        try:
            await self.thread(tenants, self.database)
            database = "ok"
        except Exception as failure:
            _log.warning("database is not ready: %s", type(failure).__name__)
            database = "can't be reached"
        engine = "ok" if await self.pipeline.engine.ready() else "does not answer"
        return {"database": database, "engine": engine}

    def metrics(self) -> bytes:
        """Give the operator's metrics in Prometheus' text format."""
        return self.pipeline.meter.text(self.pipeline.stages.lines.current.shelf.held())

    async def close(self) -> None:
        """Let go of engine, workers and connections."""
        await self.pipeline.engine.close()
        self.pipeline.stages.lines.close()
        self.sandbox.close()
        self.pool.shutdown(cancel_futures=True)
        self.audit.close()
        self.database.close()


def build_ledger(settings: Settings) -> Ledger:
    """Make the ledger, with what may be held of memory and of the GPU that the settings name."""
    gpu = {f"gpu:{settings.retrieval.gpu}": settings.retrieval.gpu_nbytes}
    return Ledger({RAM: settings.ram_nbytes or default_budget(), **gpu})


def build_encoder(name: str, threads: int, ledger: Ledger | None = None) -> Encoder:
    """Load an encoder by what settings call it. Raises: ModelMissing; LedgerFull."""
    kind, _, width = name.partition(":")
    if kind == "hashed":
        return HashedEncoder(int(width or 64))
    source = resolve(name, "encoder", models_folder())

    def load() -> Encoder:
        return SentenceEncoder(source, threads=threads)

    return load() if ledger is None else load_model(ledger, "encoder", source, load)


def build_encoders(
    database: Database, threads: int, given: Encoder | None = None, ledger: Ledger | None = None
) -> Encoders:
    """Make what loads the encoders of the index versions."""
    return Encoders(database, lambda name: build_encoder(name, threads, ledger), given)


def build_maker(
    settings: Settings, encoder: Encoder, sandbox: Sandbox, encoders: Encoders
) -> Maker:
    """Put together what turns bytes into passages."""
    chunker = build_chunker(settings, encoder)
    return Maker(sandbox, chunker, encoder, settings.retrieval, encoders.for_all)


def build_chunker(settings: Settings, encoder: Encoder) -> Chunker:
    """Make what cuts documents into passages, counted in an encoder's tokens."""
    retrieval = settings.retrieval
    return Chunker(encoder.tokenizer, retrieval.passage_tokens, retrieval.overlap_tokens)


def build_sandbox(settings: Settings) -> Sandbox:
    """Make the process apart in which files are read."""
    return Sandbox(ParseLimits(file_nbytes=settings.max_upload_bytes))


def build_engine(settings: Settings, ledger: Ledger | None = None) -> Engine:
    """Start the embedded engine, or the client of the one that the settings name.

    Raises: ModelMissing; EngineDown; LedgerFull.
    """
    generation = settings.generation
    if generation.replicas:
        from generation.engine import RemoteEngine
        from generation.replicas import Replicas

        engines = [
            RemoteEngine(
                url,
                RECORDS[generation.kind],
                model="" if generation.model == "default" else generation.model,
                api_key=generation.api_key.get_secret_value(),
                context_tokens=generation.context_tokens,
                cites=generation.cites,
                router=generation.router,
                retry=len(generation.replicas) == 1,
            )
            for url in generation.replicas
        ]
        return engines[0] if len(engines) == 1 else Replicas(engines)
    # xllamacpp is loaded only by those who run the engine in their process.
    from generation.embedded import EmbeddedEngine

    path = Path(resolve(generation.model, "generator", models_folder()))

    def start() -> Engine:
        return EmbeddedEngine(
            path,
            context_tokens=generation.context_tokens,
            slots=generation.slots,
            threads=settings.threads,
            cites=generation.cites,
        )

    if ledger is None:
        return start()
    return load_engine(ledger, path, generation.context_tokens, generation.slots, start)


def build_reranker(settings: Settings) -> Reranker:
    """Make the reranker that the settings name. Raises: ModelMissing."""
    found, chosen = _named_reranker(settings), settings.retrieval.rerank_collections
    if not chosen or found.kind == FusionOrder.kind:
        return found
    return ChosenReranker(found, chosen)


def _named_reranker(settings: Settings) -> Reranker:
    retrieval = settings.retrieval
    if retrieval.reranker == "cross-encoder":
        return CrossEncoderReranker(retrieval.reranker_model)
    if retrieval.reranker == "remote":
        timeout_s = settings.budgets.rerank_ms / 1000
        return RemoteReranker(retrieval.reranker_url, retrieval.reranker_model, timeout_s)
    return FusionOrder()


def build_house(
    settings: Settings,
    *,
    database: Database | None = None,
    encoder: Encoder | None = None,
    engine: Engine | None = None,
    now_s: Callable[[], float] = time.time,
) -> House:
    """Put a serving process together; what is given is used in place of what would be made.

    Opens every tenant's index, so that a stored vector of another encoder is told now.
    Raises: IndexMismatch; IndexUnsound if FAISS fails its self-test; ModelMissing;
    SettingsRefused; StorageFull; EngineDown; LedgerFull if models or engine do not fit.
    """
    self_test()
    secret = settings.secret_bytes()
    database = database or open_database(settings)
    # One thread a question: on a busy host more wait for each other and blow the budget
    # (11-25 ms against 107-224 ms, docs/log.md).
    ledger = build_ledger(settings)
    encoders = build_encoders(database, 1, encoder, ledger)
    encoder = encoders.opening(settings.retrieval.encoder)
    authority = Authority(database, now_s)
    lexicon = Lexicon(settings.retrieval.stem_language)
    reranker = build_reranker(settings)
    note_program(ledger)
    room = LedgerRoom(ledger)
    lines = build_lines(settings, database, encoders, encoder, lexicon, ledger, room)
    log = AuditLog(database, chain_key(secret), now_s)
    log.start()
    meter = Meter()
    pool = ThreadPoolExecutor(settings.max_running + 8, thread_name_prefix="ostiary")
    stages = Stages(database, authority, lines, lexicon, reranker, meter, settings)
    pipeline = Pipeline(
        database=database,
        authority=authority,
        stages=stages,
        assembler=Assembler(database, authority, secret, settings),
        engine=engine or build_engine(settings, ledger),
        gate=Gate(settings.max_running, settings.max_waiting),
        meter=meter,
        pool=pool,
        settings=settings,
        log=log,
    )
    sandbox = build_sandbox(settings)
    maker = build_maker(settings, encoder, sandbox, encoders)
    return House(
        settings=settings,
        database=database,
        authority=authority,
        maker=maker,
        pipeline=pipeline,
        documents=Documents(database, authority, maker, log, now_s, room.upload),
        rights=Rights(database, authority, log, now_s),
        explaining=Explaining(database, authority, log, now_s),
        audit=log,
        sandbox=sandbox,
        memory=Memory(database, ledger, gpu=settings.retrieval.gpu, width=encoder.width),
        pool=pool,
    )  # fmt: skip
