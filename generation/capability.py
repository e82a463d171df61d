"""What each kind of engine understands: the allow-list its requests are built from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from generation.types import Sampling

Field = str | int | float | bool

CACHED = ("prompt_tokens_details", "cached_tokens")


class Route(StrEnum):
    """A door of an engine. What one door allows, another may refuse."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"


class Priority(StrEnum):
    """Which numbers an engine serves first."""

    LOW_FIRST = "low first"
    HIGH_FIRST = "high first"
    UNIT_HIGH_FIRST = "0 to 1, high first"


class Unknown(StrEnum):
    """What an engine does with a body field it does not know."""

    IGNORED = "ignored"
    REFUSED = "refused"
    UNTOLD = "untold"


class Gauge(StrEnum):
    """What we read from an engine's metrics."""

    RUNNING = "running"
    WAITING = "waiting"
    CACHE_USE = "cache use"
    CACHED_TOKENS = "cached tokens"
    PROMPT_TOKENS = "prompt tokens"


@dataclass(frozen=True, slots=True)
class Capability:
    """How one kind of engine is spoken to, and what it says back.

    salt_field: body field of the chat route that isolates the prefix cache; None means that
        the prompt must begin with a secret block instead. salt_pattern: the salts it takes.
    extra: per route, body fields beyond the common ones that the engine understands.
    tokenize_path, tokenize_field: where its own tokenizer is asked (from the server's root)
        and in which field the text stands; None means that tokens are estimated.
    window_field: where an entry of its list of models tells prompt and answer together.
    health_path: from the server's root; None means that the list of models is asked for.
    ready_path: as health_path, but says whether requests are admitted now.
    metrics_path, metrics: Prometheus text, from the root, and the names in it; None: not so.
    cached: paths below `usage` where cached prompt tokens are told, first found; () nowhere.
    cached_flag: the start-up flag without which the engine does not tell them.
    priority: None means that the engine has none.
    busy_codes: HTTP codes that mean "refused for load".
    context_codes, context_marks: codes, and lower-case words in an error body, that together
        mean "does not fit the context".
    usage_in_stream: whether stream_options.include_usage may be sent.
    cites: whether its models set [n] marks that can be relied on.
    """

    kind: str
    salt_field: str | None
    salt_pattern: str
    extra: Mapping[Route, frozenset[str]]
    unknown: Unknown
    tokenize_path: str | None
    tokenize_field: str
    window_field: str
    health_path: str | None
    ready_path: str | None
    metrics_path: str | None
    metrics: Mapping[Gauge, str]
    cached: tuple[tuple[str, ...], ...]
    cached_flag: str
    priority: Priority | None
    busy_codes: frozenset[int]
    context_codes: frozenset[int]
    context_marks: tuple[str, ...]
    usage_in_stream: bool
    cites: bool

    def salted(self, salt: str) -> dict[str, Field]:
        """Give the body field that carries a salt; {} where the first block does.

        Raises: ValueError, which does not tell the salt, if the engine would refuse it.
        """
        if self.salt_field is None or not salt:
            return {}
        if not re.fullmatch(self.salt_pattern, salt):
            raise ValueError(
                f"a salt of {len(salt)} characters is none for {self.kind}, "
                f"needed {self.salt_pattern}"
            )
        return {self.salt_field: salt}

    def does_not_fit(self, code: int | None, said: str) -> bool:
        """Tell by code and lower-case body whether an error is about the context's size.

        No code is an error inside a stream whose status was 200.
        """
        fits_code = code is None or code in self.context_codes
        return fits_code and any(mark in said for mark in self.context_marks)


def chat_body(
    record: Capability,
    model: str,
    messages: list[dict[str, str]],
    sampling: Sampling,
    extra: Mapping[str, Field],
) -> dict[str, object]:
    """Build the body of a streamed chat request from the fields the engine understands.

    Raises: TypeError if extra names a field that the record does not allow.
    """
    unknown = sorted(extra.keys() - record.extra.get(Route.CHAT, frozenset()))
    if unknown:
        raise TypeError(f"fields {unknown} are not understood by an engine of kind {record.kind}")
    body: dict[str, object] = {
        "model": model,
        "messages": messages,
        "stream": True,
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
    }
    if record.usage_in_stream:
        body["stream_options"] = {"include_usage": True}
    neutral = Sampling()
    for name in ("top_p", "presence_penalty", "frequency_penalty"):
        if getattr(sampling, name) != getattr(neutral, name):
            body[name] = getattr(sampling, name)
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    return body | dict(extra)
