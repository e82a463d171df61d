"""A new report against a saved one: what fell, and whether a gate lets it through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from evals.report import Better, Measure, Report
from evals.retrieval.measures import Difference, difference


class Rule(BaseModel):
    """What a gate asks of the measures whose names match.

    at_least, at_most: bounds on the new value. fall: how much it may fall behind the base
    (rise, where lower is better), absolute. significant: a fall counts only if the paired
    test gives p < 0.05; measures without queries are then held by `fall` alone.
    """

    model_config = ConfigDict(extra="forbid")

    at_least: float | None = None
    at_most: float | None = None
    fall: float | None = None
    significant: bool = False


class Gate(BaseModel):
    """Rules by pattern of a measure's name, `*` for anything."""

    model_config = ConfigDict(extra="forbid")

    rules: dict[str, Rule]


@dataclass(frozen=True, slots=True)
class Compared:
    """A measure in both reports. against: why the gate refuses it; "" if it does not."""

    new: Measure
    base: Measure | None
    paired: Difference | None
    against: str

    @property
    def change(self) -> float | None:
        """How much the value rose."""
        return None if self.base is None else self.new.value - self.base.value


def read_gate(path: Path) -> Gate:
    """Read a gate's YAML. Raises: ValueError that names what is wrong with it."""
    try:
        return Gate.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (ValidationError, yaml.YAMLError) as failure:
        raise ValueError(f"{path} is no gate: {failure}") from failure


def compare(base: Report, new: Report, gate: Gate | None, seed: int = 0) -> list[Compared]:
    """Compare measure by measure, and hold each to the rules that match its name.

    Raises: ValueError if a rule matches no measure of the new report: a gate that looks at
    nothing would let everything through.
    """
    rules: Mapping[str, Rule] = gate.rules if gate else {}
    for pattern in rules:
        if not any(fnmatchcase(each.name, pattern) for each in new.measures):
            raise ValueError(f"the rule {pattern!r} matches no measure of the new report")
    found = []
    for measure in new.measures:
        before = base.measure(measure.name)
        paired = None
        if before is not None and measure.each and measure.each.keys() & before.each.keys():
            paired = difference(measure.each, before.each, seed)
        matching = [rule for pattern, rule in rules.items() if fnmatchcase(measure.name, pattern)]
        refused = [_refused(rule, measure, before, paired) for rule in matching]
        found.append(Compared(measure, before, paired, "; ".join(filter(None, refused))))
    names = {each.name for each in new.measures}
    found += [
        Compared(gone, gone, None, "the new report does not have it")
        for gone in base.measures
        if gone.name not in names and any(fnmatchcase(gone.name, pattern) for pattern in rules)
    ]
    return found


def _refused(rule: Rule, new: Measure, base: Measure | None, paired: Difference | None) -> str:
    if rule.at_least is not None and not new.value >= rule.at_least:
        return f"{new.value:.4g} is below {rule.at_least:g}"
    if rule.at_most is not None and not new.value <= rule.at_most:
        return f"{new.value:.4g} is above {rule.at_most:g}"
    if rule.fall is None:
        return ""
    if base is None:
        return "the base has no such measure"
    fallen = base.value - new.value if new.better is Better.HIGHER else new.value - base.value
    chance = rule.significant and paired is not None and paired.p >= 0.05
    if fallen <= rule.fall or chance:
        return ""
    told = f", p = {paired.p:.3g}" if paired else ""
    return f"{base.value:.4g} became {new.value:.4g}: worse by more than {rule.fall:g}{told}"
