"""`ostiary explain`: why somebody may, or may not, do something to a resource."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from acl.directory import find_principal, find_tenant, reference
from acl.explain import Reason, explain
from acl.tables import CollectionRow
from acl.types import Action, Level, Principal
from api.cli_admin import Tenant, resource_named
from pipeline.explaining import shown
from pipeline.migrate import open_database
from pipeline.settings import load_settings


def add_to(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("explain")(explained)


def explained(
    principal: Annotated[str, typer.Argument(help="user:NAME or group:NAME")],
    resource: Annotated[str, typer.Argument(help="tenant, collection:PATH or document:ID")],
    tenant: Tenant,
    action: Annotated[Action, typer.Option(help="What is asked about.")] = Action.READ,
) -> None:
    """Say why somebody may, or may not: the grants on the way, from the tenant down."""
    database = open_database(load_settings())
    with database.reading(find_tenant(database, tenant)) as session:
        row = find_principal(session, principal)
        at = resource_named(session, resource)
        subject = Principal(row.tenant, row.id, reference(row))
        found = explain(session, subject, action, at, time.time())

        def stands(reason: Reason) -> str:
            if reason.origin.level is Level.COLLECTION:
                path = session.get_one(CollectionRow, reason.origin.id).path
                return f"collection:{path}"
            return reason.origin.level.value

        table = Table("where", "grant", "through", "", box=None)
        for each in found.reasons:
            ground = shown(session, each, stands(each), every_group=True)
            table.add_row(
                ground.where,
                f"{ground.effect.value} {action.value}",
                " in ".join(ground.chain),
                ground.counts.value,
            )
    database.close()
    console = Console()
    said = "may" if found.verdict else "may not"
    console.print(f"{principal} {said} {action.value} {resource}", markup=False, highlight=False)
    if found.reasons:
        console.print(table)
    else:
        console.print("no grant on the way concerns them", style="dim")
