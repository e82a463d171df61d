"""Law 5: nothing by default, grants unite, and a deny anywhere on the way beats any allow."""

from __future__ import annotations

from itertools import pairwise

import pytest
from sqlalchemy import update

from acl.authorize import Authority
from acl.directory import create_principal
from acl.errors import AclRefused, RightsUnavailable, UnknownResource
from acl.grants import revoke
from acl.groups import add_member, delete_principal
from acl.policy import verdict
from acl.session import Database
from acl.tables import CollectionRow, PrincipalRow
from acl.types import Action, Effect, Grant, Kind
from tests.acl.chance import NOW_S
from tests.acl.oracle import readable
from tests.acl.world import EVERYONE, TENANT, Built, World, build

WAY = [TENANT, "a", "a/b", "plan"]


def by_hand() -> World:
    """A document two folders deep, and a person in a group in a group."""
    world = World().user("ana").group("staff", "ana").group("all-staff", "staff")
    return world.folder("a").folder("a/b").document("plan", "a/b")


def may(world: World, database: Database, who: str = "ana") -> bool:
    """Ask all three whether somebody may read the plan; they must agree."""
    return may_built(world, build(world, database), who)


def may_built(world: World, built: Built, who: str) -> bool:
    """Ask all three about a world that is in the tables already."""
    principal, plan = built.principal(who), built.classes()["plan"]
    compiled = plan in Authority(built.database, lambda: NOW_S).mint(principal).classes
    with built.database.reading(built.tenant) as session:
        casbin = verdict(session, principal, Action.READ, built.resource("plan"), NOW_S)
    assert compiled == bool(casbin) == ("plan" in readable(world, who, NOW_S))
    return compiled


def test_nobody_reads_by_default(database: Database) -> None:
    assert not may(by_hand(), database)


@pytest.mark.parametrize("who", ["ana", "staff", "all-staff", EVERYONE])
@pytest.mark.parametrize("where", WAY)
def test_an_allow_anywhere_on_the_way_lets_read(database: Database, where: str, who: str) -> None:
    assert may(by_hand().allow(who, where), database)


@pytest.mark.parametrize("denied", ["ana", "all-staff", EVERYONE])
@pytest.mark.parametrize("deny_at", WAY)
@pytest.mark.parametrize("allow_at", WAY)
def test_a_deny_beats_every_allow(
    database: Database, allow_at: str, deny_at: str, denied: str
) -> None:
    world = by_hand().allow("ana", allow_at).allow("staff", allow_at).allow(EVERYONE, allow_at)

    assert not may(world.deny(denied, deny_at), database)


@pytest.mark.parametrize("allow_at", WAY)
@pytest.mark.parametrize("cut_at", WAY[1:])
def test_a_cut_drops_the_allows_from_above_it_and_no_others(
    database: Database, allow_at: str, cut_at: str
) -> None:
    world = by_hand().allow("staff", allow_at)
    if cut_at == "plan":
        world.document("plan", "a/b", cut=True)
    else:
        world.folder(cut_at, cut=True)

    assert may(world, database) == (WAY.index(allow_at) >= WAY.index(cut_at))


@pytest.mark.parametrize("deny_at", WAY)
def test_no_cut_drops_a_deny(database: Database, deny_at: str) -> None:
    world = by_hand().folder("a", cut=True).folder("a/b", cut=True)
    world.document("plan", "a/b", cut=True).deny("all-staff", deny_at)

    assert not may(world.allow("ana", "plan"), database)


@pytest.mark.parametrize(
    ("until_s", "stands"), [(NOW_S - 1, False), (NOW_S, False), (NOW_S + 1, True)]
)
def test_a_rule_ends_at_its_end(database: Database, until_s: float, stands: bool) -> None:
    denied = by_hand().user("ben").allow("ana", "a", until_s)
    denied.allow("ben", "a").deny("ben", "plan", until_s)
    built = build(denied, database)

    assert may_built(denied, built, "ana") == stands
    assert may_built(denied, built, "ben") != stands


def test_cycles_of_groups_are_refused(database: Database, tenant: str) -> None:
    with database.writing(tenant) as writing:
        groups = [create_principal(writing, Kind.GROUP, f"g{n}")[0] for n in range(64)]
        for inner, outer in pairwise(groups):
            assert add_member(writing, outer, inner)

        for group, member in ((groups[0], groups[63]), (groups[0], groups[1]), (groups[5],) * 2):
            with pytest.raises(AclRefused, match="cycle"):
                add_member(writing, group, member)


def test_a_cycle_that_is_in_the_table_all_the_same_ends(database: Database) -> None:
    world = by_hand().group("staff", "all-staff", "staff").allow("all-staff", "a")

    assert may(world, database)


def test_a_cycle_of_collections_lets_nobody_read(database: Database) -> None:
    """Only a hand in the table can make one; the walk up must not go on for ever."""
    built = build(by_hand().allow("ana", TENANT), database)
    with database.writing(built.tenant) as writing:
        upside_down = update(CollectionRow).where(CollectionRow.id == built.folders["a"])
        writing.session.execute(upside_down.values(parent_id=built.folders["a/b"]))
        writing.rights_changed()

    with pytest.raises(RightsUnavailable):
        Authority(database).mint(built.principal("ana"))
    with database.reading(built.tenant) as session, pytest.raises(UnknownResource):
        verdict(session, built.principal("ana"), Action.READ, built.resource("plan"), NOW_S)


@pytest.mark.parametrize("denied", ["staff", "all-staff"])
def test_a_group_under_denies_is_not_deleted_before_they_are(
    database: Database, denied: str
) -> None:
    world = by_hand().allow("ana", "a").deny(denied, "plan")
    built = build(world, database)
    with database.writing(built.tenant) as writing:
        staff = writing.session.get_one(PrincipalRow, built.people["staff"])

        with pytest.raises(AclRefused, match=f"denies of group:{denied}"):
            delete_principal(writing, staff)

    assert not may_built(world, built, "ana")
    with database.writing(built.tenant) as writing:
        deny = Grant(built.people[denied], Action.READ, Effect.DENY)
        assert revoke(writing, built.resource("plan"), deny)
        delete_principal(writing, writing.session.get_one(PrincipalRow, built.people["staff"]))
    world.rules["plan"].clear()
    world.inside.clear()

    assert may_built(world, built, "ana")


def test_everyone_is_fixed(database: Database) -> None:
    built = build(by_hand(), database)
    with database.writing(built.tenant) as writing:
        ana, staff, everyone = (
            writing.session.get_one(PrincipalRow, built.people[who])
            for who in ("ana", "staff", EVERYONE)
        )

        for group, member in ((everyone, ana), (everyone, staff), (staff, everyone)):
            with pytest.raises(AclRefused, match="built in"):
                add_member(writing, group, member)
        with pytest.raises(AclRefused, match="built in"):
            delete_principal(writing, everyone)
        assert create_principal(writing, Kind.GROUP, EVERYONE) == (everyone, False)


def test_a_user_named_like_the_built_in_group_is_just_a_user(database: Database) -> None:
    world = by_hand().allow(EVERYONE, "a").deny("staff", "a")
    built = build(world, database)
    with database.writing(built.tenant) as writing:
        namesake, made = create_principal(writing, Kind.USER, EVERYONE)
        staff = writing.session.get_one(PrincipalRow, built.people["staff"])

        assert made
        assert add_member(writing, staff, namesake)
    assert not may_built(world, built, "ana")


def test_a_user_has_no_members(database: Database) -> None:
    built = build(by_hand(), database)
    with database.writing(built.tenant) as writing:
        ana = writing.session.get_one(PrincipalRow, built.people["ana"])

        with pytest.raises(AclRefused, match="not a group"):
            add_member(writing, ana, ana)
