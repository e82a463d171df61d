"""`ostiary audit`: read the audit log, check that nothing in it was changed, keep its anchor."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from sqlalchemy import select

from acl.chain import Anchor, anchor, chain_key, check, prune
from acl.directory import find_principal, find_tenant, reference
from acl.tables import AuditRow, PrincipalRow
from api.cli_admin import Tenant
from pipeline.migrate import open_database
from pipeline.settings import load_settings

_audit = typer.Typer(help="Who did and read what.", no_args_is_help=True)

Moment = Annotated[datetime, typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"])]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(_audit, name="audit")


@_audit.command("list")
def listed(
    tenant: Tenant,
    since: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"])
    ] = None,
    principal: Annotated[str, typer.Option(help="user:NAME; else everybody.")] = "",
    event: Annotated[str, typer.Option(help="E.g. grant.give, answer, document.text.")] = "",
    last: Annotated[int, typer.Option(min=1, help="At most so many, the last ones.")] = 100,
) -> None:
    """List records, oldest first, times in UTC."""
    database = open_database(load_settings())
    table = Table("when", "who", "event", "resource", "outcome", "reason", "documents", box=None)
    with database.reading(find_tenant(database, tenant)) as session:
        wanted = select(AuditRow).order_by(AuditRow.id.desc()).limit(last)
        if since is not None:
            wanted = wanted.where(AuditRow.at_s >= since.replace(tzinfo=UTC).timestamp())
        if principal:
            wanted = wanted.where(AuditRow.principal_id == find_principal(session, principal).id)
        if event:
            wanted = wanted.where(AuditRow.event == event)
        names = {row.id: reference(row) for row in session.scalars(select(PrincipalRow))}
        for row in reversed(session.scalars(wanted).all()):
            when = datetime.fromtimestamp(row.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
            who = names.get(row.principal_id, f"principal {row.principal_id}")
            table.add_row(
                when, who if row.principal_id else "operator", row.event, row.resource,
                row.outcome, row.reason, " ".join(row.documents),
            )  # fmt: skip
    database.close()
    Console().print(table)


@_audit.command("verify")
def verified(
    tenant: Tenant,
    anchor_line: Annotated[
        str, typer.Option("--anchor", help="What `audit anchor` printed once, kept elsewhere.")
    ] = "",
) -> None:
    """Check every record against its seal; exit code 1 and the first fault if one is found."""
    settings = load_settings()
    database = open_database(settings)
    held = Anchor.of(anchor_line) if anchor_line else None
    with database.reading(find_tenant(database, tenant)) as session:
        found = check(session, chain_key(settings.secret_bytes()), held)
    database.close()
    console = Console(soft_wrap=True)
    if found.fault:
        console.print(f"NOT as it was written: {found.fault}", style="bold red", markup=False)
        raise typer.Exit(1)
    console.print(
        f"{found.n_records} records under {found.n_seals} seals are as they were written; "
        f"{found.n_unsealed} wait for a seal"
        + ("" if held else "; without --anchor a cut-off end would not be seen")
    )


@_audit.command("anchor")
def anchored(tenant: Tenant) -> None:
    """Print a line that fixes the log up to now. Keep it where this machine can't write."""
    database = open_database(load_settings())
    with database.reading(find_tenant(database, tenant)) as session:
        found = anchor(session)
    database.close()
    Console(soft_wrap=True).print(str(found) if found else "nothing is sealed yet")


@_audit.command("prune")
def pruned(tenant: Tenant, before: Moment) -> None:
    """Remove records that were sealed before a day (UTC). That it was done stays in the log."""
    settings = load_settings()
    database = open_database(settings)
    before_s, key = before.replace(tzinfo=UTC).timestamp(), chain_key(settings.secret_bytes())
    with database.writing(find_tenant(database, tenant)) as writing:
        n_gone = prune(writing, key, before_s, time.time())
    database.close()
    Console().print(f"{n_gone} records removed")
