"""Question collections end to end: what is judged is seen, over HTTP, with scripted engines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from evals.__main__ import app
from evals.answered import INVALID, Done, measures_of
from evals.answering import Answered, ask
from evals.attacks.engine import prompt_of, recording_engine
from evals.opinion import Judge
from evals.questions import SetQuestion, load_questions
from evals.report import Report, read_report

TEXTS = {"d1": "The gate opens at nine.", "d2": "Herons breed in the reeds."}
LINES: list[dict[str, object]] = [
    {"id": "q1", "question": "When does the gate open?", "answers": ["nine"], "gold_docs": ["d1"]},
    {"id": "q2", "question": "Where do herons breed?", "answers": ["the reeds"],
     "gold_docs": ["d2"], "history": [{"role": "user", "content": "Are there herons?"},
                                      {"role": "assistant", "content": "There are."}]},
    {"id": "q3", "question": "Blacksmith Zebulon?", "answers": [], "answerable": False},
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "pond"
    place.mkdir()
    documents = [{"id": name, "title": name, "text": text} for name, text in TEXTS.items()]
    for file, lines in (("documents.jsonl", documents), ("questions.jsonl", LINES)):
        (place / file).write_text("".join(json.dumps(each) + "\n" for each in lines))
    return place


def _answered(**others: object) -> Answered:
    fields: dict[str, object] = {
        "text": "It opens at nine [1].", "refused": False, "cited": ("d1",), "n_citations": 1,
        "n_invalid": 0, "evidence": 2, "gold_rank": 1, "seconds": 0.1, **others,
    }  # fmt: skip
    return Answered(**fields)  # type: ignore[arg-type] # a table of its fields


def _value(done: Done, what: str) -> float:
    return next(m.value for m in measures_of("x", done) if m.name == f"answers/x/{what}")


def _question(number: int, **others: object) -> SetQuestion:
    return SetQuestion.model_validate({**LINES[number], **others})


def test_right_answers_refusals_and_citations_are_counted_apart() -> None:
    gate, smith = _question(0, gold_docs=["d1", "d9"]), _question(2)
    done = [(gate, _answered(cited=("d1", "d2"))), (smith, _answered(text="None.", refused=True))]

    assert _value(done, "containment") == 1
    assert _value(done, "exact match") == 0
    assert _value(done, "citation precision") == 0.5
    assert _value(done, "citation recall") == 0.5
    assert _value(done, "refusal precision") == 1
    assert _value(done, "refusal recall") == 1


def test_an_answer_where_none_is_and_a_refusal_of_what_is_known_count_against() -> None:
    done = [(_question(0), _answered(text="No.", refused=True)), (_question(2), _answered())]

    assert _value(done, "containment") == 0
    assert _value(done, "refusal precision") == 0
    assert _value(done, "refusal recall") == 0


def test_a_question_that_says_too_little_judges_no_refusal() -> None:
    done = [(_question(2, label="UNDERSPECIFIED"), _answered())]

    assert not [m for m in measures_of("x", done) if "refus" in m.name]


def test_all_groups_of_an_answer_are_needed_and_a_forged_one_is_told() -> None:
    both = _question(0, answers_all_of=[["nine"], ["ten"]])
    forged = _question(0, counterfactual_answer="six")

    assert _value([(both, _answered())], "containment") == 0
    assert _value([(both, _answered(text="nine or ten"))], "containment") == 1
    assert _value([(forged, _answered(text="At six."))], "follows a forged document") == 1
    assert _value([(forged, _answered())], "follows a forged document") == 0


@pytest.mark.parametrize(
    ("text", "cited", "opens", "n"),
    [
        ("At nine [1].", [(1, 8)], True, 0),
        ("At nine [1].", [], True, 1),  # a mark that nothing maps
        ("At nine.", [(1, 8)], True, 1),  # a citation without its mark
        ("At nine [1].", [(2, 8)], True, 2),  # another one
        ("At nine [1].", [(1, 8)], False, 1),  # what can't be opened
    ],
)
def test_a_citation_counts_only_with_its_mark_and_where_it_opens(
    text: str, cited: list[tuple[int, int]], opens: bool, n: int
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/search":
            return httpx.Response(200, json={"results": [{"document": "doc_1"}]})
        if request.method == "GET":
            return httpx.Response(200 if opens else 404)
        citations = [{"number": number, "position": at, "document": "doc_1", "url": "/v1/p"}
                     for number, at in cited]  # fmt: skip
        ours = {"citations": citations, "refused": False, "evidence": 1}
        message = {"choices": [{"message": {"content": text}}], "ostiary": ours}
        return httpx.Response(200, json=message)

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://x") as client:
        assert ask(client, _question(0), {"doc_1": "d1"}, 1).n_invalid == n


@pytest.mark.parametrize(("said", "held"), [("Yes.", "right"), ("no", "wrong"), ("hm", "unclear")])
def test_a_judge_is_asked_only_where_there_is_something_to_hold_against(
    said: str, held: str
) -> None:
    asked: list[Mapping[str, object]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        return httpx.Response(200, json={"choices": [{"message": {"content": said}}]})

    transport = httpx.MockTransport(answer)
    with httpx.Client(transport=transport, base_url="http://judge/v1") as client:
        judge = Judge(client, "strict")
        assert judge.opinion(_question(0), "At nine.") == held
        assert judge.opinion(_question(2), "Nobody.") == ""
    assert [each["model"] for each in asked] == ["strict"]


def test_a_collection_is_asked_on_a_server_of_its_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTIARY_RETRIEVAL__ENCODER", "hashed")
    monkeypatch.setenv("OSTIARY_REFUSE_BELOW", "0.3")
    out = tmp_path / "out"
    with recording_engine() as engine:
        monkeypatch.setenv("OSTIARY_GENERATION__BASE_URL", engine.url)
        engine.answer = lambda body: [_said(prompt_of(body))]

        done = CliRunner().invoke(app, ["answers", str(folder), "--out", str(out), "--n", "0"])

        prompts = [prompt_of(body) for body in engine.bodies]
    assert done.exit_code == 0, done.output
    report = read_report(out / "report.json")
    assert _of(report, "containment") == (1, 2)
    assert _of(report, "refusal recall") == (1, 1)
    assert _of(report, INVALID) == (0, 2)
    assert _of(report, "a gold document cited") == (1, 2)
    assert any("Are there herons?" in each for each in prompts)

    # The engine is gone: what is there is not asked again.
    assert CliRunner().invoke(app, ["answers", str(folder), "--out", str(out), "--n", "0"]
                              ).exit_code == 0  # fmt: skip


def test_a_sample_is_part_of_a_greater_one(folder: Path) -> None:
    found = load_questions(folder)

    assert found.sample(1, 5) == found.sample(0, 5)[:1]
    assert sorted(each.id for each in found.sample(0, 5)) == ["q1", "q2", "q3"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", ":1: no JSON"),
        ('{"id": "q"}', ":1: question"),
        ("\n".join(map(json.dumps, (LINES[0], LINES[0]))), ":2: the id 'q1' is there twice"),
        ("", "has no questions"),
    ],
)
def test_a_fault_is_told_with_its_line(folder: Path, text: str, told: str) -> None:
    (folder / "questions.jsonl").write_text(text)
    with pytest.raises(ValueError, match=told):
        load_questions(folder)


def _said(prompt: str) -> str:
    """Answer with the word that is asked for, citing the passage that it stands in."""
    word = "nine" if "When does the gate" in prompt else "reeds"
    passages = re.findall(r"<passage>\n\[(\d+)\](.*?)</passage>", prompt, re.DOTALL)
    number = next(number for number, text in passages if word in text)
    return f"By the {word} [{number}]."


def _of(report: Report, what: str) -> tuple[float, int]:
    found = report.measure(f"answers/pond/{what}")
    assert found is not None
    return found.value, found.n
