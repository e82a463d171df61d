"""Shows at start whether an engine keeps the cached prefixes of two salts apart."""

from __future__ import annotations

import secrets
from contextlib import aclosing
from enum import StrEnum

from generation.types import Engine, Evidence, Prompt, Sampling, Usage

# The template and a chance first character: never a whole block of any engine.
_TEMPLATE_TOKENS = 12
_WORDS = "The lock keeper notes the level of the water at noon and opens the upper gate. " * 24


class Isolation(StrEnum):
    """What the probe saw. Unknown: the engine caches nothing, or does not tell."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "unknown"


async def probe(engine: Engine, timeout_s: float) -> Isolation:
    """Ask one long prompt under salts A, A and B and read the cached tokens.

    The second must find the prefix of the first, the third must not: an engine that caches
    nothing would pass the latter alone. Raises: what Engine.stream raises.
    """
    mine, other = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    seen: list[int | None] = []
    for salt in (mine, mine, other):
        prompt = Prompt("Answer in one word.", (Evidence(1, "Log", _WORDS),), (), "Ready?", salt)
        cached: int | None = None
        async with aclosing(engine.stream(prompt, Sampling(max_tokens=1), timeout_s)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Usage):
                    cached = piece.cached
        seen.append(cached)
    _, again, foreign = seen
    if foreign is not None and foreign > _TEMPLATE_TOKENS:
        return Isolation.BROKEN
    if foreign is None or again is None or again <= _TEMPLATE_TOKENS:
        return Isolation.UNKNOWN
    return Isolation.HOLDS
