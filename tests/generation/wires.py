"""What each engine sends and refuses on the wire, and a fake as strict as the engine.

The shapes are those read in the engines' sources (docs/engines.md); what was read in
documentation alone says so in that page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tests.generation.fake_server import ALLOWED, END, WORDS, FakeServer, event, word

_CHUNK = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


@dataclass(frozen=True, slots=True)
class Wire:
    """One engine's shapes.

    allowed: body fields of its chat route; unknown: what it answers to others, None where it
    ignores them. details: what its usage says beyond the three counts of tokens, and cached
    what that means. too_long, busy: status and body. midway: the events of an error after
    words. health: the path that says whether it admits requests.
    """

    kind: str
    allowed: frozenset[str]
    unknown: tuple[int, object] | None
    details: Mapping[str, object]
    cached: int | None
    too_long: tuple[int, object]
    busy: tuple[int, object]
    midway: tuple[str, ...]
    health: str
    metrics: tuple[str, str] | None = None
    forbidden_in_salt: str = ""
    salt_chars: int = 0


def nested(message: str, type: str, code: int | str, **more: object) -> dict[str, object]:
    """Give the error body of OpenAI and vLLM."""
    return {"error": {"message": message, "type": type, "code": code, **more}}


def flat(message: str, type: str, code: int) -> dict[str, object]:
    """Give the error body of SGLang and TensorRT-LLM."""
    return {"object": "error", "message": message, "type": type, "param": None, "code": code}


_TOLD = {"prompt_tokens_details": {"cached_tokens": 4}}
_DONE = "data: [DONE]\n\n"
_BOOM = nested("boom", "InternalServerError", 500)
_SALTED = ALLOWED | {"cache_salt", "priority"}

VLLM = Wire(
    kind="vllm",
    allowed=_SALTED,
    unknown=None,
    details={"prompt_tokens_details": {"cached_tokens": 4, "created_cache_tokens": None}},
    cached=4,
    too_long=(400, nested("too many tokens", "BadRequestError", 400, param="input_tokens")),
    busy=(503, nested("queue", "Service Unavailable", 503, param=None)),
    midway=(": keep-alive\n\n", event(_BOOM), _DONE),
    health="/health",
    metrics=("/metrics", 'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n'),
    forbidden_in_salt="@/\\\0",
    salt_chars=128,
)
SGLANG = Wire(
    kind="sglang",
    allowed=_SALTED | {"extra_key"},
    unknown=None,
    details=_TOLD,
    cached=4,
    too_long=(400, flat("is longer than the model's context length", "BadRequest", 400)),
    busy=(503, flat("The request queue is full.", "ServiceUnavailable", 503)),
    midway=(event({"error": flat("boom", "InternalServerError", 500)}), _DONE),
    health="/ready",
    metrics=("/metrics", 'sglang:num_running_reqs{model_name="m"} 3.0\n'),
)
TRTLLM = Wire(
    kind="trtllm",
    allowed=_SALTED,
    unknown=(400, {"error": "Extra inputs are not permitted"}),
    details=_TOLD,
    cached=4,
    too_long=(400, flat("The sum should not exceed max_num_tokens (512)", "BadRequest", 400)),
    busy=(503, flat("not ready", "ServiceUnavailable", 503)),
    midway=(event(flat("boom", "InternalServerError", 500)), _DONE),
    health="/health",
    metrics=("/prometheus/metrics", "trtllm_num_requests_running 3.0\n"),
)
TGI = Wire(
    kind="tgi",
    allowed=ALLOWED,
    unknown=None,
    details={},
    cached=None,
    too_long=(422, {"error": "`inputs` must have less than 9", "error_type": "validation"}),
    busy=(429, {"error": "Model is overloaded", "error_type": "overloaded"}),
    midway=(event({"error": "boom", "error_type": "generation"}),),
    health="/health",
    metrics=("/metrics", "tgi_batch_current_size 3\n"),
)
NIM_1 = Wire(
    kind="nim1",
    allowed=ALLOWED,
    unknown=(400, nested("unknown", "BadRequestError", 400)),
    details={},
    cached=None,
    too_long=(400, nested("maximum context length is 512", "BadRequestError", 400)),
    busy=(503, nested("busy", "ServiceUnavailableError", 503)),
    midway=(event(_BOOM), _DONE),
    health="/v1/health/ready",
    metrics=("/v1/metrics", "num_requests_running 3\n"),
)
NIM_VLLM = replace(
    VLLM,
    kind="nim2-vllm",
    health="/v1/health/ready",
    metrics=("/v1/metrics", "vllm:num_requests_running 3.0\n"),
)
NIM_SGLANG = replace(
    SGLANG,
    kind="nim2-sglang",
    health="/v1/health/ready",
    metrics=("/v1/metrics", "sglang:num_running_reqs 3.0\n"),
)
TRITON = Wire(
    kind="triton",
    allowed=ALLOWED,
    unknown=(422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "cache_salt"]}]}),
    details={},
    cached=None,
    too_long=(400, {"detail": "maximum context length is 512 tokens"}),
    busy=(503, {"detail": "busy"}),
    midway=("die",),
    health="/health/ready",
)
LLAMACPP = Wire(
    kind="llamacpp",
    allowed=ALLOWED | {"id_slot", "cache_prompt"},
    unknown=None,
    details={**_TOLD, "timings": {"cache_n": 4, "prompt_n": 3}},
    cached=4,
    too_long=(
        400,
        nested("too large", "exceed_context_size_error", 400, n_prompt_tokens=700, n_ctx=512),
    ),
    busy=(503, nested("Loading model", "unavailable_error", 503)),
    midway=(event(nested("boom", "server_error", 500)),),
    health="/health",
    metrics=("/metrics", "llamacpp:requests_processing 3\n"),
)
OPENAI = Wire(
    kind="openai",
    allowed=ALLOWED,
    unknown=(400, nested("Unrecognized argument", "invalid_request_error", "unknown")),
    details=_TOLD,
    cached=4,
    too_long=(400, nested("too long", "invalid_request_error", "context_length_exceeded")),
    busy=(429, nested("Rate limit", "requests", "rate_limit_exceeded")),
    midway=(event(nested("boom", "server_error", "server_error")),),
    health="/v1/models",
)
DEEPSEEK = replace(
    OPENAI,
    details={"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 3},
)
WIRES = {
    "vllm": VLLM,
    "sglang": SGLANG,
    "trtllm": TRTLLM,
    "tgi": TGI,
    "nim1": NIM_1,
    "nim2-vllm": NIM_VLLM,
    "nim2-sglang": NIM_SGLANG,
    "triton": TRITON,
    "llamacpp": LLAMACPP,
    "openai": OPENAI,
    "deepseek": DEEPSEEK,
}


class StrictEngine(FakeServer):
    """Serves one wire: what the engine refuses is refused, in the engine's shape."""

    def __init__(self, wire: Wire, script: tuple[str | float, ...] | None = None) -> None:
        counts = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        last = event(_CHUNK | {"choices": [], "usage": counts | dict(wire.details)})
        whole = (*WORDS, word("", "stop"), last, END[-1])
        super().__init__(whole if script is None else script, allowed=wire.allowed)
        self.wire = wire

    async def _answer(
        self,
        path: str,
        body: dict[str, object],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        wire = self.wire
        if wire.metrics and path == wire.metrics[0]:
            return self._text(writer, wire.metrics[1])
        if path == wire.health != "/v1/models":
            return self._whole(writer, self.status, {})
        if not path.endswith(("/models", "/tokenize", "/chat/completions")):
            return self._whole(writer, 404, {"detail": "Not Found"})
        if not path.endswith("/chat/completions") or self.status != 200:
            return await super()._answer(path, body, reader, writer)
        refusal = self._refuses(body)
        if refusal:
            self.bodies.append(body)
            return self._whole(writer, *refusal)
        self.allowed = frozenset(body)
        return await super()._answer(path, body, reader, writer)

    def _refuses(self, body: dict[str, object]) -> tuple[int, object] | None:
        wire = self.wire
        if body.keys() - wire.allowed and wire.unknown:
            return wire.unknown
        if "stream_options" in body and not body.get("stream"):
            return 400, nested("stream options without stream", "BadRequestError", 400)
        salt = body.get("cache_salt")
        if wire.salt_chars and salt is not None:
            bad: Callable[[str], bool] = wire.forbidden_in_salt.__contains__
            if not 1 <= len(str(salt)) <= wire.salt_chars or any(map(bad, str(salt))):
                return 400, nested("cache_salt", "BadRequestError", 400, param="cache_salt")
        return None

    def _text(self, writer: asyncio.StreamWriter, text: str) -> None:
        writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {len(text)}\r\n"
            f"connection: close\r\n\r\n{text}".encode()
        )
