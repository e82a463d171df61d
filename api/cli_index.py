"""`ostiary index`: the versions of the index, one encoder each, and whether they are sound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from acl.versions import all_versions
from pipeline.migrate import open_database
from pipeline.reindex import Reindex, find_version
from pipeline.settings import Settings, load_settings
from retrieval.chunk import Chunker

_index = typer.Typer(help="Versions of the index: one encoder each.", no_args_is_help=True)

_SHOWN = 20

Number = Annotated[int, typer.Argument(help="The version, as `index list` shows it.")]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(_index, name="index")


@_index.command("list")
def listed() -> None:
    """List the versions, and what each lacks."""
    with _reindex() as (work, _):
        table = Table("version", "encoder", "model", "width", "state", "passages lacking", box=None)
        for each in all_versions(work.database):
            state = "live" if each.live else "kept" if each.complete else "building"
            table.add_row(str(each.id), each.encoder, each.name, str(each.width), state,
                          str(work.n_left(each.id)))  # fmt: skip
    Console().print(table)


@_index.command("build")
def built(
    encoder: Annotated[str, typer.Argument(help="'default', a path or a hub name.")],
) -> None:
    """Make a version of another encoder, or go on with it. Servers and ingests go on meanwhile."""
    from pipeline.build import build_encoder

    with _reindex() as (work, settings), _bar("Encoding") as show:
        made = work.build(encoder, build_encoder(encoder, settings.threads), show)
    Console().print(f"{made} is complete; search it with: ostiary index switch {made.id}")


@_index.command("switch")
def switched(version: Number) -> None:
    """Search another version from the next request on. The one before is kept up: switch back."""
    with _reindex() as (work, _):
        before = work.switch(version)
        now = find_version(work.database, version)
    Console(soft_wrap=True).print(
        f"{now} is live; back with: ostiary index switch {before.id}. "
        f"Set OSTIARY_RETRIEVAL__ENCODER={now.encoder} for the next start"
    )


@_index.command("drop")
def dropped(version: Number) -> None:
    """Delete a version that is not live. Running servers that still use it must have switched."""
    with _reindex() as (work, _), _bar("Deleting") as show:
        n_gone = work.drop(version, show)
    Console().print(f"version {version} is gone, with {n_gone} vectors")


@_index.command("reembed")
def reembedded(version: Number) -> None:
    """Encode every passage of a version anew, in place."""
    with _reindex() as (work, _), _bar("Encoding") as show:
        n_done = work.reembed(find_version(work.database, version), show)
    Console().print(f"{n_done} passages encoded anew")


@_index.command("verify")
def verified() -> None:
    """Compare the live index with the database, row by row; exit code 1 if they differ."""
    from pipeline.indexing import build_snapshots
    from retrieval.words import Lexicon

    with _reindex() as (work, settings):
        live = next((each for each in all_versions(work.database) if each.live), None)
        folder = None if live is None else build_snapshots(settings, live.name, live.width)
        lexicon = Lexicon(settings.retrieval.stem_language)
        found = work.verify(lexicon, folder, settings.retrieval.merge_rows)
        shown = list(islice(found, _SHOWN))
    console = Console(soft_wrap=True)
    for each in shown:
        said = f"tenant {each.tenant}: passage {each.passage} {each.what}"
        console.print(said, style="bold red", markup=False)
    if shown:
        raise typer.Exit(1)
    console.print("the index is what the database says")


@contextmanager
def _reindex() -> Iterator[tuple[Reindex, Settings]]:
    from pipeline.build import build_chunker, build_encoders

    settings = load_settings()
    database = open_database(settings)
    encoders = build_encoders(database, settings.threads)

    def chunker() -> Chunker:
        return build_chunker(settings, encoders.opening(settings.retrieval.encoder))

    try:
        yield Reindex(database, encoders, chunker), settings
    finally:
        database.close()


@contextmanager
def _bar(said: str) -> Iterator[Callable[[int], None]]:
    quiet = Console(stderr=True)
    with Progress(console=quiet, transient=True, disable=not quiet.is_terminal) as progress:
        task = progress.add_task(said, total=None)
        yield lambda n_done: progress.update(task, completed=n_done)
