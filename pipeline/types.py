"""The vocabulary of the online flow: an ask goes in, a prepared answer and its words come out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum

from acl.types import AccessScope, Principal
from generation.types import Finish, Message, Prompt, Sampling, Usage
from retrieval.types import Candidate, Passage


class Stage(StrEnum):
    """What a request goes through: admission and the five stages."""

    ADMIT = "admit"
    EMBED = "embed"
    SEARCH = "search"
    AUTHORIZE = "authorize"
    RERANK = "rerank"
    GENERATE = "generate"


@dataclass(frozen=True, slots=True)
class Deadline:
    """The moment by which a request must be answered, on the monotonic clock."""

    at_s: float

    @classmethod
    def after(cls, timeout_s: float) -> Deadline:
        """Give the deadline that lies this many seconds ahead."""
        return cls(time.monotonic() + timeout_s)

    def remaining_s(self) -> float:
        """Give the seconds left; 0 or less when it has passed."""
        return self.at_s - time.monotonic()


@dataclass(frozen=True, slots=True)
class Ask:
    """A question from a verified principal. `depth` is how many passages a search returns.

    `instructions` are what the client said as system or developer: told to the model with
    the question, never in the system position.
    """

    principal: Principal
    question: str
    deadline: Deadline
    depth: int = 10
    history: tuple[Message, ...] = ()
    instructions: str = ""
    sampling: Sampling = Sampling()


@dataclass(frozen=True, slots=True)
class Spent:
    """What a stage was allowed and what it took; `cut` says what was left out, if anything.

    For the generate stage the budget is for the first token.
    """

    stage: Stage
    budget_ms: float
    spent_ms: float
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The passages found for an ask, best first: min(depth, permitted) of them."""

    ask: Ask
    scope: AccessScope
    ranking: tuple[Candidate, ...]
    spent: tuple[Spent, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Half-way: everything is decided but the text. Evidence n of the prompt is evidence[n-1].

    `prompt` is None when the evidence is too thin: then the answer is the fixed refusal. `cut`
    says what did not fit the engine's context.
    """

    ranked: Ranked
    prompt: Prompt | None
    evidence: tuple[Candidate, ...]
    sampling: Sampling
    spent: tuple[Spent, ...]
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Citation:
    """A mark [number] in an answer and the passage it points at.

    `attributed` says that the mark was set by us after generation, not by the model.
    `position` is the offset in the answer's text where the mark begins.
    """

    number: int
    position: int
    attributed: bool
    passage: Passage


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of a streamed answer. `refused` says that it was the fixed refusal.

    `n_evidence` counts the passages that the answer was made from.
    """

    finish: Finish
    refused: bool
    n_evidence: int
    usage: Usage | None
    citations: tuple[Citation, ...]
    spent: tuple[Spent, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer that was checked once more before it leaves."""

    text: str
    closing: Closing
