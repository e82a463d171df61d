"""Engines behind the OpenAI protocol. Prompts, salts and keys never reach a log or an error."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, cast

from generation.capability import Capability, Field, chat_body
from generation.errors import EngineBusy, EngineDown, GenerationError, PromptTooLong
from generation.template import messages
from generation.types import Delta, Finish, Prompt, Sampling, Usage

if TYPE_CHECKING:
    from openai import AsyncStream, OpenAIError
    from openai.types.chat import ChatCompletionChunk

T = TypeVar("T")

_CONNECT_S = 5.0
_ASK_S = 10.0
_NO_FIELDS: Mapping[str, Field] = MappingProxyType({})
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


class RemoteEngine:
    """An engine that speaks the OpenAI protocol, as its capability record says.

    base_url ends in the version, e.g. http://localhost:8000/v1. An empty model is the first
    one that the engine lists, known once `ready` has said so or a stream has begun. `direct`
    goes past any proxy of the environment. No redirect is followed, and nothing is retried but a
    connection that broke before the first byte of an answer, once.
    """

    def __init__(
        self,
        base_url: str,
        record: Capability,
        *,
        model: str = "",
        api_key: str = "",
        context_tokens: int,
        cites: bool | None = None,
        direct: bool = False,
    ) -> None:
        import openai  # half a second that importing this package should not cost

        timeout = openai.Timeout(None, connect=_CONNECT_S)
        self._client = openai.AsyncOpenAI(
            base_url=base_url,
            api_key=api_key or "none",
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAsyncHttpxClient(
                trust_env=not direct, follow_redirects=False, timeout=timeout
            ),
        )
        self._OpenAIError = openai.OpenAIError
        self._APIConnectionError = openai.APIConnectionError
        self._APITimeoutError = openai.APITimeoutError
        self._root = base_url.rstrip("/").removesuffix("/v1")
        self._record = record
        self._model = model
        self._context_tokens = context_tokens
        self._cites = record.cites if cites is None else cites

    @property
    def model(self) -> str:
        """The name of the model, as it is told to callers."""
        return self._model

    @property
    def context_tokens(self) -> int:
        """How many tokens prompt and answer may have together."""
        return self._context_tokens

    @property
    def cites(self) -> bool:
        """Whether the model's own [n] marks can be relied on."""
        return self._cites

    async def stream(
        self,
        prompt: Prompt,
        sampling: Sampling,
        timeout_s: float,
        extra: Mapping[str, Field] = _NO_FIELDS,
    ) -> AsyncGenerator[Delta | Usage, None]:
        """Give the answer's text as it comes, then its usage; see Engine.stream.

        Closing the generator closes the HTTP response at once, which stops the engine.
        `extra` holds fields that the record allows; the salt is added here.
        """
        until = asyncio.get_running_loop().time() + timeout_s
        chunks: AsyncStream[ChatCompletionChunk] | None = None
        finished = False
        usage: Usage | None = None
        try:
            async with asyncio.timeout_at(until):
                chunks = await self._twice(partial(self._open, prompt, sampling, extra))
            while True:
                # Not around the yield: a timeout must not be open while the caller runs.
                async with asyncio.timeout_at(until):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    break
                usage = _usage(chunk) or usage
                delta = _delta(chunk)
                finished = finished or delta.finish is not None
                if delta.text or delta.finish:
                    yield delta
        except (self._OpenAIError, ValueError) as error:
            raise self._translate(error, sampling) from None
        finally:
            if chunks is not None:
                await chunks.close()
        if not finished:
            raise EngineDown("the engine's stream ended without a finish reason")
        if usage is not None:
            yield usage

    async def count_tokens(self, text: str) -> int:
        """Count the engine's own tokens; without its tokenizer, estimate on the high side.

        The estimate is a token per 3 ASCII characters and per 2 bytes of all others.
        Raises: EngineDown, EngineBusy, TimeoutError.
        """
        if self._record.tokenize_path is None:
            n_ascii = sum(c.isascii() for c in text)
            return math.ceil(n_ascii / 3 + (len(text.encode()) - n_ascii) / 2)
        body: dict[str, object] = {self._record.tokenize_field: text}
        try:
            async with asyncio.timeout(_ASK_S):
                answer = await self._twice(partial(self._post, self._record.tokenize_path, body))
        except (self._OpenAIError, ValueError) as error:
            raise self._translate(error, Sampling()) from None
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(tokens, list):
            raise EngineDown("the engine's tokenizer gave no list of tokens")
        return len(tokens)

    async def ready(self) -> bool:
        """Say whether the engine is healthy and its model is known."""
        try:
            async with asyncio.timeout(_ASK_S):
                if self._record.health_path is None:
                    await self._client.models.list()
                else:
                    await self._client.get(self._root + self._record.health_path, cast_to=object)
                await self._learn_model()
        except (self._OpenAIError, GenerationError, ValueError, TimeoutError):
            return False
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _twice(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again when a connection broke before an answer began.

        A server may close an idle connection just as it is taken up again: that is no sign
        of a server that is down. One that is refuses the second time too.
        """
        try:
            return await ask()
        except self._APITimeoutError:
            raise
        except self._APIConnectionError:
            return await ask()

    async def _post(self, path: str, body: dict[str, object]) -> object:
        return await self._client.post(self._root + path, body=body, cast_to=object)

    async def _open(
        self, prompt: Prompt, sampling: Sampling, extra: Mapping[str, Field]
    ) -> AsyncStream[ChatCompletionChunk]:
        from openai import AsyncStream
        from openai.types.chat import ChatCompletion, ChatCompletionChunk

        await self._learn_model()
        field = self._record.salt_field
        if field and prompt.salt:
            extra = {**extra, field: prompt.salt}
        laid = messages(prompt, block=field is None, cites=self._cites)
        return await self._client.post(
            "/chat/completions",
            body=chat_body(self._record, self._model, laid, sampling, extra),
            cast_to=ChatCompletion,
            stream=True,
            stream_cls=AsyncStream[ChatCompletionChunk],
        )

    async def _learn_model(self) -> None:
        if self._model:
            return
        listed = await self._client.models.list()
        if not listed.data:
            raise EngineDown("the engine lists no model")
        self._model = listed.data[0].id

    def _translate(self, error: OpenAIError | ValueError, sampling: Sampling) -> GenerationError:
        """Name an error by what the caller can do; an engine's words may echo the prompt."""
        code = getattr(error, "status_code", None)
        if code in self._record.busy_codes:
            return EngineBusy(f"the engine refused with {code}")
        body = getattr(error, "body", None)
        said = json.dumps(body, default=str).lower()
        if code in {None, 400, 413, 422} and any(m in said for m in self._record.context_marks):
            count = body.get("n_prompt_tokens") if isinstance(body, dict) else None
            found = count if isinstance(count, int) else "too many"
            return PromptTooLong(
                f"the engine's context has {self._context_tokens} tokens; the prompt has {found} "
                f"and the answer may take {sampling.max_tokens}"
            )
        what = f"answered {code}" if code else f"failed: {type(error).__name__}"
        return EngineDown(f"the engine {what}")


def _usage(chunk: ChatCompletionChunk) -> Usage | None:
    usage = getattr(chunk, "usage", None)
    if usage is None:
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    cached = cast(object, getattr(details, "cached_tokens", None))
    return Usage(
        prompt=usage.prompt_tokens,
        completion=usage.completion_tokens,
        cached=cached if isinstance(cached, int) else None,
    )


def _delta(chunk: ChatCompletionChunk) -> Delta:
    """Read the first choice; the chunk with the usage has none.

    Raises: EngineDown for a finish reason that means the answer was broken off.
    """
    choices = getattr(chunk, "choices", None) or []
    if not choices:
        return Delta("")
    text = getattr(choices[0].delta, "content", None)
    reason = choices[0].finish_reason
    if reason is not None and reason not in _FINISHES:
        raise EngineDown("the engine broke the answer off, or ended it in a way unknown to us")
    return Delta(text if isinstance(text, str) else "", _FINISHES[reason] if reason else None)
