"""The way from the tenant down to a resource, and the grants that count on it (law 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from acl.errors import AclRefused, UnknownResource
from acl.tables import CollectionRow, DocumentRow, GrantRow, PrincipalRow
from acl.types import Action, Effect, Grant, Kind, Level, Resource


@dataclass(frozen=True, slots=True)
class Step:
    """One node on the way: the resource, and whether it cuts what comes from above."""

    resource: Resource
    cut: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """A grant that counts on a resource, and the node of the way it stands on."""

    grant: Grant
    origin: Resource


def way(session: Session, resource: Resource) -> tuple[Step, ...]:
    """List the nodes from the tenant down to the resource, both included.

    Raises: UnknownResource.
    """
    steps: list[Step] = []
    parent: int | None = None
    if resource.level is Level.DOCUMENT:
        document = session.get(DocumentRow, resource.id)
        if document is None:
            raise UnknownResource("no such document")
        steps.append(Step(resource, document.cut))
        parent = document.collection_id
    elif resource.level is Level.COLLECTION:
        parent = resource.id
    elif resource.level is Level.GROUP:
        group = session.get(PrincipalRow, resource.id)
        if group is None or group.kind != Kind.GROUP.value:
            raise UnknownResource("no such group")
        steps.append(Step(resource, cut=False))
    seen: set[int] = set()
    while parent is not None:
        collection = session.get(CollectionRow, parent)
        if collection is None or parent in seen:
            raise UnknownResource("no such collection")
        seen.add(parent)
        steps.append(Step(Resource(Level.COLLECTION, parent), collection.cut))
        parent = collection.parent_id
    steps.append(Step(Resource(Level.TENANT), cut=False))
    return tuple(reversed(steps))


def standing(session: Session, resource: Resource, action: Action) -> tuple[Standing, ...]:
    """List the grants that count on a resource for an action: its own and the inherited.

    A cut drops the allows from above it and keeps the denies.
    """
    found: list[Standing] = []
    for step in way(session, resource):
        if step.cut:
            found = [each for each in found if each.grant.effect is Effect.DENY]
        found += [
            Standing(grant, step.resource)
            for grant in own_grants(session, step.resource)
            if grant.action is action
        ]
    return tuple(found)


def own_grants(session: Session, resource: Resource) -> tuple[Grant, ...]:
    """List the grants on the resource itself, in a canonical order."""
    rows = session.scalars(
        select(GrantRow).where(
            GrantRow.level == resource.level.value, GrantRow.resource_id == resource.id
        )
    )
    grants = [
        Grant(row.principal_id, Action(row.action), Effect(row.effect), row.expires_s)
        for row in rows
    ]
    return tuple(sorted(grants, key=lambda g: (g.principal, g.action, g.effect)))


def check_grants(session: Session, grants: Collection[Grant]) -> None:
    """Check that grants may stand together on one resource of the session's tenant.

    Raises: AclRefused if one names a principal that the tenant does not have, or two say the
    same of one principal, even with different ends.
    """
    lines = Counter((each.principal, each.action.value, each.effect.value) for each in grants)
    for (principal, action, effect), n_times in lines.items():
        if n_times > 1:
            raise AclRefused(
                f"{n_times} grants {effect} principal {principal} to {action}: give one, with one "
                "end"
            )
    wanted = {each.principal for each in grants}
    if not wanted:
        return
    known = session.scalars(select(PrincipalRow.id).where(PrincipalRow.id.in_(wanted)))
    strange = wanted.difference(known)
    if strange:
        raise AclRefused(f"a grant names principal {min(strange)}, which the tenant does not have")
