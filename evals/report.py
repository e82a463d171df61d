"""What an evaluation found: for a machine (JSON), and for a person (Markdown, HTML with plots)."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_VERSIONS = ("ostiary", "numpy", "faiss-cpu", "sentence-transformers", "torch", "xllamacpp")
_BAR = 260


class Better(StrEnum):
    """Which way a measure should go."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure. name: "group/what/measure", e.g. "scifact/fused/nDCG@10".

    n: what it was taken over. low, high: its 95 % interval, where one was taken. each: the
    figure by query, for paired comparison; empty where there is none. note: how to read it.
    """

    name: str
    value: float
    n: int
    better: Better = Better.HIGHER
    unit: str = ""
    low: float | None = None
    high: float | None = None
    note: str = ""
    each: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Glance:
    """A table to begin with: what a reader with a minute looks at."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A run of a suite. made_of: names of models, index version and whatever else decided it.

    faults: what must never be and was; a command that finds one ends with 1.
    """

    suite: str
    seed: int
    made_of: Mapping[str, str]
    measures: tuple[Measure, ...]
    left_out: tuple[str, ...] = ()
    glances: tuple[Glance, ...] = ()
    faults: tuple[str, ...] = ()

    def measure(self, name: str) -> Measure | None:
        """Give a measure by its name."""
        return next((each for each in self.measures if each.name == name), None)

    def as_json(self) -> str:
        """Give all of it as JSON."""
        whole = {
            "suite": self.suite, "seed": self.seed, "machine": machine(), "versions": versions(),
            "made_of": dict(self.made_of), "left_out": list(self.left_out),
            "faults": list(self.faults),
            "glances": [asdict(each) for each in self.glances],
            "measures": [asdict(each) for each in self.measures],
        }  # fmt: skip
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"

    def as_markdown(self) -> str:
        """Give tables, one a group."""
        lines = [f"# {self.suite}", "", _facts(self), ""]
        lines += [f"- **Fault: {each}**" for each in self.faults] + [""] * bool(self.faults)
        for each in self.glances:
            lines += [f"## {each.title}", "", _piped(each.head), _piped(["---"] * len(each.head))]
            lines += [*map(_piped, each.rows), ""]
        for group, measures in self._groups().items():
            lines += [f"## {group}", "", "| | value | 95 % | n | |", "|---|---|---|---|---|"]
            lines += [
                f"| {_rest(m)} | {_shown(m)} | {_interval(m)} | {m.n:,} | {m.note} |"
                for m in measures
            ]
            lines.append("")
        lines += [f"- Left out: {each}" for each in self.left_out]
        return "\n".join(lines) + "\n"

    def as_html(self) -> str:
        """Give one file without scripts: tables with bars."""
        parts = [f"<h1>{escape(self.suite)}</h1><p>{escape(_facts(self))}</p>"]
        parts += [f"<p><strong>Fault: {escape(each)}</strong></p>" for each in self.faults]
        parts += [_glanced(each) for each in self.glances]
        for group, measures in self._groups().items():
            rows = "".join(_row(m, measures) for m in measures)
            parts.append(f"<h2>{escape(group)}</h2><table>{rows}</table>")
        parts += [f"<p>Left out: {escape(each)}</p>" for each in self.left_out]
        return _PAGE.replace("TITLE", escape(self.suite)).replace("BODY", "\n".join(parts))

    def write(self, folder: Path) -> None:
        """Write report.json, report.md and report.html, readable by their owner alone."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        private_text(folder / "report.json", self.as_json())
        private_text(folder / "report.md", self.as_markdown())
        private_text(folder / "report.html", self.as_html())

    def _groups(self) -> dict[str, list[Measure]]:
        found: dict[str, list[Measure]] = {}
        for each in self.measures:
            found.setdefault(each.name.partition("/")[0], []).append(each)
        return found


def read_report(path: Path) -> Report:
    """Read a report's JSON. Raises: ValueError for another file, with what was missing."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        measures = tuple(
            Measure(**{**each, "better": Better(each["better"])}) for each in found["measures"]
        )
        # Older reports have no tables to begin with, and no faults.
        glances = tuple(
            Glance(each["title"], tuple(each["head"]), tuple(map(tuple, each["rows"])))
            for each in found.get("glances", ())
        )
        return Report(
            found["suite"], found["seed"], found["made_of"], measures, tuple(found["left_out"]),
            glances, tuple(found.get("faults", ())),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, UnicodeDecodeError) as failure:
        raise ValueError(f"{path} is no report of `ostiary eval`: {failure!r}") from failure


def private_text(path: Path, text: str) -> None:
    """Write a file that only its owner reads: reports quote questions."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(handle, 0o600)
        file.write(text)


def machine() -> dict[str, object]:
    """Say where this runs."""
    return {
        "machine": platform.machine(), "cores": os.cpu_count(),
        "python": platform.python_version(), "system": platform.system(),
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Give the versions of what decides a result."""
    found = {}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _facts(report: Report) -> str:
    made = ", ".join(f"{name} {value}" for name, value in report.made_of.items())
    where = ", ".join(f"{name} {value}" for name, value in {**machine(), **versions()}.items())
    return f"Seed {report.seed}. {made}. {where}."


def _piped(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _glanced(glance: Glance) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in glance.head)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in glance.rows
    )
    return f"<h2>{escape(glance.title)}</h2><table><tr>{head}</tr>{rows}</table>"


def _rest(measure: Measure) -> str:
    return measure.name.partition("/")[2] or measure.name


def _shown(measure: Measure) -> str:
    return f"{measure.value:.4g} {measure.unit}".strip()


def _interval(measure: Measure) -> str:
    if measure.low is None or measure.high is None:
        return ""
    return f"{measure.low:.4g} to {measure.high:.4g}"


def _row(measure: Measure, beside: Sequence[Measure]) -> str:
    same = [m.value for m in beside if m.unit == measure.unit and _last(m) == _last(measure)]
    length = _BAR * measure.value / max(same) if max(same) > 0 else 0
    bar = (f'<svg width="{_BAR}" height="12"><rect width="{length:.0f}" height="12" '
           f'fill="#4a7ba6"/></svg>')  # fmt: skip
    cells = (_rest(measure), _shown(measure), _interval(measure), f"n = {measure.n:,}")
    told = "".join(f"<td>{escape(each)}</td>" for each in cells)
    return f"<tr>{told}<td>{bar}</td><td>{escape(measure.note)}</td></tr>"


def _last(measure: Measure) -> str:
    return measure.name.rpartition("/")[2]


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>TITLE</title>
<style>body{font:15px/1.45 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em}
table{border-collapse:collapse}
td,th{text-align:left;padding:.2em .8em .2em 0;border-bottom:1px solid #ddd}</style>
</head><body>
BODY
</body></html>
"""
