"""What of a prompt fits an engine's context, and what had to go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from generation.errors import PromptTooLong
from generation.template import asked, first, quote, said
from generation.types import Engine, Prompt, Sampling

# Role words and turn marks of a chat template, and tokens that joining texts may add.
_TURN_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Fitted:
    """A prompt that fits, with its sampling, and what was cut to make it so.

    dropped: numbers of the evidence that is gone, worst first. n_history_dropped: turns
    that are gone from the front. prompt_tokens: an upper estimate.
    """

    prompt: Prompt
    sampling: Sampling
    dropped: tuple[int, ...]
    n_history_dropped: int
    prompt_tokens: int


async def fit(prompt: Prompt, engine: Engine, sampling: Sampling) -> Fitted:
    """Cut a prompt until it and the answer fit the engine's context.

    An answer may take half of the context at most. Evidence goes first, lowest rank first,
    down to the best passage; then history, oldest first; then that passage.

    Raises: PromptTooLong if system and question alone do not fit; EngineDown.
    """
    texts = [
        first(prompt, block=True),
        asked(prompt, engine.cites),
        *(quote(e) for e in prompt.evidence),
        *(said(m) for m in prompt.history),
    ]
    counts = await asyncio.gather(*(engine.count_tokens(text) for text in texts))
    # Only now: an engine may tell its window when it is first asked to count.
    sampling = replace(sampling, max_tokens=min(sampling.max_tokens, engine.context_tokens // 2))
    room = engine.context_tokens - sampling.max_tokens
    tokens = [count + _TURN_TOKENS for count in counts]
    fixed = sum(tokens[:2])
    if fixed > room:
        raise PromptTooLong(
            f"system and question have about {fixed} tokens, the context has room for {room} "
            f"({engine.context_tokens} less {sampling.max_tokens} for the answer)"
        )
    cost = dict(
        zip((e.number for e in prompt.evidence), tokens[2 : 2 + len(prompt.evidence)], strict=True)
    )
    turns = tokens[2 + len(prompt.evidence) :]
    used = sum(tokens)
    ranked = sorted(cost)
    dropped: list[int] = []
    n_turns = 0
    while used > room:
        if len(ranked) > 1 or n_turns == len(turns):
            dropped.append(ranked.pop())
            used -= cost[dropped[-1]]
        else:
            used -= turns[n_turns]
            n_turns += 1
    kept = tuple(e for e in prompt.evidence if e.number in ranked)
    return Fitted(
        prompt=replace(prompt, evidence=kept, history=prompt.history[n_turns:]),
        sampling=sampling,
        dropped=tuple(dropped),
        n_history_dropped=n_turns,
        prompt_tokens=used,
    )
