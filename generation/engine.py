"""Engines behind the OpenAI protocol. Prompts, salts and keys never reach a log or an error."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from generation.capability import Capability, Field, Gauge, chat_body
from generation.errors import EngineDown, GenerationError
from generation.fleet import gauge, session_headers
from generation.template import messages
from generation.types import Delta, Prompt, Sampling, Usage
from generation.wire import refused, said, used

if TYPE_CHECKING:
    from openai import AsyncStream
    from openai.types.chat import ChatCompletionChunk

T = TypeVar("T")

_CONNECT_S = 5.0
_ASK_S = 10.0
_NO_FIELDS: Mapping[str, Field] = MappingProxyType({})


class RemoteEngine:
    """An engine that speaks the OpenAI protocol, as its capability record says.

    base_url ends in the version, e.g. http://localhost:8000/v1. An empty model is the first
    one that the engine lists, known once `ready` has said so or a stream has begun. `direct`
    goes past any proxy of the environment. No redirect is followed, and nothing is retried but,
    with `retry`, a connection that broke before the first byte of an answer, once. `router`
    names the fleet router at base_url (see generation.fleet): it retries for itself.
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
        router: str = "",
        retry: bool = True,
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
        self._address = base_url
        self._router = router
        self._retry = retry and not router
        self._root = base_url.rstrip("/").removesuffix("/v1")
        self._record = record
        self._model = model
        self._context_tokens = context_tokens
        self._window_tokens = context_tokens
        self._knows_window = not record.window_field
        self._learning = asyncio.Lock()
        self._cites = record.cites if cites is None else cites

    @property
    def address(self) -> str:
        """The base URL, which tells one replica from another."""
        return self._address

    @property
    def model(self) -> str:
        """The name of the model, as it is told to callers."""
        return self._model

    @property
    def context_tokens(self) -> int:
        """How many tokens prompt and answer may have together: as set, or less.

        An engine that tells a smaller window is believed, once it was asked: by `ready`, or by
        the first `count_tokens`.
        """
        return min(self._context_tokens, self._window_tokens)

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
                usage = used(self._record, chunk) or usage
                delta = said(chunk)
                finished = finished or delta.finish is not None
                if delta.text or delta.finish:
                    yield delta
        except (self._OpenAIError, ValueError) as error:
            raise refused(self._record, error, self.context_tokens, sampling.max_tokens) from None
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
        path = self._record.tokenize_path
        body: dict[str, object] = {self._record.tokenize_field: text}
        try:
            async with asyncio.timeout(_ASK_S):
                if not self._knows_window:
                    await self._learn_window()
                if path is None:
                    n_ascii = sum(c.isascii() for c in text)
                    return math.ceil(n_ascii / 3 + (len(text.encode()) - n_ascii) / 2)
                answer = await self._twice(partial(self._post, path, body))
        except (self._OpenAIError, ValueError) as error:
            raise refused(self._record, error, self.context_tokens, 0) from None
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(tokens, list):
            raise EngineDown("the engine's tokenizer gave no list of tokens")
        return len(tokens)

    async def ready(self) -> bool:
        """Say whether the engine is healthy and its model is known."""
        try:
            async with asyncio.timeout(_ASK_S):
                path = self._record.ready_path or self._record.health_path
                if path is not None:
                    await self._client.get(self._root + path, cast_to=object)
                await self._learn()
        except (self._OpenAIError, GenerationError, ValueError, TimeoutError):
            return False
        return True

    async def load(self) -> float | None:
        """Give the requests that run and wait in the engine; None where it does not tell."""
        if self._record.metrics_path is None or not self._record.metrics:
            return None
        try:
            async with asyncio.timeout(_ASK_S):
                url = self._root + self._record.metrics_path
                text = await self._client.get(url, cast_to=str)
        except (self._OpenAIError, ValueError, TimeoutError):
            return None
        names = (self._record.metrics[Gauge.RUNNING], self._record.metrics[Gauge.WAITING])
        return gauge(text, *names)

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
            if not self._retry:
                raise
            return await ask()

    async def _post(self, path: str, body: dict[str, object]) -> object:
        return await self._client.post(self._root + path, body=body, cast_to=object)

    async def _open(
        self, prompt: Prompt, sampling: Sampling, extra: Mapping[str, Field]
    ) -> AsyncStream[ChatCompletionChunk]:
        from openai import AsyncStream
        from openai.types.chat import ChatCompletion, ChatCompletionChunk

        if not self._model:
            await self._learn()
        extra = {**extra, **self._record.salted(prompt.salt)}
        laid = messages(prompt, block=self._record.salt_field is None, cites=self._cites)
        return await self._client.post(
            "/chat/completions",
            body=chat_body(self._record, self._model, laid, sampling, extra),
            options={"headers": session_headers(self._router, prompt)},
            cast_to=ChatCompletion,
            stream=True,
            stream_cls=AsyncStream[ChatCompletionChunk],
        )

    async def _learn_window(self) -> None:
        async with self._learning:  # texts are counted side by side; one of them asks
            if not self._knows_window:
                await self._twice(self._learn)

    async def _learn(self) -> None:
        """Read the list of models: the first one's name if none is set, and its window."""
        listed = await self._client.models.list()
        if not listed.data:
            raise EngineDown("the engine lists no model")
        self._model = self._model or listed.data[0].id
        field = self._record.window_field
        for entry in listed.data:
            told = getattr(entry, field, None) if field and entry.id == self._model else None
            if isinstance(told, int) and told > 0:
                self._window_tokens = told
        self._knows_window = True
