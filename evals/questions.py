"""Question collections: documents, and questions with short answers and gold documents."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_DOCUMENTS, _QUESTIONS = "documents.jsonl", "questions.jsonl"


class Turn(BaseModel):
    """An earlier turn of a conversation."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    role: str = Field(pattern="^(user|assistant)$")
    content: str


class SetQuestion(BaseModel):
    """A question of a collection and what is right. Fields that judge nothing are not read.

    answers: one of them is right. answers_all_of: groups of which each must have one in the
    answer. gold_docs: documents that hold the answer. counterfactual_answer: what forged
    documents of the collection say.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    question: str = Field(min_length=1)
    history: tuple[Turn, ...] = ()
    answers: tuple[str, ...] = ()
    answers_all_of: tuple[tuple[str, ...], ...] = ()
    gold_docs: tuple[str, ...] = ()
    answerable: bool = True
    label: str = ""
    counterfactual_answer: str = ""

    @property
    def refusal_is_judged(self) -> bool:
        """Whether to refuse is right or wrong; to one that says too little it is neither."""
        return self.label != "UNDERSPECIFIED"


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A collection of questions over documents. digest: of both files."""

    name: str
    documents: Path
    questions: tuple[SetQuestion, ...]
    digest: str

    def sample(self, n: int, seed: int) -> list[SetQuestion]:
        """Draw so many; all of them for 0. A smaller sample is part of a greater one."""
        drawn = list(self.questions)
        random.Random(seed).shuffle(drawn)  # noqa: S311 - a sample
        return drawn[:n] if n else drawn


def load_questions(folder: Path) -> QuestionSet:
    """Load a question collection.

    Raises: ValueError that names the file and line at fault.
    """
    if missing := [name for name in (_DOCUMENTS, _QUESTIONS) if not (folder / name).exists()]:
        raise ValueError(f"{folder} is no question collection: no {', '.join(missing)}")
    path, digest = folder / _QUESTIONS, hashlib.sha256()
    for name in (_DOCUMENTS, _QUESTIONS):
        digest.update((folder / name).read_bytes())
    found: dict[str, SetQuestion] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            each = _read(path, number, line)
            if each.id in found:
                raise ValueError(f"{path}:{number}: the id {each.id!r} is there twice")
            found[each.id] = each
    if not found:
        raise ValueError(f"{path} has no questions")
    return QuestionSet(
        folder.name, folder / _DOCUMENTS, tuple(found.values()), digest.hexdigest()
    )  # fmt: skip


def messages(question: SetQuestion) -> list[dict[str, str]]:
    """Give the conversation as a chat client sends it."""
    turns: Sequence[Turn] = (*question.history, Turn(role="user", content=question.question))
    return [each.model_dump() for each in turns]


def _read(path: Path, number: int, line: str) -> SetQuestion:
    try:
        return SetQuestion.model_validate(json.loads(line))
    except ValidationError as failure:
        what = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in failure.errors()
        )
        raise ValueError(f"{path}:{number}: {what}") from None
    except ValueError as failure:
        raise ValueError(f"{path}:{number}: no JSON: {failure}") from None
