"""What each kind of engine understands: the allow-list its requests are built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from generation.types import Sampling

Field = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Capability:
    """How one kind of engine is spoken to, and what it says back.

    salt_field: body field that isolates the prefix cache; None means that the prompt must
        begin with a secret block instead.
    extra: body fields beyond the common ones that the engine understands.
    tokenize_path, tokenize_field: where its own tokenizer is asked (from the server's root)
        and in which field the text stands; None means that tokens are estimated.
    health_path: from the server's root; None means that the list of models is asked for.
    busy_codes: HTTP codes that mean "refused for load".
    context_marks: lower-case words in an error body that mean "does not fit the context".
    usage_in_stream: whether stream_options.include_usage may be sent.
    cites: whether its models set [n] marks that can be relied on.
    """

    kind: str
    salt_field: str | None
    extra: frozenset[str]
    tokenize_path: str | None
    tokenize_field: str
    health_path: str | None
    busy_codes: frozenset[int]
    context_marks: tuple[str, ...]
    usage_in_stream: bool
    cites: bool


RECORDS: Mapping[str, Capability] = MappingProxyType(
    {
        "llamacpp": Capability(
            kind="llamacpp",
            salt_field=None,
            extra=frozenset({"id_slot", "cache_prompt"}),
            tokenize_path="/tokenize",
            tokenize_field="content",
            health_path="/health",
            busy_codes=frozenset({429, 503}),
            context_marks=("exceed_context_size_error",),
            usage_in_stream=True,
            cites=False,
        ),
        "vllm": Capability(
            kind="vllm",
            salt_field="cache_salt",
            extra=frozenset({"cache_salt"}),
            tokenize_path="/tokenize",
            tokenize_field="prompt",
            health_path="/health",
            busy_codes=frozenset({429, 503}),
            context_marks=("input_tokens", "input_text", "maximum context length", "max_model_len"),
            usage_in_stream=True,
            cites=True,
        ),
        "openai": Capability(
            kind="openai",
            salt_field=None,
            extra=frozenset(),
            tokenize_path=None,
            tokenize_field="",
            health_path=None,
            busy_codes=frozenset({429, 503}),
            context_marks=("context_length_exceeded", "maximum context length"),
            usage_in_stream=True,
            cites=True,
        ),
    }
)


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
    unknown = sorted(extra.keys() - record.extra)
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
