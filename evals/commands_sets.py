"""The commands that judge sets of the shared data, each on a server of its own; and runs of all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evals.commands import Out, Seed, asked_of, finished, or_refuse
from evals.config import Answers, Rights, read_run


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (rights, answers, run):
        app.command()(command)


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
    asked = asked_of(Rights, collections=folders, n_checks=n_checks, tenant=tenant, url=url,
                     manager=manager)  # fmt: skip
    finished({"rights": asked}, out, 0)


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
    asked = asked_of(Answers, collections=folders, n=n, judge_url=judge_url,
                     judge_model=judge_model, judge_key=judge_key)  # fmt: skip
    finished({"answers": asked}, out, seed)


def run(
    config: Annotated[Path, typer.Argument(help="Which suites, as YAML; docs/evals.md.")],
    out: Out,
) -> None:
    """Run several suites to one report; exit 1 if one found what must never be.

    Each suite's own report lies in a folder beside it. What was done is kept, so that the same
    command goes on after a break.
    """
    asked = or_refuse(read_run, config)
    finished(asked.suites(), out, asked.seed)
