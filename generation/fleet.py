"""What keeps requests of one salt and prefix together, and what engines say of their load."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

from prometheus_client.parser import text_string_to_metric_families

from generation.types import Prompt

# The header by which each router keeps a session on one replica; docs/engines.md names the
# sources. Ray Serve LLM goes by the prompt's text and needs none.
_SESSION_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "llm-d": "x-session-id",
        "vllm-router": "X-Session-ID",
        "production-stack": "x-session-id",
        "aibrix": "x-aibrix-session-key",
        "sglang": "x-smg-routing-key",
    }
)
_KEY_NBYTES = 16


def affinity(prompt: Prompt) -> str:
    """Name the salt and the prefix that a prompt begins with, without telling either.

    The prefix is the system text and the first passage: prompts that go on differently share
    that much at least.

    Returns: 32 hexadecimal characters.
    """
    digest = hashlib.blake2b(digest_size=_KEY_NBYTES, key=prompt.salt.encode()[:64])
    for part in (prompt.system, *(e.text for e in prompt.evidence[:1])):
        raw = part.encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()


def session_headers(router: str, prompt: Prompt) -> dict[str, str]:
    """Give the header that a fleet router keeps sessions by; {} for none.

    Routers that match text see no salt: without it they would send one tenant's prompt to
    where another's is cached, in vain.
    """
    name = _SESSION_HEADERS.get(router)
    return {name: affinity(prompt)} if name else {}


def gauge(text: str, *names: str) -> float | None:
    """Add up metrics of these exact names, over all labels, in Prometheus text.

    Returns: None if none of them is there or one has no number.
    """
    # Parsed by the library, but only what may be meant: engines tell thousands of lines.
    lines = (line for line in text.splitlines() if line.startswith(names))
    try:
        found = [
            sample.value
            for family in text_string_to_metric_families("\n".join(lines))
            for sample in family.samples
            if sample.name in names
        ]
    except ValueError:
        return None
    return sum(found) if found else None
