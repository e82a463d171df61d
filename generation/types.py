"""The vocabulary of generation: a prompt goes to an engine, pieces of an answer come back."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Role(StrEnum):
    """Who said a message of the history."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the history that the client sent. Never evidence."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage as the model is shown it. `number` is its rank by relevance, from 1."""

    number: int
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """Everything an engine is told, in cache order: system, evidence, history, question.

    `evidence` stands in prompt order (chosen for the prefix cache); its numbers tell
    relevance. `salt` names who may share cached prefixes: URL-safe, opaque here.
    """

    system: str
    evidence: tuple[Evidence, ...]
    history: tuple[Message, ...]
    question: str
    salt: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the answer is drawn. max_tokens >= 1; temperature 0 is greedy.

    top_p in (0, 1]; the penalties in [-2, 2], 0 for none.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0


class Finish(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Delta:
    """A stretch of text from the engine; `finish` is set on the last one."""

    text: str
    finish: Finish | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one answer. `cached` is None where the engine does not tell."""

    prompt: int
    completion: int
    cached: int | None


@dataclass(frozen=True, slots=True)
class Citation:
    """A mark [number] in the answer. `attributed` says that we set it, not the model.

    `position` is the offset in the delivered text at which the mark begins.
    """

    number: int
    position: int
    attributed: bool


@dataclass(frozen=True, slots=True)
class Words:
    """A stretch of the answer as it may be delivered: checked, neutralised, with marks."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an answer: why, what it cost, and every citation in the text."""

    finish: Finish
    usage: Usage | None
    citations: tuple[Citation, ...]


class Engine(Protocol):
    """What turns a prompt into text. Real ones and the scripted one pass the same tests."""

    @property
    def model(self) -> str:
        """The name of the model, as it is told to callers."""
        ...

    @property
    def context_tokens(self) -> int:
        """How many tokens prompt and answer may have together."""
        ...

    @property
    def cites(self) -> bool:
        """Whether the model's own [n] marks can be relied on."""
        ...

    def stream(
        self, prompt: Prompt, sampling: Sampling, timeout_s: float
    ) -> AsyncGenerator[Delta | Usage, None]:
        """Give the answer's text as it comes, then its usage.

        Closing the generator stops the engine. Raises: EngineDown, EngineBusy,
        PromptTooLong, TimeoutError.
        """
        ...

    async def count_tokens(self, text: str) -> int:
        """Count the engine's own tokens in a text."""
        ...

    async def ready(self) -> bool:
        """Say whether a request sent now would be served."""
        ...

    async def close(self) -> None:
        """Let go of everything the engine holds."""
        ...
