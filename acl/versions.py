"""Index versions: the encoders for which passages have vectors, and the one that is searched.

They are the deployment's, not a tenant's. A new one is made beside the live one, filled, and
switched to; the old one is kept up so that one can go back, until it is dropped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from acl.errors import AclRefused, UnknownResource
from acl.session import Database
from acl.tables import IndexVersionRow, InstanceRow


@dataclass(frozen=True, slots=True)
class Version:
    """An index version. encoder: how it is loaded. name: model and fingerprint."""

    id: int
    encoder: str
    name: str
    width: int
    complete: bool
    live: bool

    def __str__(self) -> str:
        return f"version {self.id}: {self.name}, {self.width} wide"


def versions(session: Session) -> tuple[Version, ...]:
    """List the versions there are, oldest first."""
    live = session.scalars(select(InstanceRow.live_version)).one_or_none()
    rows = session.scalars(select(IndexVersionRow).order_by(IndexVersionRow.id))
    return tuple(
        Version(row.id, row.encoder, row.name, row.width, row.complete, row.id == live)
        for row in rows
    )


def held_versions(session: Session) -> tuple[Version, ...]:
    """List the versions, and keep them as they are until the transaction ends."""
    session.scalars(select(InstanceRow).with_for_update(read=True)).one_or_none()
    return versions(session)


def all_versions(database: Database) -> tuple[Version, ...]:
    """List the versions in a snapshot of their own."""
    with database.unpinned() as session:
        return versions(session)


def begin(session: Session, encoder: str, name: str, width: int) -> Version:
    """Make the first version, which is live at once: there is nothing it could lack."""
    row = IndexVersionRow(
        encoder=encoder, name=name, width=width, complete=True, created_s=time.time()
    )
    session.add(row)
    session.flush()
    instance = session.get_one(InstanceRow, 1)
    instance.live_version = row.id
    session.flush()
    return Version(row.id, encoder, name, width, complete=True, live=True)


def add(database: Database, encoder: str, name: str, width: int) -> Version:
    """Make a version that new passages get vectors for from now on; the same one if it is there."""
    with database.unpinned(writes=True) as session:
        _locked(session)
        known = {each.name: each for each in versions(session)}
        if name in known:
            return known[name]
        if not known:
            return begin(session, encoder, name, width)
        row = IndexVersionRow(
            encoder=encoder, name=name, width=width, complete=False, created_s=time.time()
        )
        session.add(row)
        session.flush()
        return Version(row.id, encoder, name, width, complete=False, live=False)


def complete(database: Database, version: int) -> None:
    """Say that no passage lacks a vector of the version."""
    with database.unpinned(writes=True) as session:
        _locked(session)
        _row(session, version).complete = True


def switch(database: Database, version: int) -> Version:
    """Search another version from the next request on, in every process.

    Gives the one that was live. Raises: UnknownResource; AclRefused if it is not complete.
    """
    with database.unpinned(writes=True) as session:
        instance = _locked(session)
        if not _row(session, version).complete:
            raise AclRefused(
                f"version {version} is not complete; run: ostiary index build, with its encoder"
            )
        before = next((each for each in versions(session) if each.live), None)
        instance.live_version = version
    if before is None:
        raise UnknownResource("there is no version yet: ingest something first")
    return before


def forget(database: Database, version: int) -> None:
    """Take a version off the list; new passages get no vectors for it any more.

    Raises: UnknownResource; AclRefused if it is live.
    """
    with database.unpinned(writes=True) as session:
        instance = _locked(session)
        row = _row(session, version)
        if instance.live_version == version:
            raise AclRefused(f"version {version} is live; switch to another one first")
        session.delete(row)


def _locked(session: Session) -> InstanceRow:
    return session.scalars(select(InstanceRow).with_for_update()).one()


def _row(session: Session, version: int) -> IndexVersionRow:
    row = session.get(IndexVersionRow, version)
    if row is None:
        raise UnknownResource(f"no index version {version}; see: ostiary index list")
    return row
