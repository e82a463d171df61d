"""What a benchmark found: rows with their bars, on the screen and in results/NAME.json."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).with_name("results")
_VERSIONS = ("numpy", "faiss-cpu", "torch", "sentence-transformers", "xllamacpp", "pycasbin")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `ratio` is value over that of `against`; `bar` says what it must keep to."""

    measure: str
    value: float
    unit: str
    against: str = ""
    ratio: float | None = None
    bar: str = ""
    met: bool | None = None


def at_most(value: float, bar: float) -> tuple[str, bool]:
    """Give a bar in words, and whether it is met."""
    return f"<= {bar:g}", value <= bar


def write(name: str, rows: list[Row]) -> None:
    """Write results/NAME.json and show the table."""
    RESULTS.mkdir(exist_ok=True)
    found = {
        "name": name,
        "command": f"make bench-{name}",
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "load at the end": round(os.getloadavg()[0], 2),
            "python": platform.python_version(),
        },
        "versions": {package: version(package) for package in _VERSIONS},
        "rows": [asdict(row) for row in rows],
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    table = Table("measure", "value", "unit", "against", "ratio", "bar", "met", title=name)
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        met = {None: "", True: "yes", False: "[bold red]no[/]"}[row.met]
        table.add_row(
            row.measure, f"{row.value:.4g}", row.unit, row.against, ratio, row.bar, met
        )  # fmt: skip
    Console(width=140).print(table)
