"""An engine that plays back text: for tests, and wherever no model is wanted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from generation.errors import EngineDown, PromptTooLong
from generation.template import messages
from generation.types import Delta, Finish, Prompt, Sampling, Usage

_WORD = re.compile(r"\w+|[^\w\s]")


class ScriptedEngine:
    """Answers every prompt with the script, one delta per entry.

    script: the deltas, or what makes them from a prompt. delay_s: before each delta, slept
    with `sleep`; the sum counts against the timeout. fail_after: dies after that many
    deltas. drops_finish: ends without saying why. A prompt it has seen under the same salt
    counts as cached in whole. `prompts` are those it was given; `n_open` and `n_closed`
    count the streams that run, and those that were left before their end.
    """

    def __init__(
        self,
        script: Sequence[str] | Callable[[Prompt], Sequence[str]],
        *,
        delay_s: float = 0.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        fail_after: int | None = None,
        drops_finish: bool = False,
        context_tokens: int = 2048,
        cites: bool = True,
        is_ready: bool = True,
    ) -> None:
        self._script = script
        self._delay_s = delay_s
        self._sleep = sleep
        self._fail_after = fail_after
        self._drops_finish = drops_finish
        self._context_tokens = context_tokens
        self._cites = cites
        self._seen: set[tuple[str, str]] = set()
        self.is_ready = is_ready
        self.prompts: list[Prompt] = []
        self.n_open = 0
        self.n_closed = 0

    @property
    def model(self) -> str:
        """The name of the model, as it is told to callers."""
        return "scripted"

    @property
    def context_tokens(self) -> int:
        """How many tokens prompt and answer may have together."""
        return self._context_tokens

    @property
    def cites(self) -> bool:
        """Whether the model's own [n] marks can be relied on."""
        return self._cites

    async def stream(
        self, prompt: Prompt, sampling: Sampling, timeout_s: float
    ) -> AsyncGenerator[Delta | Usage, None]:
        """Play the script; see Engine.stream."""
        self.prompts.append(prompt)
        laid = messages(prompt, block=False, cites=self._cites)
        text = "\n".join(f"{m['role']} {m['content']}" for m in laid)
        n_prompt = await self.count_tokens(text)
        if n_prompt + 1 > self._context_tokens:
            raise PromptTooLong(
                f"the context has {self._context_tokens} tokens; the prompt has {n_prompt}"
            )
        cached = n_prompt if (prompt.salt, text) in self._seen else 0
        script = self._script(prompt) if callable(self._script) else self._script
        played = script[: sampling.max_tokens]
        self.n_open += 1
        ended = False
        try:
            for n_played, delta in enumerate(played):
                self._maybe_die(n_played)
                if (n_played + 1) * self._delay_s > timeout_s:
                    raise TimeoutError(f"no answer within {timeout_s:.1f} s")
                await self._sleep(self._delay_s)
                yield Delta(delta)
            self._maybe_die(len(played))
            if not self._drops_finish:
                cut = len(played) < len(script)
                yield Delta("", Finish.LENGTH if cut else Finish.STOP)
                yield Usage(n_prompt, len(played), cached)
            self._seen.add((prompt.salt, text))
            ended = True
        finally:
            self.n_open -= 1
            self.n_closed += not ended

    def _maybe_die(self, n_played: int) -> None:
        if n_played == self._fail_after:
            raise EngineDown(f"scripted to die after {n_played} deltas")

    async def count_tokens(self, text: str) -> int:
        """Count words and punctuation marks."""
        return len(_WORD.findall(text))

    async def ready(self) -> bool:
        """Say what `is_ready` says."""
        return self.is_ready

    async def close(self) -> None:
        """Not be ready any more."""
        self.is_ready = False
