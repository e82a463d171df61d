"""Give and revoke: each moves the epoch, or the document's class, in the same transaction."""

from __future__ import annotations

from sqlalchemy import select

from acl.documents import access_of, reclass
from acl.resources import check_grants, way
from acl.session import Writing
from acl.tables import CollectionRow, DocumentRow, GrantRow
from acl.types import Action, Effect, Grant, Level, Resource


def give(writing: Writing, resource: Resource, grant: Grant) -> bool:
    """Put a grant on a resource; False if it stands there already, to the same end.

    Raises: UnknownResource; AclRefused if the tenant does not have the grant's principal.
    """
    way(writing.session, resource)
    check_grants(writing.session, [grant])
    row = _row(writing, resource, grant)
    if row is not None and row.expires_s == grant.expires_s:
        return False
    if row is None:
        row = GrantRow(
            level=resource.level.value,
            resource_id=resource.id,
            principal_id=grant.principal,
            action=grant.action.value,
            effect=grant.effect.value,
        )
        writing.session.add(row)
    row.expires_s = grant.expires_s
    writing.session.flush()
    _tell(writing, resource, grant.action)
    return True


def revoke(writing: Writing, resource: Resource, grant: Grant) -> bool:
    """Take a grant off a resource, whatever its expiry; False if it does not stand there."""
    row = _row(writing, resource, grant)
    if row is None:
        return False
    writing.session.delete(row)
    writing.session.flush()
    _tell(writing, resource, grant.action)
    return True


def set_rules(writing: Writing, collection: CollectionRow, grants: set[Grant], cut: bool) -> bool:
    """Make a collection's own grants and cut flag exactly these; False if they were.

    Raises: AclRefused for grants that can't stand together (`acl.resources.check_grants`).
    """
    check_grants(writing.session, grants)
    wanted = {(g.principal, g.action.value, g.effect.value): g.expires_s for g in grants}
    rows = writing.session.scalars(
        select(GrantRow).where(
            GrantRow.level == Level.COLLECTION.value, GrantRow.resource_id == collection.id
        )
    )
    old = {(row.principal_id, row.action, row.effect): row for row in rows}
    changed = collection.cut != cut
    for line in old.keys() - wanted.keys():
        changed = True
        writing.session.delete(old[line])
    for line, end in wanted.items():
        if line in old and old[line].expires_s == end:
            continue
        changed = True
        principal, action, effect = line
        grant = Grant(principal, Action(action), Effect(effect), end)
        give(writing, Resource(Level.COLLECTION, collection.id), grant)
    if changed:
        collection.cut = cut
        writing.rights_changed()
    return changed


def _tell(writing: Writing, resource: Resource, action: Action) -> None:
    if resource.level is Level.DOCUMENT and action is Action.READ:
        document = writing.session.get_one(DocumentRow, resource.id)
        reclass(writing, document, access_of(writing.session, document))
    else:
        writing.rights_changed()


def _row(writing: Writing, resource: Resource, grant: Grant) -> GrantRow | None:
    return writing.session.scalar(
        select(GrantRow).where(
            GrantRow.level == resource.level.value,
            GrantRow.resource_id == resource.id,
            GrantRow.principal_id == grant.principal,
            GrantRow.action == grant.action.value,
            GrantRow.effect == grant.effect.value,
        )
    )
