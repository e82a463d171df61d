"""Who is in which group, at any depth; the one built-in group; cycles are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Select, and_, bindparam, delete, or_, select
from sqlalchemy.orm import Session

from acl.errors import AclRefused, UnknownPrincipal
from acl.session import Writing
from acl.tables import ApiKeyRow, GrantRow, MembershipRow, PrincipalRow
from acl.types import Effect, Kind, Level

# Every principal of a tenant is in this group without a membership row.
EVERYONE = "everyone"


def _around() -> Select[int]:
    built_in = and_(PrincipalRow.kind == Kind.GROUP.value, PrincipalRow.name == EVERYONE)
    start = select(PrincipalRow.id).where(or_(PrincipalRow.id == bindparam("principal"), built_in))
    found = start.cte("around", recursive=True)
    found = found.union(select(MembershipRow.group_id).where(MembershipRow.member_id == found.c.id))
    return select(found.c.id)


# Made once: putting it together takes longer than running it.
_AROUND = _around()


def parents(session: Session) -> dict[int, list[int]]:
    """Map each principal that is in a group to the groups that contain it directly."""
    found: dict[int, list[int]] = {}
    rows = session.execute(select(MembershipRow.member_id, MembershipRow.group_id))
    for member, group in rows:
        found.setdefault(member, []).append(group)
    return found


def everyone_id(session: Session) -> int:
    """Give the row id of the built-in group of the session's tenant."""
    wanted = select(PrincipalRow.id).where(
        PrincipalRow.kind == Kind.GROUP.value, PrincipalRow.name == EVERYONE
    )
    return session.scalars(wanted).one()


def closure(principal: int, contained_in: Mapping[int, Iterable[int]], everyone: int) -> set[int]:
    """Collect a principal, every group it is in at any depth, and the built-in group.

    A cycle, were one there in spite of the check at writing, ends the walk and no more.
    """
    found = {principal, everyone}
    waiting = [principal, everyone]
    while waiting:
        for group in contained_in.get(waiting.pop(), ()):
            if group not in found:
                found.add(group)
                waiting.append(group)
    return found


def around(session: Session, principal: int) -> frozenset[int]:
    """Collect what `closure` does by one query: its cost does not grow with the tenant.

    A recursive UNION keeps each group once, so that a cycle ends it.
    Raises: UnknownPrincipal if the session's tenant has no such principal.
    """
    members = frozenset(session.scalars(_AROUND, {"principal": principal}))
    if principal not in members:
        raise UnknownPrincipal("the principal does not exist")
    return members


def add_member(writing: Writing, group: PrincipalRow, member: PrincipalRow) -> bool:
    """Put a principal into a group; False if it is in there already.

    Raises: AclRefused for a member of a non-group, the built-in group, or a cycle.
    """
    if group.kind != Kind.GROUP.value:
        raise AclRefused(f"{group.kind}:{group.name} is not a group and can't have members")
    if EVERYONE in {group.name, member.name if member.kind == Kind.GROUP.value else ""}:
        raise AclRefused(f"group:{EVERYONE} is built in: its members can't be changed")
    session = writing.session
    above = closure(group.id, parents(session), group.id)
    if member.id in above:
        raise AclRefused(
            f"group:{member.name} already contains group:{group.name}: that would be a cycle"
        )
    if _membership(session, group, member) is not None:
        return False
    session.add(MembershipRow(group_id=group.id, member_id=member.id))
    session.flush()
    writing.rights_changed()
    return True


def remove_member(writing: Writing, group: PrincipalRow, member: PrincipalRow) -> bool:
    """Take a principal out of a group; False if it was not in there directly."""
    row = _membership(writing.session, group, member)
    if row is None:
        return False
    writing.session.delete(row)
    writing.rights_changed()
    return True


def members(session: Session, group: PrincipalRow) -> list[PrincipalRow]:
    """List the direct members of a group, by kind and name."""
    inside = select(MembershipRow.member_id).where(MembershipRow.group_id == group.id)
    wanted = select(PrincipalRow).where(PrincipalRow.id.in_(inside))
    return list(session.scalars(wanted.order_by(PrincipalRow.kind, PrincipalRow.name)))


def delete_principal(writing: Writing, principal: PrincipalRow) -> None:
    """Delete a principal with its memberships and grants.

    Raises: AclRefused for the built-in group, and for a group that holds denies or stands in
    one that does: those denies would silently end for its members.
    """
    session = writing.session
    if principal.kind == Kind.GROUP.value:
        _refuse_if_denies_would_end(session, principal)
    session.execute(delete(ApiKeyRow).where(ApiKeyRow.principal_id == principal.id))
    session.execute(
        delete(GrantRow).where(
            (GrantRow.principal_id == principal.id)
            | ((GrantRow.level == Level.GROUP.value) & (GrantRow.resource_id == principal.id))
        )
    )
    session.execute(
        delete(MembershipRow).where(
            (MembershipRow.member_id == principal.id) | (MembershipRow.group_id == principal.id)
        )
    )
    session.delete(principal)
    writing.rights_changed()


def _refuse_if_denies_would_end(session: Session, group: PrincipalRow) -> None:
    if group.name == EVERYONE:
        raise AclRefused(f"group:{EVERYONE} is built in and can't be deleted")
    above = closure(group.id, parents(session), group.id)
    denying = session.scalars(
        select(PrincipalRow.name)
        .join(GrantRow, GrantRow.principal_id == PrincipalRow.id)
        .where(PrincipalRow.id.in_(above), GrantRow.effect == Effect.DENY.value)
    ).first()
    if denying is not None:
        raise AclRefused(
            f"group:{group.name} is under the denies of group:{denying}; revoke those or take "
            "the group out first, since deleting it would end them for its members"
        )


def _membership(
    session: Session, group: PrincipalRow, member: PrincipalRow
) -> MembershipRow | None:
    return session.scalar(
        select(MembershipRow).where(
            MembershipRow.group_id == group.id, MembershipRow.member_id == member.id
        )
    )
