"""`ostiary eval`: judge the product, a deployment, or what is to come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from acl.directory import find_tenant
from evals import commands
from evals.attacks.suite import ATTACKS, Fought, fight, stands
from evals.checks import bound, keys_of, load_rights, run_checks, stored
from evals.report import private_text
from pipeline.migrate import open_database
from pipeline.settings import load_settings

app = typer.Typer(
    help="Is it right, is it safe, is it fast.", add_completion=False, no_args_is_help=True
)
commands.add_to(app)


@app.callback()
def evals() -> None:
    """Judge retrieval, a running server, or one of our own under attack."""


@app.command()
def checks(
    folder: Annotated[Path, typer.Argument(help="documents, principals and checks as JSONL.")],
    tenant: Annotated[str, typer.Option(envvar="OSTIARY_TENANT")],
    url: Annotated[str, typer.Option(envvar="OSTIARY_URL")] = "http://127.0.0.1:8080",
    n_checks: Annotated[int, typer.Option(help="The first so many; 0 for all.")] = 0,
) -> None:
    """Run every check as its user, with keys that live an hour; exit 1 on a leak or shortfall."""
    rights = load_rights(folder)
    chosen = rights.checks[:n_checks] if n_checks else rights.checks
    settings = load_settings()
    database = open_database(settings)
    tenant_id = find_tenant(database, tenant)
    users = (each.user for each in chosen)
    keys = keys_of(database, tenant_id, users, settings.secret_bytes())
    name_of, n_passages = stored(database, tenant_id)
    console = Console()
    with httpx.Client(base_url=url, timeout=60) as client:
        running = run_checks(client, rights, chosen, keys.__getitem__, name_of, n_passages)
        done = list(track(running, "Checking", total=len(chosen), console=Console(stderr=True)))
    database.close()
    leaks, misses = sum(each.is_leak for each in done), sum(each.is_miss for each in done)
    short = sum(each.n_short > 0 for each in done)
    first = sum(each.rank == 1 for each in done)
    table = Table("what", "events", "of", "bound at 95 %", box=None)
    n_allowed = sum(each.check.allowed for each in done)
    for name, events, of in (
        ("leak", leaks, len(done)),
        ("fewer results than there are", short, len(done)),
        ("allowed document not found", misses, n_allowed),
    ):
        limit = bound(events, of)
        table.add_row(name, str(events), str(of), f"{limit:.4f}" if events == 0 else "")
    console.print(table)
    console.print(f"{first} of {n_allowed} allowed documents came first")
    raise typer.Exit(1 if leaks or short else 0)


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
