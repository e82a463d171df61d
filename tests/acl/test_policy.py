"""acl.policy and acl.resources: one action, one resource, and the grants that count on it."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from acl.audit import record
from acl.errors import RightsUnavailable, UnknownPrincipal, UnknownResource
from acl.grants import give
from acl.groups import delete_principal
from acl.policy import verdict
from acl.resources import standing, way
from acl.session import Database
from acl.tables import AuditRow, PrincipalRow
from acl.types import Action, Allowed, Denied, Effect, Grant, Level, Principal, Resource
from tests.acl.chance import NOW_S
from tests.acl.world import TENANT, Built, World, build


@pytest.fixture
def built(database: Database) -> Built:
    """A document two folders deep, the inner one cut."""
    world = World().user("ana", "ben").group("staff", "ana")
    world.folder("a").folder("a/b", cut=True).document("plan", "a/b")
    return build(world.allow("ben", "a").deny("staff", "a").allow("ben", "plan"), database)


def put(built: Built, resource: Resource, who: str, action: Action, effect: Effect) -> None:
    """Give a grant in a write of its own."""
    with built.database.writing(built.tenant) as writing:
        give(writing, resource, Grant(built.people[who], action, effect))


def may(built: Built, who: str, action: Action, resource: Resource) -> bool:
    """Ask for a verdict in a new snapshot."""
    with built.database.reading(built.tenant) as session:
        return bool(verdict(session, built.principal(who), action, resource, NOW_S))


@pytest.mark.parametrize("given", list(Action))
def test_no_action_implies_another(built: Built, given: Action) -> None:
    folder = built.resource("a/b")
    put(built, folder, "ana", given, Effect.ALLOW)
    expected = {action: action is given for action in Action}
    # The folder above denies her group to read.
    expected[Action.READ] = False

    assert {action: may(built, "ana", action, folder) for action in Action} == expected
    assert not any(may(built, "ana", action, built.resource("a")) for action in Action)


def test_a_deny_of_one_action_leaves_the_others(built: Built) -> None:
    for action in (Action.WRITE, Action.MANAGE):
        put(built, built.resource(TENANT), "ana", action, Effect.ALLOW)
    put(built, built.resource("a"), "staff", Action.WRITE, Effect.DENY)

    # The inner folder drops the tenant's allow; the outer one does not.
    assert may(built, "ana", Action.MANAGE, built.resource("a"))
    assert not may(built, "ana", Action.MANAGE, built.resource("a/b"))
    assert not may(built, "ana", Action.WRITE, built.resource("a"))


def test_who_keeps_a_group_is_decided_on_the_group(built: Built) -> None:
    group = Resource(Level.GROUP, built.people["staff"])
    assert not may(built, "ben", Action.MANAGE, group)
    put(built, group, "ben", Action.MANAGE, Effect.ALLOW)

    assert may(built, "ben", Action.MANAGE, group)
    assert not may(built, "ana", Action.MANAGE, group)
    with built.database.reading(built.tenant) as session:
        for nobody in (999, built.people["ana"]):
            with pytest.raises(UnknownResource):
                way(session, Resource(Level.GROUP, nobody))


def test_a_denial_names_rule_and_resource_but_is_not_true(built: Built) -> None:
    with built.database.reading(built.tenant) as session:
        no = verdict(session, built.principal("ana"), Action.READ, built.resource("plan"), NOW_S)
        yes = verdict(session, built.principal("ben"), Action.READ, built.resource("plan"), NOW_S)

    assert (bool(no), bool(yes), yes) == (False, True, Allowed())
    assert isinstance(no, Denied)
    assert no.reason == f"ana may not read document:{built.documents['plan']}"


def test_nobody_and_nothing_are_said_to_be_unknown(built: Built) -> None:
    stranger = Principal(built.tenant, 999, "user:stranger")
    with built.database.reading(built.tenant) as session:
        with pytest.raises(UnknownPrincipal):
            verdict(session, stranger, Action.READ, built.resource("plan"), NOW_S)
        for level in (Level.DOCUMENT, Level.COLLECTION):
            with pytest.raises(UnknownResource):
                verdict(session, built.principal("ana"), Action.READ, Resource(level, 999), NOW_S)


def test_no_verdict_is_given_when_rights_can_not_be_read(built: Built) -> None:
    with built.database.engine.begin() as connection:
        connection.execute(text("DROP TABLE membership"))

    with pytest.raises(RightsUnavailable):
        may(built, "ben", Action.READ, built.resource("plan"))


def test_the_way_runs_from_the_tenant_down(built: Built) -> None:
    with built.database.reading(built.tenant) as session:
        steps = way(session, built.resource("plan"))

    places = [built.resource(where) for where in (TENANT, "a", "a/b", "plan")]
    assert [step.resource for step in steps] == places
    assert [step.cut for step in steps] == [False, False, True, False]


def test_what_counts_is_said_with_where_it_stands(built: Built) -> None:
    with built.database.reading(built.tenant) as session:
        found = standing(session, built.resource("plan"), Action.READ)

    assert [(each.grant.principal, each.grant.effect, each.origin) for each in found] == [
        (built.people["staff"], Effect.DENY, built.resource("a")),
        (built.people["ben"], Effect.ALLOW, built.resource("plan")),
    ]


def test_the_audit_log_is_written_with_what_it_tells_about(built: Built) -> None:
    database = built.database
    with pytest.raises(KeyError), database.writing(built.tenant) as writing:  # noqa: PT012
        record(writing.session, None, "grant", "collection:1")
        raise KeyError("the write fails")
    with database.writing(built.tenant) as writing:
        record(writing.session, built.principal("ana"), "read", "document:1", "denied", "x" * 400)
        record(writing.session, None, "grant", "collection:1")

    with database.reading(built.tenant) as session:
        lines = session.query(AuditRow).order_by(AuditRow.id).all()
        assert [(each.principal_id, each.event, each.outcome) for each in lines] == [
            (built.people["ana"], "read", "denied"),
            (0, "grant", "done"),
        ]
        assert len(lines[0].reason) == 300


def test_a_row_id_of_ours_is_not_a_principal_of_another_tenant(built: Built) -> None:
    other = build(World(), built.database, "other")
    stranger = Principal(other.tenant, built.people["ben"], "ben")
    with built.database.reading(built.tenant) as session:
        assert verdict(session, built.principal("ben"), Action.READ, built.resource("plan"), NOW_S)
        with pytest.raises(UnknownPrincipal):
            verdict(session, stranger, Action.READ, built.resource("plan"), NOW_S)


def test_a_principal_that_the_same_write_has_deleted_is_unknown(built: Built) -> None:
    ben, plan = built.principal("ben"), built.resource("plan")
    with built.database.writing(built.tenant) as writing:
        delete_principal(writing, writing.session.get_one(PrincipalRow, ben.id))
        with pytest.raises(UnknownPrincipal):
            verdict(writing.session, ben, Action.READ, plan, NOW_S)


def test_no_verdict_is_given_when_principals_can_not_be_read(built: Built) -> None:
    nowhere = Database("sqlite:////dev/null/nowhere.db")
    with nowhere.reading(built.tenant) as session, pytest.raises(RightsUnavailable):
        verdict(session, built.principal("ben"), Action.READ, built.resource("plan"), NOW_S)
