"""Grants and groups as callers see and change them; each call decides in its own transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import select

from acl.audit import AuditLog, record
from acl.authorize import Authority
from acl.directory import create_principal, reference
from acl.errors import AclRefused, NotAllowed, UnknownResource
from acl.grants import give, revoke
from acl.groups import add_member, members, remove_member
from acl.resources import own_grants
from acl.session import Database
from acl.tables import PrincipalRow
from acl.types import Action, Effect, Grant, Kind, Level, Principal, Resource
from pipeline.decide import Door, Visit
from pipeline.naming import Where, groups_around, managed_groups, named, names_of, resource_at


@dataclass(frozen=True, slots=True)
class Line:
    """A grant with its principal's name: "user:NAME", "group:NAME" or "service:NAME"."""

    principal: str
    action: Action
    effect: Effect
    expires_s: float | None = None

    def __str__(self) -> str:
        return f"{self.effect.value} {self.action.value} {self.principal}"


@dataclass(frozen=True, slots=True)
class Group:
    """A group as a caller sees it; `members` only where the caller may change them."""

    name: str
    display: str
    members: tuple[str, ...] | None


class Rights:
    """Shows and changes grants and groups on behalf of callers. Calls block."""

    def __init__(
        self,
        database: Database,
        authority: Authority,
        log: AuditLog,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._door = Door(database, authority, log, now_s)

    def grants(self, principal: Principal, where: Where) -> tuple[Line, ...]:
        """List the grants on a resource itself; needs manage.

        Raises: UnknownResource; NotAllowed.
        """
        with self._door.reading(principal, "grant.list", str(where)) as visit:
            found = own_grants(visit.session, _managed(visit, where))
            names = names_of(visit.session, {each.principal for each in found})
        return tuple(
            Line(names[each.principal], each.action, each.effect, each.expires_s) for each in found
        )

    def give(self, principal: Principal, where: Where, line: Line) -> bool:
        """Put a grant on a resource; needs manage. False if it stands there already.

        Raises: UnknownResource; NotAllowed; RulesRefused if the caller may not name the
        principal; AclRefused for other actions than manage on a group.
        """
        with self._door.writing(principal, "grant.give", str(where)) as (writing, visit):
            at = _managed(visit, where)
            if at.level is Level.GROUP and line.action is not Action.MANAGE:
                raise AclRefused(f"{line.action.value} can't be granted on a group, manage can")
            row = named(visit, [line.principal], at)[line.principal]
            given = give(writing, at, Grant(row.id, line.action, line.effect, line.expires_s))
            record(visit.session, principal, "grant.give", str(where)[:80], reason=str(line))
        return given

    def revoke(self, principal: Principal, where: Where, line: Line) -> None:
        """Take a grant off a resource; needs manage.

        Raises: UnknownResource, also if it does not stand there; NotAllowed.
        """
        with self._door.writing(principal, "grant.revoke", str(where)) as (writing, visit):
            at = _managed(visit, where)
            names = names_of(visit.session, {g.principal for g in own_grants(visit.session, at)})
            numbers = {name: number for number, name in names.items()}
            grant = Grant(numbers.get(line.principal, 0), line.action, line.effect)
            if not revoke(writing, at, grant):
                raise UnknownResource("there is no such grant on the resource")
            record(visit.session, principal, "grant.revoke", str(where)[:80], reason=str(line))

    def groups(self, principal: Principal) -> tuple[Group, ...]:
        """List the groups that the caller is in or manages, by name."""
        with self._door.reading(principal, "group.list", "") as visit:
            managed = managed_groups(visit)
            wanted = select(PrincipalRow).where(PrincipalRow.id.in_(managed | groups_around(visit)))
            rows = visit.session.scalars(wanted.order_by(PrincipalRow.name)).all()
            return tuple(_group(visit, row, row.id in managed) for row in rows)

    def group(self, principal: Principal, name: str) -> Group:
        """Show a group that the caller is in or manages. Raises: UnknownResource."""
        with self._door.reading(principal, "group.get", f"group:{name}") as visit:
            row, manages = _seen(visit, name)
            return _group(visit, row, manages)

    def add_group(self, principal: Principal, name: str, display: str = "") -> bool:
        """Make a group; needs manage on the tenant. False if there is one of that name.

        Raises: NotAllowed; AclRefused if the name is not a plain name.
        """
        with self._door.writing(principal, "group.add", f"group:{name}") as (writing, visit):
            visit.require(Action.MANAGE, Resource(Level.TENANT))
            made = create_principal(writing, Kind.GROUP, name, display)[1]
            record(visit.session, principal, "group.add", f"group:{name}"[:80])
        return made

    def add_member(self, principal: Principal, group: str, member: str) -> bool:
        """Put a principal into a group; needs manage on it. False if it is in there already.

        Raises: UnknownResource; NotAllowed; RulesRefused if the caller may not name the
        member; AclRefused for a cycle or the built-in group.
        """
        with self._door.writing(principal, "group.add_member", f"group:{group}") as (
            writing,
            visit,
        ):
            row = _kept(visit, group)
            who = named(visit, [member], Resource(Level.GROUP, row.id))[member]
            added = add_member(writing, row, who)
            record(
                visit.session, principal, "group.add_member", f"group:{group}"[:80], reason=member
            )
        return added

    def remove_member(self, principal: Principal, group: str, member: str) -> None:
        """Take a principal out of a group; needs manage on it.

        Raises: UnknownResource, also if it is not in there directly; NotAllowed.
        """
        with self._door.writing(principal, "group.remove_member", f"group:{group}") as (
            writing,
            visit,
        ):
            row = _kept(visit, group)
            inside = {reference(each): each for each in members(visit.session, row)}
            if member not in inside:
                raise UnknownResource("the group has no such member")
            remove_member(writing, row, inside[member])
            record(
                visit.session, principal, "group.remove_member", f"group:{group}"[:80],
                reason=member,
            )  # fmt: skip


def _managed(visit: Visit, where: Where) -> Resource:
    if where.level is Level.GROUP:
        return Resource(Level.GROUP, _kept(visit, where.name).id)
    return visit.require(Action.MANAGE, resource_at(visit.session, where), where.n_levels)


def _seen(visit: Visit, name: str) -> tuple[PrincipalRow, bool]:
    """Find a group that the caller is in or manages, and say whether it is the latter.

    `Visit.require` would not do: who may read the whole tenant need not know its groups.
    """
    at, around = resource_at(visit.session, Where(Level.GROUP, name)), groups_around(visit)
    if at is None:
        visit.decide_for_nothing([Action.MANAGE], n_levels=1)
        raise UnknownResource("there is no such group")
    manages = visit.may(Action.MANAGE, at)
    if not manages and at.id not in around:
        raise UnknownResource(f"{visit.principal.name} is not in group:{name} nor manages it")
    return visit.session.get_one(PrincipalRow, at.id), manages


def _kept(visit: Visit, name: str) -> PrincipalRow:
    row, manages = _seen(visit, name)
    if not manages:
        raise NotAllowed(f"{visit.principal.name} may not manage group:{name}")
    return row


def _group(visit: Visit, row: PrincipalRow, manages: bool) -> Group:
    if not manages:
        return Group(row.name, row.display, None)
    inside = tuple(reference(each) for each in members(visit.session, row))
    return Group(row.name, row.display, inside)
