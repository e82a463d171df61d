"""The commands that judge sets of the shared data, each on a server of its own: rights, answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.progress import track

from acl.directory import find_tenant
from evals import answered as worth
from evals import rights as judging
from evals.answering import answer_set
from evals.checks import keys_of, load_rights, stored
from evals.commands import Out, Seed, or_refuse, write
from evals.opinion import Judge
from evals.questions import load_questions
from evals.report import Measure, Report
from pipeline.migrate import open_database
from pipeline.settings import load_settings

# What must never be seen: one of it, and the command ends with 1.
_NEVER = ("leak", "fewer results than there are", "allowed and not opened", "explained wrongly")


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("rights")(rights)
    app.command("answers")(answers)


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


def answers(
    folders: Annotated[list[Path], typer.Argument(help="documents and questions as JSONL.")],
    out: Out,
    n: Annotated[int, typer.Option("--n", min=0, help="So many of each; 0 for all.")] = 50,
    seed: Seed = 1,
    judge_url: Annotated[
        str, typer.Option(help="A judge's endpoint, up to /v1. It gets questions and answers.")
    ] = "",
    judge_model: Annotated[str, typer.Option(help="The judge's model.")] = "",
    judge_key: Annotated[str, typer.Option(envvar="OSTIARY_JUDGE_KEY")] = "",
) -> None:
    """Ask question collections end to end, each on a server of its own; exit 1 on a bad citation.

    The engine and the models are those of your settings.
    """
    if bool(judge_url) != bool(judge_model):
        raise typer.BadParameter("a judge needs --judge-url and --judge-model")
    sets = [or_refuse(load_questions, each) for each in folders]
    head = {"Authorization": f"Bearer {judge_key}"} if judge_key else {}
    with (
        httpx.Client(base_url=judge_url, headers=head, timeout=60) as client,
        Console(stderr=True).status("Starting") as status,
    ):
        judge = Judge(client, judge_model) if judge_url else None
        done = {each.name: answer_set(each, out, n, seed, status.update, judge) for each in sets}
    report = answers_report(done, seed, judge_model)
    write(report, out)
    bad = [m for m in report.measures if m.name.endswith(worth.INVALID) and m.value > 0]
    raise typer.Exit(1 if bad else 0)


def answers_report(done: Mapping[str, worth.Done], seed: int, judge: str) -> Report:
    """Give the report of question sets, and of all of them together."""
    measures = [m for name, each in done.items() for m in worth.measures_of(name, each)]
    if len(done) > 1:
        every = [pair for each in done.values() for pair in each]
        measures += worth.measures_of("all", every)
    settings = load_settings()
    engine = settings.generation.base_url or "embedded"
    made_of = {
        "engine": f"{engine} {settings.generation.model}", "encoder": settings.retrieval.encoder,
        "judge": judge or "none",
    }  # fmt: skip
    left = () if judge else ("an outside model's judgement: none was named",)
    return Report("Answers", seed, made_of, tuple(measures), left, (worth.glance(measures),))


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
