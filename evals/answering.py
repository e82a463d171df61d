"""Question collections end to end: each is asked over HTTP as somebody who may read them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from pydantic import TypeAdapter

from evals.kept import Kept
from evals.opinion import Judge
from evals.questions import QuestionSet, SetQuestion, messages
from evals.server import Installation, installation
from pipeline.settings import load_settings

# Gold documents are looked for among so many results of a search.
SEARCHED = 10

_TENANT, _READER, _OTHER = "evals", "user:reader", "user:other"
_MARK = re.compile(r"\[(\d+)\]")
_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back for a question.

    cited: names of the documents cited, each once. n_citations: how many marks were mapped.
    n_invalid: marks in the text that no citation maps, and citations without their mark or to
    what the asker could not open. evidence: how many passages the engine was given.
    gold_rank: place from 1 of the first gold document among SEARCHED results; 0 if none.
    opinion: what the judge said of it: "right", "wrong", "unclear"; "" without a judge.
    """

    text: str
    refused: bool
    cited: tuple[str, ...]
    n_citations: int
    n_invalid: int
    evidence: int
    gold_rank: int
    seconds: float
    opinion: str = ""


_ANSWERED = TypeAdapter(Answered)


def answer_set(
    found: QuestionSet,
    out: Path,
    n: int,
    seed: int,
    told: Callable[[str], object],
    judge: Judge | None = None,
    **settings: str,
) -> list[tuple[SetQuestion, Answered]]:
    """Ask a sample of a collection's questions on a server of its own.

    Each gold document is there a second time, where only somebody else may read it: who asks
    must never be given that one. Results are kept in `out` as they come.
    Args: n: how many; 0 for all. settings: more settings, OSTIARY_ left out.
    Raises: RuntimeError if the server fails; httpx.HTTPError if it does not answer.
    """
    chosen = found.sample(n, seed)
    rests_on = {"sha256": found.digest, "judge": "" if judge is None else judge.model, **_made_of()}
    with Kept(out / f"{found.name}.answers.jsonl", {**rests_on, **settings}) as kept:
        left = [each for each in chosen if each.id not in kept.done]
        if left:
            told(f"{found.name}: documents")
            with installation(_TENANT, **settings) as house:
                key = _fill(house, found, {name for each in left for name in each.gold_docs})
                name_of, _ = house.stored()
                with house.serving() as url, httpx.Client(
                    base_url=url, timeout=_TIMEOUT_S, headers={"Authorization": f"Bearer {key}"}
                ) as client:  # fmt: skip
                    for number, each in enumerate(left, len(chosen) - len(left)):
                        told(f"{found.name}: {number} of {len(chosen)} answers")
                        kept.add(each.id, asdict(ask(client, each, name_of, seed, judge)))
        return [(each, _ANSWERED.validate_python(kept.done[each.id])) for each in chosen]


def ask(
    client: httpx.Client,
    question: SetQuestion,
    name_of: Mapping[str, str],
    seed: int,
    judge: Judge | None = None,
) -> Answered:
    """Ask one question with its history, and open every citation of the answer as its asker.

    Args: client: with the server's base URL and the asker's key. name_of: maps document ids to
        the collection's.
    Raises: httpx.HTTPError if the server does not answer.
    """
    reply = client.post("/v1/search", json={"query": question.question, "top_k": SEARCHED})
    ranked = dict.fromkeys(
        name_of.get(each["document"], "") for each in reply.raise_for_status().json()["results"]
    )
    rank = next((n for n, name in enumerate(ranked, 1) if name in question.gold_docs), 0)
    began = time.perf_counter()
    body = {"model": "ostiary", "messages": messages(question), "temperature": 0, "seed": seed}
    reply = client.post("/v1/chat/completions", json=body)
    seconds = time.perf_counter() - began
    told = reply.raise_for_status().json()
    text, ours = str(told["choices"][0]["message"]["content"]), told["ostiary"]
    citations: list[Mapping[str, object]] = ours["citations"]
    cited = dict.fromkeys(name_of.get(str(each["document"]), "") for each in citations)
    opinion = "" if judge is None or ours["refused"] else judge.opinion(question, text)
    return Answered(text, bool(ours["refused"]), tuple(cited), len(citations),
                    _n_invalid(client, text, citations), int(ours["evidence"]), rank, seconds,
                    opinion)  # fmt: skip


def _n_invalid(client: httpx.Client, text: str, citations: Sequence[Mapping[str, object]]) -> int:
    marks = {(match.start(), int(match[1])) for match in _MARK.finditer(text)}
    mapped = {(_whole(each["position"]), _whole(each["number"])) for each in citations}
    closed = 0
    for url in {str(each["url"]) for each in citations}:
        reply = client.get(url)
        if reply.status_code != 404:
            reply.raise_for_status()
        closed += reply.status_code == 404
    return len(marks ^ mapped) + closed


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"a citation has {value!r} for a number")
    return value


def _fill(house: Installation, found: QuestionSet, gold: Collection[str]) -> str:
    hidden = house.home / "others.jsonl"
    with found.documents.open(encoding="utf-8") as lines:
        hidden.write_text("".join(line for line in lines if json.loads(line)["id"] in gold))
    of_whom = ((_READER, found.documents), (_OTHER, hidden)) if gold else (
        (_READER, found.documents),)  # fmt: skip
    for who, documents in of_whom:
        name = who.partition(":")[2]
        house.say("user", "add", name)
        house.say("ingest", str(documents), "--collection", name, "--allow", who)
    return house.keys(_READER)[_READER]


def _made_of() -> dict[str, str]:
    settings = load_settings()
    return {"retrieval": repr(settings.retrieval), "generation": repr(settings.generation)}
