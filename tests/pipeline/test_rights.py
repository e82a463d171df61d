"""Grants and groups on behalf of callers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from acl.errors import AclRefused, NotAllowed, UnknownResource
from acl.tables import AuditRow
from acl.types import Action, Effect, Level
from pipeline.errors import RulesRefused
from pipeline.naming import Where
from pipeline.rights import Line
from tests.api.houses import Home, open_home

CLOSED = Where(Level.COLLECTION, "closed")
INNER = Where(Level.GROUP, "inner")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A house with people in it."""
    with open_home(tmp_path) as opened:
        yield opened


def _reads(who: str) -> Line:
    return Line(who, Action.READ, Effect.ALLOW)


def _manages(who: str, effect: Effect = Effect.ALLOW) -> Line:
    return Line(who, Action.MANAGE, effect)


def _give(home: Home, who: str, where: Where, line: Line) -> bool:
    return home.house.rights.give(home.principal(who), where, line)


def test_a_manager_of_the_tenant_names_everybody(home: Home) -> None:
    for each in ("user:bo", "group:inner", "group:everyone"):
        assert _give(home, "tess", CLOSED, _reads(each)) == (each != "group:inner")


def test_another_manager_names_themselves_their_groups_and_who_stands_there(home: Home) -> None:
    home.group("team", "user:mo")
    home.group("hidden", "user:bo")

    for each in ("user:mo", "group:team", "group:everyone", "user:wes", "group:inner"):
        _give(home, "mo", CLOSED, Line(each, Action.READ, Effect.DENY))
    for each in ("user:bo", "user:ana", "group:hidden", "user:nobody", "nonsense", "user:"):
        with pytest.raises(RulesRefused, match="no such principal"):
            _give(home, "mo", CLOSED, _reads(each))


def test_who_manages_a_group_may_name_it_and_its_members(home: Home) -> None:
    _give(home, "tess", INNER, _manages("user:mo"))

    assert _give(home, "mo", CLOSED, _reads("user:ana"))


def test_a_manager_of_one_collection_is_none_of_another(home: Home) -> None:
    with pytest.raises(NotAllowed):
        _give(home, "mo", Where(Level.COLLECTION, "open"), _reads("user:mo"))
    with pytest.raises(NotAllowed):
        _give(home, "mo", Where(Level.TENANT), _reads("user:mo"))
    with pytest.raises(UnknownResource):
        _give(home, "mo", INNER, _manages("user:mo"))


def test_an_administrator_who_wants_to_read_grants_it_and_that_is_written_down(home: Home) -> None:
    here = home.document("closed", "Pay", "The pay list.")
    with pytest.raises(UnknownResource):
        home.house.documents.get(home.principal("tess"), here)

    _give(home, "tess", CLOSED, _reads("user:tess"))

    assert home.house.documents.get(home.principal("tess"), here).title == "Pay"
    with home.house.database.reading(home.tenants["acme"]) as session:
        row = session.scalars(select(AuditRow).where(AuditRow.event == "grant.give")).one()
        assert (row.resource, row.reason) == ("collection:closed", "allow read user:tess")
        assert row.principal_id == home.principal("tess").id


def test_a_revoked_grant_ends_at_once_and_one_that_is_not_there_is_not_found(home: Home) -> None:
    here = home.document("closed", "Pay", "The pay list.")
    mo, ana = home.principal("mo"), home.principal("ana")
    assert home.house.documents.get(ana, here).id == here

    home.house.rights.revoke(mo, CLOSED, _reads("group:inner"))

    with pytest.raises(UnknownResource):
        home.house.documents.get(ana, here)
    for line in (_reads("group:inner"), _reads("user:nobody")):
        with pytest.raises(UnknownResource):
            home.house.rights.revoke(mo, CLOSED, line)


def test_only_management_is_granted_on_a_group(home: Home) -> None:
    with pytest.raises(AclRefused, match="manage can"):
        _give(home, "tess", INNER, _reads("user:bo"))


def test_the_keeper_of_a_group_changes_its_members_and_no_other_groups(home: Home) -> None:
    home.group("other")
    _give(home, "tess", INNER, _manages("user:mo"))
    rights, mo = home.house.rights, home.principal("mo")

    assert rights.add_member(mo, "inner", "user:mo")
    rights.remove_member(mo, "inner", "user:ana")

    group = rights.group(mo, "inner")
    assert group.members == ("user:mo",)
    with pytest.raises(UnknownResource):
        rights.add_member(mo, "other", "user:mo")
    with pytest.raises(UnknownResource):
        rights.remove_member(mo, "inner", "user:ana")
    assert [each.name for each in rights.groups(mo)] == ["everyone", "inner"]


def test_a_deny_on_a_group_beats_the_management_of_the_tenant(home: Home) -> None:
    _give(home, "tess", INNER, _manages("user:tess", Effect.DENY))
    rights, tess = home.house.rights, home.principal("tess")

    with pytest.raises(UnknownResource):
        rights.add_member(tess, "inner", "user:bo")
    assert "inner" not in [each.name for each in rights.groups(tess)]


def test_members_see_their_groups_at_any_depth_but_not_who_else_is_in_them(home: Home) -> None:
    home.group("outer", "group:inner")
    rights, ana = home.house.rights, home.principal("ana")

    assert [each.name for each in rights.groups(ana)] == ["everyone", "inner", "outer"]
    assert {each.members for each in rights.groups(ana)} == {None}
    assert rights.group(ana, "outer").members is None


def test_who_reads_the_whole_tenant_does_not_see_its_groups(home: Home) -> None:
    home.grant("user:bo", "read")

    with pytest.raises(UnknownResource):
        home.house.rights.group(home.principal("bo"), "inner")


def test_the_built_in_group_keeps_its_members(home: Home) -> None:
    with pytest.raises(AclRefused):
        home.house.rights.add_member(home.principal("tess"), "everyone", "user:bo")


def test_a_group_is_made_once_by_who_manages_the_tenant(home: Home) -> None:
    rights, tess = home.house.rights, home.principal("tess")

    assert [rights.add_group(tess, "staff") for _ in range(2)] == [True, False]
    with pytest.raises(NotAllowed):
        rights.add_group(home.principal("mo"), "mine")
    with pytest.raises(AclRefused):
        rights.add_group(tess, "no name")
