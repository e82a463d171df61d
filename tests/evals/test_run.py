"""A run of several suites: one report, what must never be on top, and nothing lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.__main__ import app
from evals.attacks.case import Attack, Auc, Outcome
from evals.attacks.reporting import report_of
from evals.attacks.suite import Fought
from evals.config import read_run
from evals.report import Glance, Measure, Report, read_report
from evals.suites import together
from tests.evals.test_rights import folder

__all__ = ["folder"]  # the small permissions collection


def test_suites_are_run_in_order_to_one_report_and_one_that_fails_stops_no_other(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTIARY_RETRIEVAL__ENCODER", "hashed")
    (tmp_path / "broken").mkdir()
    config = tmp_path / "run.yaml"
    config.write_text(
        f"seed: 3\nquality: {{collections: [broken]}}\nrights: {{collections: ['{folder}']}}\n"
    )

    done = CliRunner().invoke(app, ["run", str(config), "--out", str(tmp_path / "out")])

    assert done.exit_code == 1
    report = read_report(tmp_path / "out/report.json")
    assert report.seed == 3
    assert [each.partition(":")[0] for each in report.faults] == ["quality"]
    assert "did not finish" in report.faults[0]
    assert report.measure(f"rights/{folder.name}/leak") is not None
    assert [each.title for each in report.glances] == ["Rights"]
    assert read_report(tmp_path / "out/rights/report.json").faults == ()
    assert "Fault: quality" in (tmp_path / "out/report.md").read_text()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "names no suite; there are quality, rights, answers, attacks, own"),
        ("rights: {collections: []}", "rights.collections"),
        ("rights: {collections: [gone]}", "gone, which is not there"),
        ("rights: {folders: [a]}", "rights.folders"),
        ("answers: {collections: [.], judge_url: 'http://x'}", "needs both"),
        ("rights: {collections: [., ..], tenant: acme}", "judged by one collection"),
        (": -", "is no YAML"),
    ],
)
def test_what_is_wrong_with_a_run_is_told_before_it_starts(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=told):
        read_run(path)


def test_folders_are_meant_from_where_the_file_lies(tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    path = tmp_path / "run.yaml"
    path.write_text("quality: {collections: [sets]}")

    found = read_run(path).quality

    assert found is not None
    assert found.collections == (tmp_path / "sets",)


def test_reports_are_joined_with_whose_they_are() -> None:
    one = Report("Rights", 0, {"server": "own"}, (Measure("rights/x/leak", 0, 9),), ("some",),
                 (Glance("Rights", ("set",), (("x",),)),), ("seen",))  # fmt: skip
    two = Report("Answers", 0, {"engine": "e"}, (Measure("answers/x/F1", 1, 9),))

    joined = together([one, two], 5)

    assert joined.made_of == {"rights: server": "own", "answers: engine": "e"}
    assert [each.name for each in joined.measures] == ["rights/x/leak", "answers/x/F1"]
    assert (joined.left_out, joined.faults) == (("Rights: some",), ("Rights: seen",))


def test_an_attack_that_worked_or_was_blind_is_a_fault_and_one_without_a_door_no_figure() -> None:
    attack = Attack("1", "one", lambda _, __: Outcome(1))
    outcomes = [
        Outcome(100, 0, 5), Outcome(100, 2, 5), Outcome(100, 0, 0), Outcome(0, why="no door"),
        Outcome(100, auc=Auc(0.5, 0.48, 0.52), control_auc=Auc(0.9, 0.8, 1)),
    ]  # fmt: skip

    report = report_of([Fought(attack, each) for each in outcomes], 1)

    assert report.faults == ("1 one: BROKEN", "1 one: BLIND")
    assert report.left_out == ("1 one: no door",)
    assert [each.value for each in report.measures] == [0, 0.02, 0, 0.5]
    assert len(report.glances[0].rows) == 5
