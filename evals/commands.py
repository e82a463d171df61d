"""The commands: quality of retrieval, own questions, a new report against a saved one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import httpx
import typer
from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.table import Table

from acl.errors import AclError
from evals.compare import Compared, compare, read_gate
from evals.config import Own, Quality, Suite
from evals.own import write_example, write_questions
from evals.report import Measure, Report, read_report
from evals.suites import drafted, run_suite, together
from generation.errors import GenerationError

T = TypeVar("T")
A = TypeVar("A", bound=BaseModel)

Out = Annotated[Path, typer.Option("--out", help="Folder of report.json, .md and .html.")]
Seed = Annotated[int, typer.Option(help="Of every choice that is drawn.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (quality, init, draft, own, compare_reports):
        app.command("compare" if command is compare_reports else None)(command)


def quality(
    folders: Annotated[list[Path], typer.Argument(help="Collections in BEIR's layout.")],
    out: Out,
    encoder: Annotated[str, typer.Option(help="As OSTIARY_RETRIEVAL__ENCODER.")] = "default",
    seed: Seed = 1,
    chunked: Annotated[bool, typer.Option(help="Measure the product's passages too.")] = False,
) -> None:
    """Measure each stage of retrieval on collections with judgements."""
    asked = asked_of(Quality, collections=folders, encoder=encoder, chunked=chunked)
    finished({"quality": asked}, out, seed)


def init(
    folder: Annotated[Path, typer.Argument(help="Where questions.jsonl is written.")],
) -> None:
    """Write an example of questions of your own, to edit."""
    try:
        path = write_example(folder)
    except FileExistsError:
        raise typer.BadParameter(f"{folder}/questions.jsonl is there already") from None
    Console().print(f"{path}: edit it, then: ostiary eval own {path} --tenant NAME --out FOLDER")


def draft(
    path: Annotated[Path, typer.Argument(help="Where the questions are written, as .jsonl.")],
    tenant: Annotated[str, typer.Option(envvar="OSTIARY_TENANT")],
    asker: Annotated[str, typer.Option("--as", help="Who reads and asks: user:NAME.")],
    url: Annotated[str, typer.Option(envvar="OSTIARY_URL")] = "http://127.0.0.1:8080",
    n: Annotated[int, typer.Option("--n", min=1, help="At most so many.")] = 20,
    seed: Seed = 1,
) -> None:
    """Draft questions from passages that somebody may read; marked as drafted, to be edited."""
    if path.exists():
        raise typer.BadParameter(f"{path} is there already")
    with Console(stderr=True).status("Starting") as status:
        try:
            found = drafted(tenant, url, asker, n, seed, status.update)
        except (AclError, GenerationError, TimeoutError, httpx.HTTPError) as failure:
            raise typer.BadParameter(f"{failure}") from None
    write_questions(path, found)
    Console().print(f"{path}: {len(found)} of {n} drafted; an engine wrote them: read them first")
    raise typer.Exit(0 if found else 1)


def own(
    questions: Annotated[Path, typer.Argument(help="Questions as .jsonl or .csv.")],
    out: Out,
    tenant: Annotated[str, typer.Option(envvar="OSTIARY_TENANT")],
    url: Annotated[str, typer.Option(envvar="OSTIARY_URL")] = "http://127.0.0.1:8080",
    answers: Annotated[bool, typer.Option(help="Ask for answers too.")] = True,
    seed: Seed = 1,
) -> None:
    """Ask a running server your own questions, as the people they name."""
    asked = asked_of(Own, questions=questions, tenant=tenant, url=url, answers=answers)
    finished({"own": asked}, out, seed)


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


def asked_of(kind: type[A], **options: object) -> A:
    """Make what a suite is asked of a command's options; a fault is told on one line."""
    try:
        return kind.model_validate(options)
    except ValidationError as failure:
        raise typer.BadParameter("; ".join(e["msg"] for e in failure.errors())) from None


def finished(suites: Mapping[str, Suite], out: Path, seed: int) -> NoReturn:
    """Run suites, write their report, and end: with 1 if one found what must never be.

    One of several that fails is a fault in the report; the others are run all the same.
    """
    reports: list[Report] = []
    with Console(stderr=True).status("Starting") as status:
        for name, suite in suites.items():
            try:
                done = run_suite(suite, out, seed, status.update)
            except (OSError, ValueError, KeyError, RuntimeError, AclError, httpx.HTTPError) as why:
                if len(suites) == 1:
                    raise typer.BadParameter(f"{why}") from None
                done = Report(name, seed, {}, (), faults=(f"did not finish: {why}",))
            if len(suites) > 1:
                done.write(out / name)
            reports.append(done)
    report = together(reports, seed) if len(reports) > 1 else reports[0]
    write(report, out)
    for each in report.faults:
        Console(stderr=True).print(each, style="bold red")
    raise typer.Exit(1 if report.faults else 0)


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
