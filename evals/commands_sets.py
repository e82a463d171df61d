"""The commands that judge sets of the shared data, each on a server of its own: rights, answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.progress import track

from acl.directory import find_tenant
from evals import rights as judging
from evals.checks import keys_of, load_rights, stored
from evals.commands import Out, or_refuse, write
from evals.report import Measure, Report
from pipeline.migrate import open_database
from pipeline.settings import load_settings

# What must never be seen: one of it, and the command ends with 1.
_NEVER = ("leak", "fewer results than there are", "allowed and not opened", "explained wrongly")


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("rights")(rights)


def rights(
    folders: Annotated[list[Path], typer.Argument(help="documents, principals, checks as JSONL.")],
    out: Out,
    n_checks: Annotated[int, typer.Option(help="The first so many of each; 0 for all.")] = 0,
    tenant: Annotated[
        str, typer.Option(help="Of a running server that holds the one folder's documents.")
    ] = "",
    url: Annotated[str, typer.Option(envvar="OSTIARY_URL")] = "http://127.0.0.1:8080",
    manager: Annotated[
        str, typer.Option(help="Who asks a running server for explanations: user:NAME.")
    ] = "",
) -> None:
    """Check who finds, opens and may read what; exit 1 on a leak, a shortfall, a wrong reason.

    Without --tenant each folder gets a server of its own, filled by the commands users have.
    """
    if tenant:
        if len(folders) != 1:
            raise typer.BadParameter("a running server is judged by one folder")
        done = {folders[0].name: _on_running(folders[0], n_checks, tenant, url, manager)}
    else:
        done = {}
        with Console(stderr=True).status("Starting") as status:
            for folder in folders:
                done[folder.name] = or_refuse(
                    lambda each: judging.judge_set(each, out, n_checks, status.update), folder
                )
    report = rights_report(done, url if tenant else "a server of its own for each set")
    write(report, out)
    raise typer.Exit(1 if faults(report.measures) else 0)


def rights_report(done: dict[str, list[judging.Doors]], server: str) -> Report:
    """Give the report of judged sets, and of all of them together."""
    measures = [m for name, doors in done.items() for m in judging.measures_of(name, doors)]
    everything = [each for doors in done.values() for each in doors]
    if len(done) > 1:
        measures += judging.measures_of("all", everything)
    left = () if any(each.explained is not None for each in everything) else (
        "explanations: no --manager was named to ask for them",
    )  # fmt: skip
    made_of = {"server": server, "encoder": load_settings().retrieval.encoder}
    return Report("Rights", 0, made_of, tuple(measures), left, (judging.glance(measures),))


def faults(measures: Sequence[Measure]) -> list[Measure]:
    """Give the measures that tell of what must never be."""
    return [m for m in measures if m.name.rpartition("/")[2] in _NEVER and m.value > 0]


def _on_running(
    folder: Path, n_checks: int, tenant: str, url: str, manager: str
) -> list[judging.Doors]:
    found = or_refuse(load_rights, folder)
    chosen = found.checks[:n_checks] if n_checks else found.checks
    settings = load_settings()
    database = open_database(settings)
    tenant_id = find_tenant(database, tenant)
    who = [each.user for each in chosen] + ([manager] if manager else [])
    keys = keys_of(database, tenant_id, who, settings.secret_bytes())
    name_of, n_passages = stored(database, tenant_id)
    database.close()
    with httpx.Client(base_url=url, timeout=60) as client:
        asking = judging.Asking(client, keys, name_of, n_passages, keys.get(manager, ""))
        running = judging.ask_running(asking, found, chosen)
        return list(track(running, "Checking", len(chosen), console=Console(stderr=True)))
