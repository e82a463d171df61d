"""A report against a saved one: what a gate refuses, and what it can't let through unseen."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.__main__ import app
from evals.compare import Gate, Rule, compare, read_gate
from evals.report import Better, Measure, Report, read_report


def report(*measures: Measure) -> Report:
    return Report("test", 1, {"encoder": "none"}, measures)


def by_query(mean: float, noise: float) -> Measure:
    chance = random.Random(f"{mean}")  # noqa: S311 - repeatable
    each = {f"q{n}": mean + chance.gauss(0, noise) for n in range(40)}
    return Measure("a/nDCG@10", sum(each.values()) / 40, 40, each=each)


def refusals(base: Report, new: Report, **rules: Rule) -> list[str]:
    gate = Gate(rules={name.replace("__", "/"): rule for name, rule in rules.items()})
    return [each.against for each in compare(base, new, gate) if each.against]


@pytest.mark.parametrize(
    ("value", "rule", "told"),
    [
        (0.5, Rule(at_least=0.5), []),
        (0.4, Rule(at_least=0.5), ["0.4 is below 0.5"]),
        (float("nan"), Rule(at_least=0.5), ["nan is below 0.5"]),
        (0.6, Rule(at_most=0.5), ["0.6 is above 0.5"]),
        (0.68, Rule(fall=0.05), []),
        (0.6, Rule(fall=0.05), ["0.7 became 0.6: worse by more than 0.05"]),
    ],
)
def test_a_rule_refuses_what_is_beyond_it(value: float, rule: Rule, told: list[str]) -> None:
    base, new = (report(Measure("a/x", v, 10)) for v in (0.7, value))
    assert refusals(base, new, a__x=rule) == told


def test_where_lower_is_better_a_rise_is_a_fall() -> None:
    base, new = (report(Measure("a/ms", v, 10, Better.LOWER, "ms")) for v in (10.0, 20.0))

    assert refusals(base, new, a__ms=Rule(fall=5))
    assert refusals(new, base, a__ms=Rule(fall=5)) == []


def test_a_fall_by_chance_passes_where_only_significant_ones_count() -> None:
    base = report(by_query(0.7, 0.2))
    chance, real = report(by_query(0.68, 0.2)), report(by_query(0.4, 0.2))
    rule = Rule(fall=0.0, significant=True)

    assert refusals(base, chance, **{"a__nDCG@10": rule}) == []
    assert refusals(base, real, **{"a__nDCG@10": rule})


def test_a_measure_that_vanished_is_refused() -> None:
    base = report(Measure("a/x", 1, 1), Measure("b/x", 1, 1))
    new = report(Measure("a/x", 1, 1))
    gate = Gate(rules={"*/x": Rule(fall=0)})

    assert [each.against for each in compare(base, new, gate)][1:] == [
        "the new report does not have it"
    ]


def test_a_rule_that_looks_at_nothing_is_an_error() -> None:
    only = report(Measure("a/x", 1, 1))
    with pytest.raises(ValueError, match="matches no measure"):
        compare(only, only, Gate(rules={"b/*": Rule(at_least=0)}))


def test_a_gate_with_a_misspelt_rule_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text("rules: {a: {atleast: 1}}")
    with pytest.raises(ValueError, match="atleast"):
        read_gate(path)


def test_the_command_exits_1_with_what_fell(tmp_path: Path) -> None:
    report(Measure("a/x", 0.9, 10)).write(tmp_path / "base")
    report(Measure("a/x", 0.5, 10)).write(tmp_path / "new")
    (tmp_path / "gate.yaml").write_text("rules: {'a/*': {fall: 0.1}}")
    paths = [str(tmp_path / "base/report.json"), str(tmp_path / "new/report.json")]
    gate = ["--gate", str(tmp_path / "gate.yaml")]

    fell = CliRunner().invoke(app, ["compare", *paths, *gate])
    rose = CliRunner().invoke(app, ["compare", *reversed(paths), *gate])

    assert (fell.exit_code, rose.exit_code) == (1, 0)
    assert "0.9 became 0.5" in fell.output


def test_a_report_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    written = Report("test", 7, {"a": "b"}, (by_query(0.5, 0.1),), ("something",))
    written.write(tmp_path)

    assert read_report(tmp_path / "report.json") == written
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="no report"):
        read_report(tmp_path / "other.json")
