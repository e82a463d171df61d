"""Questions drafted by an engine: from what the person may read and nothing else, and marked."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.__main__ import app
from evals.attacks.ground import open_ground
from evals.drafting import question_in
from evals.own import read_questions
from evals.report import read_report


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ("When does the gate open?", "When does the gate open?"),
        ('Question: "When does the gate open?" [1]', "When does the gate open?"),
        ("Sure!\nWhen does the gate open? And why?", "When does the gate open?"),
        ("什么时候开门？", "什么时候开门？"),
        ("Why?", ""),
        ("The gate opens at nine.", ""),
        ("", ""),
    ],
)
def test_the_first_question_is_taken_from_what_an_engine_said(said: str, question: str) -> None:
    assert question_in(said) == question


def test_questions_are_drafted_from_what_their_person_may_read_and_can_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "drafted.jsonl"
    with open_ground() as ground:
        monkeypatch.setenv("OSTIARY_HOME", str(ground.settings.home))
        monkeypatch.setenv("OSTIARY_GENERATION__BASE_URL", ground.engine.url)
        number = iter(range(1000))
        ground.engine.answer = lambda _: [f"What does paper number {next(number)} say?"]
        place = ["--tenant", "acme", "--url", ground.url]
        asked = ["draft", str(path), "--as", "user:bo", "--n", "1000", *place]

        done = CliRunner().invoke(app, asked)

        sent = ground.engine.sent()
        others = ["draft", str(tmp_path / "ana.jsonl"), "--as", "user:ana", "--n", "1000", *place]
        assert CliRunner().invoke(app, others).exit_code == 0
        of_ana = ground.engine.sent()
        again = CliRunner().invoke(app, asked)
        assert done.exit_code == 0, done.output
        questions = read_questions(path)
        judged = CliRunner().invoke(
            app, ["own", str(path), "--out", str(tmp_path / "out"), "--no-answers", *place]
        )

    assert questions
    assert all(each.drafted and each.asker == "user:bo" for each in questions)
    assert len({each.documents for each in questions}) == len(questions) == len(set(questions))
    assert not [word for word in ground.canaries if word in sent], "bo may read none of them"
    assert all(word in of_ana for word in ground.canaries), "ana may, and each was looked at"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert again.exit_code == 2
    assert "is there already" in again.output
    assert judged.exit_code == 0, judged.output
    made_of = read_report(tmp_path / "out/report.json").made_of
    assert made_of["drafted by an engine"] == f"{len(questions)} of {len(questions)} questions"
