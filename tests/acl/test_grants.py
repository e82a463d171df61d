"""acl.grants, acl.documents, acl.classes: what a change of rights moves, and what it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import select

from acl.documents import (
    Access,
    access_of,
    document_by_public_id,
    has_denies,
    place,
    remove,
    settle,
)
from acl.errors import AclRefused, UnknownResource
from acl.grants import give, revoke, set_rules
from acl.groups import add_member, delete_principal, members, remove_member
from acl.session import Database, Writing
from acl.tables import (
    AccessClassRow,
    ApiKeyRow,
    ChangeRow,
    CollectionRow,
    DocumentRow,
    GrantRow,
    MembershipRow,
    PrincipalRow,
)
from acl.types import Action, Effect, Grant, Level, Resource
from tests.acl.world import TENANT, Built, World, build

Moves = tuple[int, int, int]


@pytest.fixture
def built(database: Database) -> Built:
    """Two folders; d0 and d1 share a class."""
    world = World().user("ana", "ben").group("staff", "ana").folder("a").folder("b")
    return build(world.document("d0", "a").document("d1", "a").allow("ana", "a"), database)


def moves(built: Built, change: Callable[[Writing], object]) -> Moves:
    """Say by how much a change moves epoch, content sequence and departures."""
    with built.database.writing(built.tenant) as before:
        pass
    with built.database.writing(built.tenant) as after:
        change(after)
    old, new = before.counters, after.counters
    assert old is not None
    assert new is not None
    return (
        new.rights_epoch - old.rights_epoch,
        new.content_sequence - old.content_sequence,
        new.departures - old.departures,
    )


def row(writing: Writing, built: Built, name: str) -> DocumentRow:
    """Load a document."""
    return writing.session.get_one(DocumentRow, built.documents[name])


def line(built: Built, who: str, action: Action = Action.READ, **more: float) -> Grant:
    """A grant that allows."""
    return Grant(built.people[who], action, Effect.ALLOW, **more)


@pytest.mark.parametrize("where", [TENANT, "a"])
@pytest.mark.parametrize("action", list(Action))
def test_a_grant_above_documents_moves_the_epoch_alone(
    built: Built, where: str, action: Action
) -> None:
    grant, resource = line(built, "ben", action), built.resource(where)

    assert moves(built, lambda w: give(w, resource, grant)) == (1, 0, 0)
    assert moves(built, lambda w: give(w, resource, grant)) == (0, 0, 0)
    later = line(built, "ben", action, expires_s=9e9)
    assert moves(built, lambda w: give(w, resource, later)) == (1, 0, 0)
    assert moves(built, lambda w: revoke(w, resource, grant)) == (1, 0, 0)
    assert moves(built, lambda w: revoke(w, resource, grant)) == (0, 0, 0)


def test_a_read_grant_on_a_document_moves_its_passages_and_not_the_epoch(built: Built) -> None:
    grant, resource, old = line(built, "ben"), built.resource("d0"), built.classes()

    assert moves(built, lambda w: give(w, resource, grant)) == (0, 1, 1)
    assert built.classes()["d0"] != old["d0"]
    assert built.classes()["d1"] == old["d1"]
    assert moves(built, lambda w: revoke(w, resource, grant)) == (0, 1, 1)
    assert built.classes() == old, "equal readers, equal class"
    with built.database.reading(built.tenant) as session:
        changed = session.scalars(select(ChangeRow.document_id)).all()
        assert changed == [built.documents["d0"]] * 2
        assert session.get_one(AccessClassRow, old["d0"]).generation == 1


@pytest.mark.parametrize("action", [Action.WRITE, Action.MANAGE])
def test_another_grant_on_a_document_moves_no_passage(built: Built, action: Action) -> None:
    old = built.classes()

    assert moves(built, lambda w: give(w, built.resource("d0"), line(built, "ben", action))) == (
        1, 0, 0,
    )  # fmt: skip
    assert built.classes() == old


def test_a_grant_needs_a_resource_that_is_there(built: Built) -> None:
    for missing in (Resource(level, 999) for level in Level if level is not Level.TENANT):
        with built.database.writing(built.tenant) as writing, pytest.raises(UnknownResource):
            give(writing, missing, line(built, "ben"))


def test_rules_replace_what_stood_on_the_folder(built: Built) -> None:
    def stands() -> set[Grant]:
        with built.database.reading(built.tenant) as session:
            return {
                Grant(each.principal_id, Action(each.action), Effect(each.effect), each.expires_s)
                for each in session.scalars(select(GrantRow).where(GrantRow.level == "collection"))
            }

    def rules(grants: set[Grant], cut: bool) -> Moves:
        return moves(
            built,
            lambda w: set_rules(
                w, w.session.get_one(CollectionRow, built.folders["a"]), grants, cut
            ),
        )

    deny = Grant(built.people["ana"], Action.READ, Effect.DENY)
    assert rules({line(built, "ana")}, False) == (0, 0, 0)
    assert rules({line(built, "ana", expires_s=9e9), deny}, False) == (1, 0, 0)
    assert stands() == {line(built, "ana", expires_s=9e9), deny}
    assert rules({line(built, "ana", expires_s=9e9), deny}, True) == (1, 0, 0)
    assert rules({line(built, "staff", Action.WRITE)}, True) == (1, 0, 0)
    assert stands() == {line(built, "staff", Action.WRITE)}
    assert rules(set(), True) == (1, 0, 0)
    assert stands() == set()


def test_settling_moves_only_what_changed(built: Built) -> None:
    def settled(access: Access, folder: str | None = None) -> Moves:
        target = None if folder is None else built.folders[folder]
        return moves(built, lambda w: settle(w, row(w, built, "d0"), access, target))

    both = (line(built, "staff"), line(built, "ben"))
    assert settled(Access()) == (0, 0, 0)
    assert settled(Access(both)) == (0, 1, 1)
    assert settled(Access(both[::-1]), "a") == (0, 0, 0), "order is of no account"
    assert settled(Access((*both, line(built, "ana", Action.WRITE)))) == (1, 0, 0)
    assert settled(Access((), cut=True)) == (1, 1, 1)
    assert settled(Access((), cut=True), "b") == (0, 1, 1)
    with built.database.writing(built.tenant) as writing:
        document = row(writing, built, "d0")
        assert document.collection_id == built.folders["b"]
        assert access_of(writing.session, document) == Access((), cut=True)
        assert not settle(writing, document, Access((), cut=True))


def test_a_class_is_named_by_folder_cut_and_own_read_grants(built: Built) -> None:
    ben, later = line(built, "ben"), line(built, "ben", expires_s=9e9)
    deny = Grant(built.people["ben"], Action.READ, Effect.DENY)
    write = line(built, "ben", Action.WRITE)
    places = [
        ("a", Access()), ("b", Access()), ("a", Access((), cut=True)), ("a", Access((ben,))),
        ("a", Access((later,))), ("a", Access((deny,))), ("a", Access((ben, deny))),
        ("a", Access((line(built, "staff"),))),
    ]  # fmt: skip

    def put(folder: str, access: Access) -> int:
        with built.database.writing(built.tenant) as writing:
            collection = writing.session.get_one(CollectionRow, built.folders[folder])
            return place(writing, collection, access).class_id

    numbers = [put(folder, access) for folder, access in places]
    assert len(set(numbers)) == len(places)
    assert numbers[0] == built.classes()["d0"]
    assert [put(folder, access) for folder, access in places] == numbers
    assert put("a", Access((deny, write, ben))) == numbers[6]
    assert [has_denies(access) for _, access in places].count(True) == 2


def test_a_removed_document_leaves_no_grant_and_is_logged(built: Built) -> None:
    grant, number = line(built, "ben"), built.documents["d0"]
    with built.database.writing(built.tenant) as writing:
        give(writing, built.resource("d0"), grant)
        public_id = row(writing, built, "d0").public_id

    assert moves(built, lambda w: remove(w, row(w, built, "d0"))) == (0, 1, 1)
    with built.database.reading(built.tenant) as session:
        assert document_by_public_id(session, public_id) is None
        assert session.scalars(select(GrantRow).where(GrantRow.level == "document")).all() == []
        assert number in session.scalars(select(ChangeRow.document_id)).all()


def test_members_come_and_go_once(built: Built) -> None:
    def change(
        writing: Writing, verb: Callable[[Writing, PrincipalRow, PrincipalRow], bool], who: str
    ) -> bool:
        staff, member = (
            writing.session.get_one(PrincipalRow, built.people[each]) for each in ("staff", who)
        )
        return verb(writing, staff, member)

    assert moves(built, lambda w: change(w, add_member, "ben")) == (1, 0, 0)
    assert moves(built, lambda w: change(w, add_member, "ben")) == (0, 0, 0)
    with built.database.reading(built.tenant) as session:
        staff = session.get_one(PrincipalRow, built.people["staff"])
        assert [each.name for each in members(session, staff)] == ["ana", "ben"]
    assert moves(built, lambda w: change(w, remove_member, "ben")) == (1, 0, 0)
    assert moves(built, lambda w: change(w, remove_member, "ben")) == (0, 0, 0)


def test_a_deleted_principal_leaves_nothing_behind(built: Built) -> None:
    number = built.people["staff"]
    with built.database.writing(built.tenant) as writing:
        session = writing.session
        give(writing, built.resource("d0"), line(built, "staff"))
        give(writing, Resource(Level.GROUP, number), line(built, "ben", Action.MANAGE))
        session.add(
            ApiKeyRow(principal_id=built.people["ana"], prefix="p", digest="d", expires_s=None)
        )

    def delete_one(writing: Writing, who: str) -> None:
        delete_principal(writing, writing.session.get_one(PrincipalRow, built.people[who]))

    assert moves(built, lambda w: delete_one(w, "staff")) == (1, 0, 0)
    assert moves(built, lambda w: delete_one(w, "ana")) == (1, 0, 0)
    with built.database.reading(built.tenant) as session:
        for table in (GrantRow, MembershipRow, ApiKeyRow):
            assert session.scalars(select(table)).all() == []


@pytest.mark.parametrize("whose", ["nobody", "other tenant"])
def test_a_grant_to_a_principal_of_another_tenant_is_refused(built: Built, whose: str) -> None:
    other = build(World().user("zoe"), built.database, "other")
    stranger = other.people["zoe"] if whose == "other tenant" else 999
    grant = Grant(stranger, Action.READ, Effect.ALLOW)

    def tried(change: Callable[[Writing, CollectionRow], object]) -> None:
        with (
            pytest.raises(AclRefused, match=f"principal {stranger}, which the tenant does not"),
            built.database.writing(built.tenant) as writing,
        ):
            change(writing, writing.session.get_one(CollectionRow, built.folders["a"]))

    tried(lambda writing, _: give(writing, built.resource("a"), grant))
    tried(lambda writing, _: give(writing, built.resource("d0"), grant))
    tried(lambda writing, folder: place(writing, folder, Access((grant,))))
    tried(lambda writing, folder: set_rules(writing, folder, {grant}, cut=True))
    tried(lambda writing, _: settle(writing, row(writing, built, "d0"), Access((grant,))))
    with built.database.reading(built.tenant) as session:
        assert set(session.scalars(select(GrantRow.principal_id))) == {built.people["ana"]}


@pytest.mark.parametrize("end_s", [None, 5.0])
def test_grants_that_say_the_same_twice_are_refused(built: Built, end_s: float | None) -> None:
    ben = built.people["ben"]
    twice = (Grant(ben, Action.READ, Effect.DENY), Grant(ben, Action.READ, Effect.DENY, end_s))
    said = f"2 grants deny principal {ben} to read"

    with built.database.writing(built.tenant) as writing:
        folder = writing.session.get_one(CollectionRow, built.folders["a"])
        with pytest.raises(AclRefused, match=said):
            place(writing, folder, Access(twice))
        with pytest.raises(AclRefused, match=said):
            settle(writing, row(writing, built, "d0"), Access(twice))
        if end_s is not None:
            with pytest.raises(AclRefused, match=said):
                set_rules(writing, folder, set(twice), cut=False)
    # A deny beside an allow, and another action, are other things to say.
    with built.database.writing(built.tenant) as writing:
        place(
            writing, writing.session.get_one(CollectionRow, built.folders["a"]),
            Access((twice[1], Grant(ben, Action.READ, Effect.ALLOW),
                    Grant(ben, Action.WRITE, Effect.DENY))),
        )  # fmt: skip
