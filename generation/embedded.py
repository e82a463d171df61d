"""llama.cpp in this process; the only importer of xllamacpp.

The server listens on the loopback with a random port and key, shares nothing between slots,
and shows nothing of what it holds.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from generation.capabilities import RECORDS
from generation.engine import RemoteEngine
from generation.errors import EngineDown
from generation.slots import SlotBook
from generation.template import messages
from generation.types import Delta, Prompt, Sampling, Usage

if TYPE_CHECKING:
    import xllamacpp


class EmbeddedEngine:
    """A llama.cpp server of our own, whose slots are pinned to salts.

    A slot that changes hands shares only the chat template's first tokens with its former
    owner, since every prompt begins with the secret block of its salt. A request that finds
    all slots busy waits up to queue_s, then EngineBusy.

    Args: threads: None takes all CPU cores. context_tokens: of each slot.
    Raises: FileNotFoundError if there is no model file; EngineDown if it can't be loaded.
    """

    def __init__(
        self,
        model_path: Path,
        *,
        context_tokens: int = 2048,
        slots: int = 4,
        threads: int | None = None,
        cites: bool | None = None,
        queue_s: float = 5.0,
    ) -> None:
        if not model_path.is_file():
            raise FileNotFoundError(f"no model file at {model_path}")
        self._path = model_path
        self._context_tokens = context_tokens
        self._n_slots = slots
        self._threads = threads or os.cpu_count() or 1
        self._cites = RECORDS["embedded"].cites if cites is None else cites
        self._queue_s = queue_s
        self._book = SlotBook(slots)
        self._starting = asyncio.Lock()
        self._server: xllamacpp.Server | None = None
        self._key = ""
        self._closed = False
        self._start()
        self._remote = self._connect()

    @property
    def model(self) -> str:
        """The name of the model file, without its ending."""
        return self._path.stem

    @property
    def context_tokens(self) -> int:
        """How many tokens prompt and answer may have together."""
        return self._context_tokens

    @property
    def cites(self) -> bool:
        """Whether the model's own [n] marks can be relied on."""
        return self._cites

    @property
    def address(self) -> str:
        """Where the server listens, e.g. http://127.0.0.1:40123; "" when it does not run."""
        return str(self._server.listening_address) if self._server is not None else ""

    async def stream(
        self, prompt: Prompt, sampling: Sampling, timeout_s: float
    ) -> AsyncGenerator[Delta | Usage, None]:
        """Give the answer's text as it comes, then its usage; see Engine.stream."""
        clock = asyncio.get_running_loop().time
        until = clock() + timeout_s
        remote = self._remote
        laid = "".join(m["content"] for m in messages(prompt, block=True, cites=self._cites))
        slot = await self._book.take(prompt.salt, laid, min(timeout_s, self._queue_s))
        try:
            extra = {"id_slot": slot, "cache_prompt": True}
            async with aclosing(remote.stream(prompt, sampling, until - clock(), extra)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self._book.give_back(slot)

    async def count_tokens(self, text: str) -> int:
        """Count the model's own tokens. Raises: EngineDown, TimeoutError."""
        return await self._remote.count_tokens(text)

    async def ready(self) -> bool:
        """Say whether the server answers; one that has died is started anew first."""
        if self._closed:
            return False
        if not await self._listens():
            await self.restart()
        return await self._remote.ready()

    async def restart(self) -> None:
        """Start the server anew, unless it listens. Raises: EngineDown if it can't be."""
        async with self._starting:
            if self._closed or await self._listens():
                return
            stale, self._server = self._remote, None
            await asyncio.to_thread(self._start)
            self._remote = self._connect()
            self._book.forget()
            await stale.close()

    async def close(self) -> None:
        """Stop the server and free its memory."""
        async with self._starting:
            self._closed = True
            await self._remote.close()
            server, self._server = self._server, None
            # The last reference goes in the thread: stopping joins the server's threads.
            await asyncio.to_thread(_drop, [server])

    def _start(self) -> None:
        import xllamacpp

        self._key = secrets.token_urlsafe(32)
        params = xllamacpp.CommonParams()
        params.model.path = str(self._path)
        params.n_ctx = self._n_slots * self._context_tokens
        params.n_parallel = self._n_slots
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self._threads
        params.fit_params = False
        # What slots could share: a prompt cache in RAM, idle slots put into it, choice of a
        # slot by likeness (id_slot pins instead), one pool of cells.
        params.cache_ram_mib = 0
        params.cache_idle_slots = False
        params.slot_prompt_similarity = 0.0
        params.kv_unified = False
        # Who could look in: only holders of the key, and of these doors only the needed.
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [self._key]
        params.cors_origins = ""
        params.cors_credentials = False
        params.endpoint_slots = False
        params.endpoint_props = False
        params.endpoint_metrics = False
        params.ui = False
        params.verbosity = -1  # prompts would be in its log
        try:
            self._server = xllamacpp.Server(params)
        except (RuntimeError, ValueError) as error:
            raise EngineDown(f"llama.cpp could not load {self._path.name}") from error

    def _connect(self) -> RemoteEngine:
        return RemoteEngine(
            f"{self.address}/v1",
            RECORDS["embedded"],
            model=self.model,
            api_key=self._key,
            context_tokens=self._context_tokens,
            cites=self._cites,
            direct=True,
        )

    async def _listens(self) -> bool:
        """Say whether the port is open: a busy server is slow to answer, a dead one is not."""
        host, _, port = self.address.rpartition("/")[2].partition(":")
        if not port:
            return False
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return False
        writer.close()
        return True


def _drop(held: list[xllamacpp.Server | None]) -> None:
    held.clear()
