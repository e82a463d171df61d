"""`ostiary memory`: who holds which bytes of the running servers of this home, and why."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pipeline.errors import SettingsRefused
from pipeline.settings import load_settings
from pipeline.window import look

_MIB = 1 << 20


def add_to(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("memory")(memory)


def memory(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a server.")] = False,
) -> None:
    """Show what each running server of this home holds, what is free and what would fit."""
    home = load_settings().home
    found = look(home)
    if not found:
        raise SettingsRefused(f"no server of {home} runs here; start one with: ostiary serve")
    console = Console(soft_wrap=True)
    for process, shown in found.items():
        if as_json:
            line = json.dumps({"process": process, **json.loads(shown)})
            sys.stdout.write(line + "\n")
        else:
            _show(process, json.loads(shown), console)


def _show(process: int, shown: dict[str, Any], console: Console) -> None:
    for device in shown["devices"]:
        table = Table("MiB", "owner", "why", box=None)
        for each in device["owners"]:
            table.add_row(_mib(each["nbytes"]), each["owner"], each["why"])
        said = f"process {process}, {device['device']}: {_mib(device['held'])} MiB held"
        for name, text in (("budget", "of"), ("free", "free"), ("measured", "measured"),
                           ("other", "held by nobody")):  # fmt: skip
            if device[name] is not None:
                amount = f"{_mib(device[name])} MiB"
                said += f", of {amount}" if text == "of" else f", {amount} {text}"
        console.print(said, highlight=False, markup=False)
        console.print(table)
    console.print(
        f"room for about {shown['passages_fit']:,} more passages at once", highlight=False
    )


def _mib(nbytes: int) -> str:
    return f"{nbytes / _MIB:,.1f}"
