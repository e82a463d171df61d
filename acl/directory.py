"""Tenants, principals and collections by name: how people and files refer to them."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from sqlalchemy import select
from sqlalchemy.orm import Session

from acl.errors import AclRefused, UnknownPrincipal, UnknownResource
from acl.groups import EVERYONE
from acl.session import Database, Writing, new_id
from acl.tables import CollectionRow, PrincipalRow, TenantEntry
from acl.types import Kind, Principal

# A name is compared exactly; nothing in it can look like a kind, a pattern or a path.
_NAME = re.compile(r"[\w][\w.@+-]{0,199}")


def create_tenant(database: Database, name: str) -> str:
    """Make a tenant and its built-in group; gives the tenant's random id.

    Raises: AclRefused if the name is taken or is not a plain name.
    """
    checked_name(name)
    tenant = new_id("tn")
    with database.unpinned(writes=True) as session:
        if session.scalar(select(TenantEntry).where(TenantEntry.name == name)) is not None:
            raise AclRefused(f"tenant {name} exists")
        session.add(TenantEntry(id=tenant, name=name))
        session.flush()
        session.add(PrincipalRow(tenant=tenant, kind=Kind.GROUP.value, name=EVERYONE))
    return tenant


def find_tenant(database: Database, name: str) -> str:
    """Give the id of a tenant by its name. Raises: UnknownResource."""
    with database.unpinned() as session:
        found = session.scalar(select(TenantEntry.id).where(TenantEntry.name == name))
    if found is None:
        raise UnknownResource(f"no tenant named {name}; make it with: ostiary tenant add {name}")
    return found


def tenants(database: Database) -> dict[str, str]:
    """Map the names of all tenants to their ids. For the operator."""
    with database.unpinned() as session:
        rows = session.execute(select(TenantEntry.name, TenantEntry.id).order_by(TenantEntry.name))
        return dict(iter(rows))


def create_principal(
    writing: Writing, kind: Kind, name: str, display: str = ""
) -> tuple[PrincipalRow, bool]:
    """Find or make a principal; the flag says whether it was made.

    Raises: AclRefused if the name is not a plain name.
    """
    checked_name(name)
    row = _principal(writing.session, kind, name)
    if row is not None:
        if display and row.display != display:
            row.display = display
        return row, False
    row = PrincipalRow(kind=kind.value, name=name, display=display)
    writing.session.add(row)
    writing.session.flush()
    writing.rights_changed()
    return row, True


def find_principal(session: Session, reference: str) -> PrincipalRow:
    """Find a principal by "user:NAME", "group:NAME" or "service:NAME".

    Raises: UnknownPrincipal.
    """
    kind, colon, name = reference.partition(":")
    known = {each.value for each in Kind}
    if not colon or kind not in known:
        raise UnknownPrincipal(
            f"{reference!r} names no principal: write user:NAME, group:NAME or service:NAME"
        )
    row = _principal(session, Kind(kind), name)
    if row is None:
        raise UnknownPrincipal(f"no {kind} named {name}")
    return row


def reference(row: PrincipalRow) -> str:
    """Give the name under which `find_principal` finds it."""
    return f"{row.kind}:{row.name}"


def as_operator(session: Session, row: PrincipalRow) -> Principal:
    """Name a principal for the operator at the machine's own command line, without a key."""
    return Principal(session.info["tenant"], row.id, reference(row))


def create_collection(writing: Writing, path: str) -> CollectionRow:
    """Find or make a collection and those above it. "" and "." are not collections.

    Raises: AclRefused if the path is absolute, empty or climbs.
    """
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or path.startswith("/") or len(path) > 1000:
        raise AclRefused(f"{path!r} is no collection path: write names separated by /")
    above = create_collection(writing, "/".join(parts[:-1])) if len(parts) > 1 else None
    here, session = "/".join(parts), writing.session
    row = session.scalar(select(CollectionRow).where(CollectionRow.path == here))
    if row is None:
        row = CollectionRow(
            public_id=new_id("col"), path=here, parent_id=above.id if above else None
        )
        session.add(row)
        session.flush()
        writing.rights_changed()
    return row


def find_collection(session: Session, path: str) -> CollectionRow:
    """Find a collection by its path. Raises: UnknownResource."""
    here = "/".join(PurePosixPath(path).parts)
    row = session.scalar(select(CollectionRow).where(CollectionRow.path == here))
    if row is None:
        raise UnknownResource(f"no collection {path}")
    return row


def checked_name(name: str) -> str:
    """Give the name back if it is a plain name. Raises: AclRefused."""
    if not _NAME.fullmatch(name):
        raise AclRefused(
            f"{name!r} is no name: it starts with a letter, digit or underscore and goes on "
            "with these and . @ + - (200 at most)"
        )
    return name


def _principal(session: Session, kind: Kind, name: str) -> PrincipalRow | None:
    return session.scalar(
        select(PrincipalRow).where(PrincipalRow.kind == kind.value, PrincipalRow.name == name)
    )
