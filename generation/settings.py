"""The knobs of generation, as values; `pipeline.settings` reads them from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """Which engine answers, and what its answers may contain.

    base_url: OpenAI-protocol address of an engine, e.g. http://localhost:8000/v1, or those of
        several replicas, with commas between; empty for the embedded llama.cpp.
    router: the fleet router behind base_url, for the session header that it understands.
    kind: the capability record of the engine behind base_url.
    model: embedded: "default", or the path of a GGUF file; remote: the model's name,
        "default" for the first one that the engine lists.
    api_key: bearer token for the engine.
    context_tokens: prompt and answer together; for the embedded engine also per slot.
    slots: how many answers the embedded engine makes at once.
    max_tokens: the longest answer given when the caller does not say.
    link_hosts: hosts whose links and images survive in answers.
    max_sentences: where an answer is ended; 0 sets no limit. None is 2 for the embedded engine,
        whose small model does not see where to stop, and no limit for others.
    cites: whether the model's own [n] marks are trusted; None leaves it to the record.
    """

    base_url: str = ""
    kind: Literal[
        "vllm",
        "sglang",
        "trtllm",
        "tgi",
        "nim1",
        "nim2-vllm",
        "nim2-sglang",
        "triton",
        "llamacpp",
        "openai",
    ] = "vllm"
    router: Literal["", "llm-d", "vllm-router", "production-stack", "aibrix", "sglang", "ray"] = ""
    model: str = "default"
    api_key: SecretStr = SecretStr("")
    context_tokens: int = 2048
    slots: int = 4
    max_tokens: int = 160
    link_hosts: tuple[str, ...] = ()
    max_sentences: int | None = None
    cites: bool | None = None

    @property
    def replicas(self) -> tuple[str, ...]:
        """The addresses in base_url, each once; none for the embedded engine."""
        return tuple(dict.fromkeys(u.strip() for u in self.base_url.split(",") if u.strip()))

    @property
    def sentences(self) -> int:
        """The limit that holds: 0 for none."""
        if self.max_sentences is not None:
            return self.max_sentences
        return 0 if self.base_url else 2
