"""`ostiary eval`: judge the product, a deployment, or what is to come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from evals import commands, commands_sets
from evals.attacks.suite import ATTACKS, Fought, fight, stands
from evals.report import private_text

app = typer.Typer(
    help="Is it right, is it safe, is it fast.", add_completion=False, no_args_is_help=True
)
commands.add_to(app)
commands_sets.add_to(app)


@app.callback()
def evals() -> None:
    """Judge retrieval, a running server, or one of our own under attack."""


@app.command()
def attacks(
    only: Annotated[list[str] | None, typer.Argument(help="Numbers; all if none.")] = None,
    times: Annotated[int, typer.Option(min=1, help="So many times the usual tries.")] = 1,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write all figures here.")] = None,
) -> None:
    """Attack a server of our own, started over an empty folder; exit 1 if one works."""
    try:
        fighting = fight(only or (), times)
        fought = []
        table = Table(*Fought.HEADS, box=None)
        chosen = only or ATTACKS
        for each in track(fighting, "Attacking", len(chosen), console=Console(stderr=True)):
            fought.append(each)
            table.add_row(*each.line().values())
    except KeyError as failure:
        raise typer.BadParameter(f"{failure.args[0]}; docs/attacks.md lists them") from None
    Console().print(table)
    if as_json is not None:
        private_text(as_json, json.dumps([each.as_json() for each in fought], indent=1))
    raise typer.Exit(0 if stands(fought) else 1)


if __name__ == "__main__":
    app()
