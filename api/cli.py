"""The command line: serve, ingest, ask; and, from cli_admin, who may read what."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from acl.directory import find_tenant
from acl.errors import AclError
from api import cli_admin, cli_audit, cli_explain, cli_index, cli_memory, cli_plan
from generation.errors import GenerationError
from pipeline.access import AccessSheet, Rule, read_sheet
from pipeline.errors import PipelineError, RulesRefused, SettingsRefused
from pipeline.ingest import Ingest, Outcome, Result
from pipeline.settings import load_settings
from pipeline.sources import Item, from_jsonl, from_paths, from_sheet
from retrieval.errors import RetrievalError

app = typer.Typer(
    help="Ostiary: answers from documents that not everybody may read.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
cli_admin.add_to(app)
cli_explain.add_to(app)
cli_audit.add_to(app)
cli_index.add_to(app)
cli_plan.add_to(app)
cli_memory.add_to(app)

Tenant = Annotated[str, typer.Option("--tenant", "-t", envvar="OSTIARY_TENANT", help="Its name.")]

_STYLE = {
    "created": "green", "updated": "cyan", "access changed": "cyan", "failed": "bold red",
    "unchanged": "dim",
}  # fmt: skip


def main() -> None:
    """Run the command line; an expected error is one line on stderr and exit code 1."""
    try:
        app()
    except (AclError, RetrievalError, GenerationError, PipelineError) as failure:
        Console(stderr=True).print(
            f"ostiary: {failure}", style="bold red", markup=False, highlight=False, soft_wrap=True
        )
        sys.exit(1)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one.")] = None,
) -> None:
    """Serve search and chat over HTTP until stopped."""
    settings = load_settings(
        **{name: value for name, value in (("host", host), ("port", port)) if value is not None}
    )
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("ostiary").setLevel(logging.INFO)
    # The port is taken first: that it is in use is told now, not after models are loaded.
    listening = _listen(settings.host, settings.port)
    import uvicorn

    from api.app import create_app
    from pipeline.build import build_house
    from pipeline.machine import keep_little
    from pipeline.window import window

    keep_little()
    house = build_house(settings)
    at = f"http://{settings.host}:{listening.getsockname()[1]}"
    Console(stderr=True).print(f"ostiary serves at {at} (model {house.pipeline.engine.model})")
    config = uvicorn.Config(
        create_app(house), log_level="warning", server_header=False, timeout_graceful_shutdown=10
    )
    with window(settings.home, house.memory.whole_json):
        uvicorn.Server(config).run(sockets=[listening])


@app.command()
def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders, or one .jsonl file.")],
    tenant: Tenant,
    collection: Annotated[str, typer.Option(help="Where they go, e.g. handbook/2026.")] = "",
    allow: Annotated[list[str] | None, typer.Option(help="user:NAME or group:NAME")] = None,
    deny: Annotated[list[str] | None, typer.Option(help="user:NAME or group:NAME")] = None,
    acl: Annotated[Path | None, typer.Option(help="An access.yaml; see docs/ingest.md.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a document.")] = False,
) -> None:
    """Bring documents in, with who may read them. Running it again embeds nothing twice."""
    sheet = None if acl is None else read_sheet(acl, collection)
    rule = Rule(read=tuple(allow or ()), deny=tuple(deny or ())) if allow or deny else None
    items = _items(paths, collection, rule, acl, sheet)
    from pipeline.build import build_encoders, build_maker, build_sandbox
    from pipeline.migrate import open_database

    settings = load_settings()
    database = open_database(settings)
    tenant_id = find_tenant(database, tenant)
    encoders = build_encoders(database, settings.threads)
    encoder = encoders.opening(settings.retrieval.encoder)
    outcomes: list[Outcome] = []
    quiet = Console(stderr=True)
    with build_sandbox(settings) as sandbox:
        flow = Ingest(database, build_maker(settings, encoder, sandbox, encoders))
        flow.prepare(tenant_id, items, sheet)
        with Progress(console=quiet, transient=True, disable=not quiet.is_terminal) as progress:
            task = progress.add_task("Ingesting", total=len(items))
            for outcome in flow.run(tenant_id, items):
                outcomes.append(outcome)
                progress.advance(task)
                if as_json:
                    # Written at once: what a reader of the pipe has seen is stored.
                    sys.stdout.write(json.dumps(_line(outcome), ensure_ascii=False) + "\n")
                    sys.stdout.flush()
    database.close()
    if not as_json:
        _report(outcomes)
    if any(each.result is Result.FAILED for each in outcomes):
        raise typer.Exit(1)


@app.command()
def migrate(
    let_in: Annotated[
        str,
        typer.Option(help="PostgreSQL role, owner of nothing, that servers run as: let it in."),
    ] = "",
) -> None:
    """Bring the database to this version's schema."""
    from acl.session import Database
    from pipeline.migrate import let_in as admit
    from pipeline.migrate import migrate as upgrade

    settings = load_settings()
    if not settings.database_url:
        settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    database = Database(settings.url)
    Console().print("migrated" if upgrade(database) else "nothing to do")
    if let_in:
        admit(database, let_in)
        Console().print(f"{let_in} may read and write rows, each session those of its tenant")
    database.close()


@app.command()
def ask(
    question: str,
    url: Annotated[str, typer.Option(envvar="OSTIARY_URL")] = "http://127.0.0.1:8080",
    key: Annotated[str, typer.Option(envvar="OSTIARY_KEY", help="An API key.")] = "",
) -> None:
    """Ask a running server, as whoever the key vouches for."""
    if not key:
        raise SettingsRefused("a key is needed: --key or OSTIARY_KEY; ostiary key add makes one")
    from api.cli_ask import ask_server

    sys.exit(ask_server(question, url, key, Console()))


@app.command(
    "eval",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def judge(arguments: typer.Context) -> None:
    """Judge it: quality, rights, attacks, load. Its own help: ostiary eval --help."""
    # In this process's place: the way in does not import what judges it.
    os.execv(sys.executable, [sys.executable, "-m", "evals", *arguments.args])  # noqa: S606


def _items(
    paths: list[Path],
    collection: str,
    rule: Rule | None,
    acl: Path | None,
    sheet: AccessSheet | None,
) -> list[Item]:
    if acl is not None and sheet is not None:
        if rule is not None:
            raise RulesRefused("--acl says who reads what; --allow and --deny can't be with it")
        return from_sheet(paths, acl.parent, sheet)
    if not collection:
        raise RulesRefused("documents need a place: --collection NAME, or --acl access.yaml")
    if any(path.suffix == ".jsonl" for path in paths):
        if len(paths) > 1:
            raise RulesRefused("a .jsonl file is ingested alone")
        return from_jsonl(paths[0], collection, rule)
    return from_paths(paths, collection, rule)


def _line(outcome: Outcome) -> dict[str, object]:
    return {
        "document": outcome.shown,
        "result": outcome.result.value,
        "passages": outcome.n_passages,
        "reason": outcome.reason,
    }


def _report(outcomes: list[Outcome]) -> None:
    table = Table("document", "result", "passages", "why", box=None)
    for each in outcomes:
        if each.result is not Result.UNCHANGED:
            style = _STYLE[each.result.value]
            shown = f"[{style}]{each.result.value}[/]"
            table.add_row(each.shown, shown, str(each.n_passages or ""), each.reason)
    console = Console()
    if table.row_count:
        console.print(table)
    counts = {result: sum(each.result is result for each in outcomes) for result in Result}
    said = ", ".join(f"{n} {result.value}" for result, n in counts.items() if n)
    console.print(f"{len(outcomes)} documents: {said or 'nothing to do'}")


def _listen(host: str, port: int) -> socket.socket:
    # Named TCP, asyncio turns Nagle's algorithm off: else an answer of two segments waits 40 ms
    # for the client's delayed acknowledgement.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as failure:
        raise SettingsRefused(
            f"can't listen on {host}:{port}: {failure.strerror}; choose another with --port"
        ) from failure
    return listening
