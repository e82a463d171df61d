"""The commands: quality of retrieval, own questions, a new report against a saved one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import httpx
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from acl.directory import find_tenant
from evals.checks import keys_of, stored
from evals.compare import Compared, compare, read_gate
from evals.own import ask_all, judged, read_questions, write_example
from evals.report import Measure, Report, read_report
from evals.retrieval.collection import load_collection
from evals.retrieval.quality import chosen_elsewhere, judge
from pipeline.build import build_encoder
from pipeline.migrate import open_database
from pipeline.settings import load_settings

T = TypeVar("T")

Out = Annotated[Path, typer.Option("--out", help="Folder of report.json, .md and .html.")]
Seed = Annotated[int, typer.Option(help="Of every choice that is drawn.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (quality, init, own, compare_reports):
        app.command("compare" if command is compare_reports else None)(command)


def quality(
    folders: Annotated[list[Path], typer.Argument(help="Collections in BEIR's layout.")],
    out: Out,
    encoder: Annotated[str, typer.Option(help="As OSTIARY_RETRIEVAL__ENCODER.")] = "default",
    seed: Seed = 1,
    chunked: Annotated[bool, typer.Option(help="Measure the product's passages too.")] = False,
) -> None:
    """Measure each stage of retrieval on collections with judgements."""
    settings = load_settings()
    loaded = build_encoder(encoder, settings.threads)
    quiet = Console(stderr=True)
    collections = [or_refuse(load_collection, folder) for folder in folders]
    with quiet.status("Reading") as status:
        done = [
            judge(each, loaded, settings.retrieval, seed, chunked=chunked, told=status.update)
            for each in collections
        ]
        status.update("Choosing weights")
        measures = [m for each in done for m in each.measures] + chosen_elsewhere(done, seed)
    made_of = {
        "encoder": loaded.name, "dense weight": f"{settings.retrieval.dense_weight:g}",
        "depth of legs": str(settings.retrieval.legs_depth),
        **{each.name: f"sha256 {each.digest[:12]}" for each in collections},
    }  # fmt: skip
    left = () if settings.retrieval.reranker != "fusion" else (
        "reranked: no reranker is set, so the order of fusion is what is served",
    )  # fmt: skip
    write(Report("Quality of retrieval", seed, made_of, tuple(measures), left), out)


def init(
    folder: Annotated[Path, typer.Argument(help="Where questions.jsonl is written.")],
) -> None:
    """Write an example of questions of your own, to edit."""
    try:
        path = write_example(folder)
    except FileExistsError:
        raise typer.BadParameter(f"{folder}/questions.jsonl is there already") from None
    Console().print(f"{path}: edit it, then: ostiary eval own {path} --tenant NAME --out FOLDER")


def own(
    questions: Annotated[Path, typer.Argument(help="Questions as .jsonl or .csv.")],
    out: Out,
    tenant: Annotated[str, typer.Option(envvar="OSTIARY_TENANT")],
    url: Annotated[str, typer.Option(envvar="OSTIARY_URL")] = "http://127.0.0.1:8080",
    answers: Annotated[bool, typer.Option(help="Ask for answers too.")] = True,
    seed: Seed = 1,
) -> None:
    """Ask a running server your own questions, as the people they name."""
    asked = or_refuse(read_questions, questions)
    settings = load_settings()
    database = open_database(settings)
    tenant_id = find_tenant(database, tenant)
    askers = (each.asker for each in asked)
    keys = keys_of(database, tenant_id, askers, settings.secret_bytes())
    name_of, _ = stored(database, tenant_id)
    database.close()
    # In another order each seed: what one question leaves in a cache must help no other.
    random.Random(seed).shuffle(asked)  # noqa: S311 - an order
    with httpx.Client(base_url=url, timeout=settings.timeout_s + 5) as client:
        asking = ask_all(client, asked, keys.__getitem__, name_of, answers=answers)
        done = list(track(asking, "Asking", len(asked), console=Console(stderr=True)))
        model = client.get(
            "/v1/models", headers={"Authorization": f"Bearer {keys[asked[0].asker]}"}
        )
    models = ", ".join(each["id"] for each in model.json()["data"])
    made_of = {"server": url, "models": models, "questions": questions.name}
    report = Report("Own questions", seed, made_of, tuple(judged(done, seed, answers=answers)))
    write(report, out)


def compare_reports(
    base: Annotated[Path, typer.Argument(help="The saved report.json.")],
    new: Annotated[Path, typer.Argument(help="The new one.")],
    gate: Annotated[Path | None, typer.Option(help="Rules as YAML; docs/evals.md.")] = None,
) -> None:
    """Say what changed between two reports; exit 1 with what a gate refuses."""
    rules = None if gate is None else or_refuse(read_gate, gate)
    reports = [or_refuse(read_report, path) for path in (base, new)]
    try:
        found = compare(reports[0], reports[1], rules)
    except ValueError as failure:
        raise typer.BadParameter(str(failure)) from None
    refused = [each for each in found if each.against]
    Console().print(_table(found))
    for each in refused:
        Console(stderr=True).print(f"{each.new.name}: {each.against}", style="bold red")
    raise typer.Exit(1 if refused else 0)


def _table(found: Iterable[Compared]) -> Table:
    table = Table("measure", "base", "new", "change", "p", box=None)
    for each in found:
        if each.base is None or each.change is None:
            table.add_row(each.new.name, "", f"{each.new.value:.4f}", "", "")
        elif each.change or each.against:
            p = "" if each.paired is None else f"{each.paired.p:.3g}"
            table.add_row(
                each.new.name, f"{each.base.value:.4f}", f"{each.new.value:.4f}",
                f"{each.change:+.4f}", p,
            )  # fmt: skip
    return table


def write(report: Report, out: Path) -> None:
    """Write a report to a folder, and its figures to the terminal."""
    report.write(out)
    table = Table("measure", "value", "95 %", "n", "", box=None)
    for m in report.measures:
        table.add_row(m.name, f"{m.value:.4f}", _interval(m), str(m.n), m.note)
    Console(width=160).print(table)
    Console(stderr=True).print(f"{out}/report.html, report.md, report.json")


def _interval(measure: Measure) -> str:
    if measure.low is None or measure.high is None:
        return ""
    return f"{measure.low:.3f} to {measure.high:.3f}"


def or_refuse(read: Callable[[Path], T], path: Path) -> T:
    """Read a file that the user named; what is wrong with it is told on one line."""
    try:
        return read(path)
    except (OSError, ValueError) as failure:
        raise typer.BadParameter(str(failure)) from None
