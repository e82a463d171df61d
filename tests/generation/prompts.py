"""Prompts for the tests of generation, every field defaulted, and ways to run what is async."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from generation.template import SYSTEM
from generation.types import Evidence, Message, Prompt

T = TypeVar("T")
SALT = "a" * 43
HARBOUR = "The vessel Aurora arrived from Bergen at 06:40 with 312 containers."
TURBINE = "The blades of the turbine are 68 metres long and made of carbon fibre."


def make_evidence(*texts: str) -> tuple[Evidence, ...]:
    """Give evidence numbered from 1."""
    return tuple(Evidence(n, f"Document {n}", text) for n, text in enumerate(texts, 1))


def make_prompt(
    question: str = "Where did the Aurora come from?",
    evidence: Sequence[Evidence] = make_evidence(HARBOUR, TURBINE),
    history: Sequence[Message] = (),
    salt: str = SALT,
) -> Prompt:
    """Give a prompt over two passages."""
    return Prompt(SYSTEM, tuple(evidence), tuple(history), question, salt)


def cuts(text: str, sizes: Sequence[int]) -> list[str]:
    """Cut a text into pieces of these sizes, over and over."""
    pieces: list[str] = []
    start = 0
    for size in itertools.cycle(sizes or [1]):
        if start >= len(text):
            return pieces
        pieces.append(text[start : start + size])
        start += size
    return pieces


async def gather(items: AsyncIterator[T]) -> list[T]:
    """Read a stream to its end."""
    return [item async for item in items]
