"""The evidence of an answer under watch: no byte leaves on a check older than 100 ms (law 4)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TypeVar

from acl.authorize import Authority
from acl.errors import UnknownPrincipal
from acl.session import Database, counters
from acl.types import AccessScope, Counters
from pipeline.errors import EvidenceRevoked
from retrieval import corpus

T = TypeVar("T")

# Half of what the law allows: the rest is for the check itself and a busy event loop.
CHECK_EVERY_S = 0.05


class Watch:
    """Checks again and again that a principal may read what an answer rests on."""

    def __init__(
        self, database: Database, authority: Authority, scope: AccessScope, passages: frozenset[int]
    ) -> None:  # fmt: skip
        self._database = database
        self._authority = authority
        self._scope = scope
        self._passages = passages
        self._good_at: Counters | None = None
        self._good_until_s = 0.0

    def check(self) -> None:
        """Check in a new snapshot. One short query when nothing has changed since the last.

        Raises: EvidenceRevoked if anything of it is gone, moved out of reach, or the
        principal or key is no longer valid.
        """
        principal = self._scope.principal
        with self._database.reading(principal.tenant) as session:
            now = counters(session)
            if now == self._good_at and time.time() < self._good_until_s:
                return
            try:
                scope = self._authority.mint_in(session, principal)
            except UnknownPrincipal as failure:
                raise EvidenceRevoked("the right to this answer has ended") from failure
            standing = corpus.standing(session, self._passages, scope)
        if standing.keys() != self._passages:
            raise EvidenceRevoked("the right to this answer has ended")
        self._good_at, self._good_until_s = now, scope.valid_until_s


async def watched(
    pieces: AsyncGenerator[T, None],
    watch: Watch,
    run: Callable[[Callable[[], None]], Awaitable[None]],
) -> AsyncGenerator[T, None]:
    """Pass pieces on, each under a check not older than the law allows.

    Between pieces the check goes on, so that an engine at work on evidence that was revoked
    is stopped without waiting for its next word. Closing this generator closes `pieces`.
    """
    async with aclosing(pieces):
        checked = time.monotonic()
        await run(watch.check)
        while True:
            coming = asyncio.ensure_future(anext(pieces))
            try:
                while not coming.done():
                    await asyncio.wait({coming}, timeout=CHECK_EVERY_S)
                    if time.monotonic() - checked >= CHECK_EVERY_S:
                        checked = time.monotonic()
                        await run(watch.check)
            finally:
                if not coming.done():
                    coming.cancel()
                    with suppress(asyncio.CancelledError, Exception):
                        await coming
            try:
                piece = coming.result()
            except StopAsyncIteration:
                return
            yield piece
            # The reader may have been slow to take the piece: look again before the next one.
            if time.monotonic() - checked >= CHECK_EVERY_S:
                checked = time.monotonic()
                await run(watch.check)
