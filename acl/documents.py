"""A document's place among the rights: where it stands, who reads it, when it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, delete, select
from sqlalchemy.orm import Session

from acl.classes import class_of
from acl.resources import check_grants, own_grants
from acl.session import Writing, new_id
from acl.tables import CollectionRow, DocumentRow, GrantRow
from acl.types import Action, Effect, Grant, Level, Resource


@dataclass(frozen=True, slots=True)
class Access:
    """A document's own access: its grants, and whether it cuts what comes from above."""

    grants: tuple[Grant, ...] = ()
    cut: bool = False


def place(writing: Writing, collection: CollectionRow, access: Access) -> DocumentRow:
    """Make a document in a collection, with its own access.

    Raises: AclRefused for grants that can't stand together (`acl.resources.check_grants`).
    """
    check_grants(writing.session, access.grants)
    row = DocumentRow(
        public_id=new_id("doc"),
        collection_id=collection.id,
        cut=access.cut,
        class_id=class_of(writing, collection.id, access.cut, access.grants),
    )
    writing.session.add(row)
    writing.session.flush()
    _store(writing, row, access.grants)
    return row


def access_of(session: Session, document: DocumentRow) -> Access:
    """Give a document's own access."""
    grants = own_grants(session, Resource(Level.DOCUMENT, document.id))
    return Access(grants, document.cut)


def settle(
    writing: Writing, document: DocumentRow, access: Access, collection_id: int | None = None
) -> bool:
    """Give a document a new own access, and a new collection if one is named.

    When its readers change its passages move to another class: the index is told, and the
    old class's generation rises. False if nothing changed.
    Raises: AclRefused for grants that can't stand together.
    """
    target = document.collection_id if collection_id is None else collection_id
    old = access_of(writing.session, document)
    wanted = Access(tuple(sorted(access.grants, key=_order)), access.cut)
    if old == wanted and target == document.collection_id:
        return False
    check_grants(writing.session, wanted.grants)
    writing.session.execute(delete(GrantRow).where(_on(document)))
    _store(writing, document, wanted.grants)
    document.cut, document.collection_id = wanted.cut, target
    reclass(writing, document, wanted)
    if [g for g in old.grants if g.action is not Action.READ] != [
        g for g in wanted.grants if g.action is not Action.READ
    ]:
        writing.rights_changed()
    return True


def reclass(writing: Writing, document: DocumentRow, access: Access) -> None:
    """Bring a document into the class that its access and collection ask for."""
    wanted = class_of(writing, document.collection_id, access.cut, access.grants)
    if wanted != document.class_id:
        writing.passages_left(document.class_id)
        document.class_id = wanted
        writing.document_changed(document.id)


def remove(writing: Writing, document: DocumentRow) -> None:
    """Delete a document's place and grants; what it held must be deleted before."""
    writing.passages_left(document.class_id)
    writing.document_changed(document.id)
    writing.session.execute(delete(GrantRow).where(_on(document)))
    writing.session.delete(document)


def has_denies(access: Access) -> bool:
    """Say whether the access withholds anything."""
    return any(grant.effect is Effect.DENY for grant in access.grants)


def document_by_public_id(session: Session, public_id: str) -> DocumentRow | None:
    """Find a document by the id that callers know."""
    return session.scalar(select(DocumentRow).where(DocumentRow.public_id == public_id))


def _store(writing: Writing, document: DocumentRow, grants: Sequence[Grant]) -> None:
    for grant in grants:
        writing.session.add(
            GrantRow(
                level=Level.DOCUMENT.value,
                resource_id=document.id,
                principal_id=grant.principal,
                action=grant.action.value,
                effect=grant.effect.value,
                expires_s=grant.expires_s,
            )
        )
    writing.session.flush()


def _on(document: DocumentRow) -> ColumnElement[bool]:
    return and_(GrantRow.level == Level.DOCUMENT.value, GrantRow.resource_id == document.id)


def _order(grant: Grant) -> tuple[int, str, str]:
    return grant.principal, grant.action.value, grant.effect.value
