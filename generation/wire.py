"""Reads what engines send: pieces of an answer, counts of tokens, and errors of many shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from generation.capability import Capability
from generation.errors import EngineBusy, EngineDown, GenerationError, PromptTooLong
from generation.types import Delta, Finish, Usage

if TYPE_CHECKING:
    from openai import OpenAIError
    from openai.types.chat import ChatCompletionChunk

_FINISHES: Mapping[str, Finish] = MappingProxyType(
    {
        "stop": Finish.STOP,
        "eos_token": Finish.STOP,
        "stop_sequence": Finish.STOP,
        "content_filter": Finish.STOP,
        "length": Finish.LENGTH,
        "repetition": Finish.LENGTH,
    }
)


def used(record: Capability, chunk: ChatCompletionChunk) -> Usage | None:
    """Read a chunk's token counts where the record says they stand; None if it has none."""
    usage = getattr(chunk, "usage", None)
    if usage is None:
        return None
    return Usage(
        prompt=usage.prompt_tokens,
        completion=usage.completion_tokens,
        cached=_cached(record, usage),
    )


def said(chunk: ChatCompletionChunk) -> Delta:
    """Read the first choice; the chunk with the usage has none.

    Raises: EngineDown for an error in a chunk's place, and for a finish reason that means the
    answer was broken off.
    """
    # SGLang's and TensorRT-LLM's errors are flat: an object "error", with no field of that name.
    if getattr(chunk, "object", None) == "error":
        raise EngineDown("the engine sent an error in the middle of its answer")
    choices = getattr(chunk, "choices", None) or []
    if not choices:
        return Delta("")
    text = getattr(choices[0].delta, "content", None)
    reason = choices[0].finish_reason
    if reason is not None and reason not in _FINISHES:
        raise EngineDown("the engine broke the answer off, or ended it in a way unknown to us")
    return Delta(text if isinstance(text, str) else "", _FINISHES[reason] if reason else None)


def refused(
    record: Capability, error: OpenAIError | ValueError, context_tokens: int, answer_tokens: int
) -> GenerationError:
    """Name an error by what the caller can do; an engine's words may echo the prompt.

    The body may be an object, flat or nested, or a string: all are searched as text.
    """
    code = getattr(error, "status_code", None)
    if code in record.busy_codes:
        return EngineBusy(f"the engine refused with {code}")
    body = getattr(error, "body", None)
    if record.does_not_fit(code, json.dumps(body, default=str).lower()):
        count = body.get("n_prompt_tokens") if isinstance(body, dict) else None
        found = count if isinstance(count, int) else "too many"
        return PromptTooLong(
            f"the engine's context has {context_tokens} tokens; the prompt has {found} "
            f"and the answer may take {answer_tokens}"
        )
    what = f"answered {code}" if code else f"failed: {type(error).__name__}"
    return EngineDown(f"the engine {what}")


def _cached(record: Capability, usage: object) -> int | None:
    for path in record.cached:
        found: object = usage
        for name in path:
            found = found.get(name) if isinstance(found, dict) else getattr(found, name, None)
        if isinstance(found, int):
            return found
    return None
