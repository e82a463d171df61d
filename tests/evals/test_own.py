"""A user's own questions, against a real server over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.__main__ import app
from evals.attacks.ground import open_ground
from evals.own import read_questions
from evals.report import read_report

LINE = {"id": "q", "question": "heron?", "as": "user:ana", "documents": ["a.md"]}


def test_jsonl_and_csv_say_the_same(tmp_path: Path) -> None:
    lines, table = tmp_path / "q.jsonl", tmp_path / "q.csv"
    lines.write_text(json.dumps({**LINE, "answers": ["one", "two"], "answerable": False}) + "\n")
    table.write_text(
        "id,question,as,documents,answers,answerable\nq,heron?,user:ana,a.md,one; two,false\n"
    )

    assert read_questions(lines) == read_questions(table)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"id": "q"}', "question"),
        (json.dumps({**LINE, "as": "ana"}), "as"),
        (json.dumps({**LINE, "docs": []}), "docs"),
        (json.dumps(LINE) + "\n" + json.dumps(LINE), ":2: the id 'q' is there twice"),
        ("{", ":1: no JSON"),
        ("", "has no questions"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=told):
        read_questions(path)


def test_an_example_is_written_once_and_can_be_read(tmp_path: Path) -> None:
    first = CliRunner().invoke(app, ["init", str(tmp_path / "evals")])
    second = CliRunner().invoke(app, ["init", str(tmp_path / "evals")])

    assert (first.exit_code, second.exit_code) == (0, 2)
    assert len(read_questions(tmp_path / "evals/questions.jsonl")) == 2


def test_own_questions_are_asked_as_the_people_they_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "questions.jsonl"
    with open_ground() as ground:
        word = ground.canaries[3]
        lines = [
            {"id": who, "question": f"word {word}", "as": f"user:{who}",
             "documents": ["closed-3"], "answers": [word], "answerable": True}
            for who in ("ana", "bo")
        ]  # fmt: skip
        path.write_text("\n".join(map(json.dumps, lines)))
        ground.engine.says(f"It is {word} [1].")
        monkeypatch.setenv("OSTIARY_HOME", str(ground.settings.home))
        target = ["--tenant", "acme", "--url", ground.url, "--out", str(tmp_path / "out")]

        done = CliRunner().invoke(app, ["own", str(path), *target])

    assert done.exit_code == 0, done.output
    report = read_report(tmp_path / "out/report.json")
    found = report.measure("own/search/RR@10")
    assert found is not None
    assert found.each == {"ana": 1.0, "bo": 0.0}, "bo may not read it"
    answers = report.measure("own/answers/containment")
    assert answers is not None
    assert answers.each == {"ana": 1.0, "bo": 1.0}, "the scripted engine says it to anybody"
