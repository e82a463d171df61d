"""What a benchmark found: rows with their bars, on the screen and in results/NAME.json."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).with_name("results")
_VERSIONS = ("numpy", "faiss-cpu", "torch", "sentence-transformers", "xllamacpp", "pycasbin")
_PROCESSOR = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    against: whose figure, of the same run, `ratio` divides `value` by; or a stated budget.
    bar: what the value must keep to; None where nothing is demanded, and then so is `met`.
    """

    measure: str
    value: float
    unit: str
    against: str | None = None
    ratio: float | None = None
    bar: str | None = None
    met: bool | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A benchmark under way; made when it begins, so that it knows the load it found."""

    name: str
    load: float

    @classmethod
    def begin(cls, name: str) -> Report:
        """Note the load of the machine before the benchmark adds its own."""
        return cls(name, os.getloadavg()[0])

    def write(self, rows: Sequence[Row], left_out: Sequence[str] = ()) -> None:
        """Write results/NAME.json and show the table. left_out: parts not run, and why."""
        found = {
            "name": self.name,
            "command": f"make bench-{self.name}",
            "machine": {
                "processor": _processor(),
                "cores": os.cpu_count(),
                "python": platform.python_version(),
                "load before": round(self.load, 2),
                "load after": round(os.getloadavg()[0], 2),
            },
            "versions": {package: version(package) for package in _VERSIONS},
            "left_out": list(left_out),
            "rows": [asdict(row) for row in rows],
        }
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{self.name}.json").write_text(json.dumps(found, indent=1) + "\n")
        self._show(rows, left_out)

    def _show(self, rows: Sequence[Row], left_out: Sequence[str]) -> None:
        table = Table("measure", "value", "unit", "against", "ratio", "bar", "met", title=self.name)
        for row in rows:
            table.add_row(
                row.measure,
                f"{row.value:,.4g}" if row.value < 10_000 else f"{row.value:,.0f}",
                row.unit,
                row.against or "",
                "" if row.ratio is None else f"{row.ratio:.3g}",
                row.bar or "",
                {None: "", True: "yes", False: "[bold red]no[/]"}[row.met],
            )
        console = Console(width=150)
        console.print(table)
        for reason in left_out:
            console.print(f"left out: {reason}")


def must_be(measure: str, value: float, unit: str, wanted: float) -> Row:
    """Give a row whose value must be exactly this."""
    return Row(measure, value, unit, bar=f"= {wanted:g}", met=bool(value == wanted))


def within(measure: str, value: float, unit: str, budget: float) -> Row:
    """Give a row whose value must not exceed this budget."""
    return Row(measure, value, unit, "budget", value / budget, f"<= {budget:g}", value <= budget)


def at_least(measure: str, value: float, unit: str, wanted: float) -> Row:
    """Give a row whose value must reach this."""
    return Row(measure, value, unit, bar=f">= {wanted:g}", met=bool(value >= wanted))


def percentile(times_ms: Sequence[float], percent: float) -> float:
    """Give the time that so many percent of the calls kept to."""
    return float(np.percentile(times_ms, percent))


def _processor() -> str:
    lines = _PROCESSOR.read_text().splitlines() if _PROCESSOR.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{platform.machine()} {named[0]}" if named else platform.machine()
