"""What callers may name: resources by what they are called outside, principals they may know."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from sqlalchemy import select
from sqlalchemy.orm import Session

from acl.directory import find_collection, find_principal, reference
from acl.documents import Access, document_by_public_id
from acl.errors import UnknownPrincipal, UnknownResource
from acl.groups import closure, everyone_id, parents
from acl.resources import own_grants
from acl.tables import DocumentRow, GrantRow, MembershipRow, PrincipalRow
from acl.types import Action, Effect, Grant, Kind, Level, Resource
from pipeline.access import Rule
from pipeline.decide import Visit
from pipeline.errors import RulesRefused

# What `acl.session.new_id` makes: nothing else is looked up, so no database sees odd bytes.
_DOCUMENT_ID = re.compile(r"doc_[0-9a-f]{22}")


@dataclass(frozen=True, slots=True)
class Where:
    """A resource as callers name it: a collection's path, a document's id, a group's name."""

    level: Level
    name: str = ""

    def __str__(self) -> str:
        return f"{self.level.value}:{self.name}"

    @property
    def n_levels(self) -> int:
        """How many levels below the tenant it lies, as far as its name tells."""
        if self.level is Level.COLLECTION:
            return max(1, len(PurePosixPath(self.name).parts))
        return {Level.TENANT: 0, Level.GROUP: 1}.get(self.level, 2)


def document_at(session: Session, public_id: str) -> DocumentRow | None:
    """Find a document by the id that callers know; None if there is none."""
    if not _DOCUMENT_ID.fullmatch(public_id):
        return None
    return document_by_public_id(session, public_id)


def resource_at(session: Session, where: Where) -> Resource | None:
    """Find a resource that rights stand on; None if there is none."""
    if where.level is Level.TENANT:
        return Resource(Level.TENANT)
    if "\0" in where.name:
        return None  # No name holds it, and not every database can be asked for it.
    if where.level is Level.DOCUMENT:
        document = document_at(session, where.name)
        return None if document is None else Resource(Level.DOCUMENT, document.id)
    try:
        if where.level is Level.COLLECTION:
            return Resource(Level.COLLECTION, find_collection(session, where.name).id)
        return Resource(Level.GROUP, find_principal(session, f"group:{where.name}").id)
    except (UnknownResource, UnknownPrincipal):
        return None


def managed_groups(visit: Visit) -> set[int]:
    """Give the row ids of the groups whose members the caller may change.

    Management is inherited from the tenant; groups with grants of their own are decided one
    by one.
    """
    of_groups = select(PrincipalRow.id).where(PrincipalRow.kind == Kind.GROUP.value)
    groups = set(visit.session.scalars(of_groups))
    wanted = select(GrantRow.resource_id).where(
        GrantRow.level == Level.GROUP.value, GrantRow.action == Action.MANAGE.value
    )
    special = groups & set(visit.session.scalars(wanted))
    managed = {each for each in special if visit.may(Action.MANAGE, Resource(Level.GROUP, each))}
    if visit.may(Action.MANAGE, Resource(Level.TENANT)):
        managed |= groups - special
    return managed


def groups_around(visit: Visit) -> set[int]:
    """Give the row ids of the groups the caller is in, at any depth; everyone's among them."""
    session = visit.session
    around = closure(visit.principal.id, parents(session), everyone_id(session))
    return around - {visit.principal.id}


def named(visit: Visit, references: Iterable[str], at: Resource) -> dict[str, PrincipalRow]:
    """Find the principals that a caller names in a change of rights on a resource.

    Whoever manages the tenant may name everybody. Others may name themselves, the groups
    they are in, the groups they manage with their direct members, and whom the resource's
    own grants name already. Anybody else is answered as if there were no such principal, so
    that names which a caller may not know can't be guessed at (law 1).
    Raises: RulesRefused naming the first that is unknown.
    """
    wanted = sorted(set(references))
    if not wanted:
        return {}
    session, everybody = visit.session, visit.may(Action.MANAGE, Resource(Level.TENANT))
    known = set() if everybody else _known(visit, at)
    found = {}
    for each in wanted:
        try:
            row = None if "\0" in each else find_principal(session, each)
        except UnknownPrincipal:
            row = None
        if row is None or not (everybody or row.id in known):
            raise RulesRefused(f"no such principal: {each}")
        found[each] = row
    return found


def access_wanted(visit: Visit, rule: Rule, at: Resource, old: Access) -> Access:
    """Turn the lists of a rule into a document's own access, in place of the old one.

    What the lists can't say stays: denies of write and manage, and the end of a grant that
    is listed again. Who cuts inheritance and names nobody else keeps write and manage, or
    the document would be nobody's.
    Raises: RulesRefused.
    """
    rows = named(visit, rule.references(), at)
    lines = {
        (rows[each].id, action, effect)
        for references, action, effect in (
            (rule.read, Action.READ, Effect.ALLOW),
            (rule.write, Action.WRITE, Effect.ALLOW),
            (rule.manage, Action.MANAGE, Effect.ALLOW),
            (rule.deny, Action.READ, Effect.DENY),
        )
        for each in references
    }
    for action, listed in ((Action.WRITE, rule.write), (Action.MANAGE, rule.manage)):
        if rule.cut and not listed:
            lines.add((visit.principal.id, action, Effect.ALLOW))
    ends = {(each.principal, each.action, each.effect): each.expires_s for each in old.grants}
    grants = {
        Grant(*line, None if (end := ends.get(line)) is None or end <= visit.now_s else end)
        for line in lines
    }
    grants |= {
        each
        for each in old.grants
        if each.effect is Effect.DENY and each.action is not Action.READ
    }  # fmt: skip
    return Access(tuple(grants), rule.cut)


def rule_of(session: Session, access: Access) -> Rule:
    """Say a document's own access in lists of names, for who manages it."""
    names = names_of(session, {each.principal for each in access.grants})

    def listed(action: Action, effect: Effect) -> tuple[str, ...]:
        return tuple(sorted(
            names[each.principal]
            for each in access.grants
            if (each.action, each.effect) == (action, effect)
        ))  # fmt: skip

    return Rule(
        cut=access.cut,
        read=listed(Action.READ, Effect.ALLOW),
        write=listed(Action.WRITE, Effect.ALLOW),
        manage=listed(Action.MANAGE, Effect.ALLOW),
        deny=listed(Action.READ, Effect.DENY),
    )


def names_of(session: Session, principals: Iterable[int]) -> dict[int, str]:
    """Map row ids of principals to the names they go by."""
    rows = session.scalars(select(PrincipalRow).where(PrincipalRow.id.in_(list(principals))))
    return {row.id: reference(row) for row in rows}


def _known(visit: Visit, at: Resource) -> set[int]:
    managed = managed_groups(visit)
    inside = select(MembershipRow.member_id).where(MembershipRow.group_id.in_(managed))
    return {
        visit.principal.id,
        *groups_around(visit),
        *managed,
        *visit.session.scalars(inside),
        *(grant.principal for grant in own_grants(visit.session, at)),
    }
