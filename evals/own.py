"""A user's own questions: read, asked of a running server as named people, and judged."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evals.answers import contains, token_f1
from evals.report import Measure, private_text
from evals.retrieval.measures import measured

DEPTH = 100
# What `ostiary eval init` writes; the documents of the sample company.
EXAMPLE = (
    {"id": "leave", "question": "How many days of leave do I have?", "as": "user:anna",
     "documents": ["leave.md"], "answers": ["30"]},
    {"id": "salary", "question": "What does Ben earn?", "as": "user:ben", "documents": [],
     "answers": [], "answerable": False},
)  # fmt: skip


class Question(BaseModel):
    """A question and what is right. documents: ends of their names, titles or ids.

    as: who asks. answers: texts of which one should stand in the answer. answerable: whether
    an answer is expected at all; without one the fixed refusal is right. drafted: an engine
    wrote it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    id: str
    question: str = Field(min_length=1)
    asker: str = Field(alias="as", pattern=r"^(user|service):.+")
    documents: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    answerable: bool = True
    drafted: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What came back for a question: documents by rank, the answer, whether it was refused."""

    question: Question
    found: tuple[tuple[str, str], ...]
    answer: str
    refused: bool
    n_citations: int


def read_questions(path: Path) -> list[Question]:
    """Read questions as JSONL, or as CSV with the same heads (lists divided by `;`).

    Raises: ValueError that names the line and what is wrong with it, or an id that is twice.
    """
    lines = _csv(path) if path.suffix.lower() == ".csv" else _jsonl(path)
    found: dict[str, Question] = {}
    for number, line in lines:
        try:
            question = Question.model_validate(line)
        except ValidationError as failure:
            what = "; ".join(
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in failure.errors()
            )
            raise ValueError(f"{path}:{number}: {what}") from None
        if question.id in found:
            raise ValueError(f"{path}:{number}: the id {question.id!r} is there twice")
        found[question.id] = question
    if not found:
        raise ValueError(f"{path} has no questions")
    return list(found.values())


def write_example(folder: Path) -> Path:
    """Write questions.jsonl to begin with. Raises: FileExistsError; nothing is overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "questions.jsonl"
    lines = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in EXAMPLE)
    with path.open("x", encoding="utf-8") as file:
        file.write(lines)
    return path


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """Write questions to a file that only its owner reads: they tell of what documents say."""
    lines = (each.model_dump_json(by_alias=True) + "\n" for each in questions)
    private_text(path, "".join(lines))


def ask_all(
    client: httpx.Client,
    questions: list[Question],
    key_of: Callable[[str], str],
    name_of: Mapping[str, str],
    *,
    answers: bool,
) -> Iterator[Asked]:
    """Ask a server each question as its asker.

    Args: name_of: maps document ids to the names they were ingested under. answers: ask for
        answers too, which takes an engine's time.
    Raises: httpx.HTTPStatusError if the server does not answer one.
    """
    for each in questions:
        head = {"Authorization": f"Bearer {key_of(each.asker)}"}
        body: dict[str, object] = {"query": each.question, "top_k": DEPTH}
        reply = client.post("/v1/search", json=body, headers=head)
        reply.raise_for_status()
        found = dict.fromkeys(
            (str(r["document"]), f"{name_of.get(r['document'], '')}\n{r['title']}")
            for r in reply.json()["results"]
        )
        text, refused, n_citations = "", False, 0
        if answers:
            turns = [{"role": "user", "content": each.question}]
            body = {"model": "ostiary", "messages": turns}
            reply = client.post("/v1/chat/completions", json=body, headers=head)
            reply.raise_for_status()
            told = reply.json()
            text = str(told["choices"][0]["message"]["content"])
            refused = bool(told["ostiary"]["refused"])
            n_citations = len(told["ostiary"]["citations"])
        yield Asked(each, tuple(found), text, refused, n_citations)


def judged(asked: list[Asked], seed: int, *, answers: bool) -> list[Measure]:
    """Give the measures: ranks of expected documents; answers and refusals."""
    qrels = {a.question.id: dict.fromkeys(a.question.documents, 1)
             for a in asked if a.question.documents}  # fmt: skip
    run = {a.question.id: _run(a) for a in asked if a.question.id in qrels}
    found = measured("own/search", run, qrels, seed) if run else []
    if not answers:
        return found
    with_answers = [a for a in asked if a.question.answers]
    for name, score in (("containment", contains), ("token F1", token_f1)):
        each = {a.question.id: score(a.answer, a.question.answers) for a in with_answers}
        if each:
            mean = sum(each.values()) / len(each)
            found.append(Measure(f"own/answers/{name}", mean, len(each), each=each))
    right = {a.question.id: float(a.refused != a.question.answerable) for a in asked}
    found.append(
        Measure("own/answers/answered or refused rightly", sum(right.values()) / len(right),
                len(right), each=right)
    )  # fmt: skip
    return found


def _run(asked: Asked) -> dict[str, float]:
    """Rank by name: an expected document stands where the first one lies that it may mean."""
    scores: dict[str, float] = {}
    for place, (document, names) in enumerate(asked.found):
        meant = next((w for w in asked.question.documents if _means(w, document, names)), document)
        scores.setdefault(meant, float(DEPTH - place))
    return scores


def _means(wanted: str, document: str, names: str) -> bool:
    source, _, title = names.partition("\n")
    return wanted in {document, title} or source == wanted or source.endswith(f"/{wanted}")


def _jsonl(path: Path) -> Iterator[tuple[int, object]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except ValueError as failure:
                    raise ValueError(f"{path}:{number}: no JSON: {failure}") from None


def _csv(path: Path) -> Iterator[tuple[int, object]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            line: dict[str, object] = {k: v for k, v in row.items() if k and v}
            for name in ("documents", "answers"):
                line[name] = [v.strip() for v in str(line.get(name, "")).split(";") if v.strip()]
            yield number, line
