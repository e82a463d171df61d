"""acl.authorize at the same time: threads, snapshots of the past, writes under way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Event

import pytest
from sqlalchemy import event

from acl.authorize import Authority
from acl.documents import Access, place
from acl.grants import give
from acl.tables import CollectionRow
from acl.types import Action, Effect, Grant, Level, Principal, Resource
from tests.acl.chance import NOW_S
from tests.acl.statements import selects
from tests.acl.world import EVERYONE, Built, World, allow, build, put


def test_a_snapshot_of_the_past_gets_the_rights_of_the_past(
    built: Built, authority: Authority
) -> None:
    ben = built.principal("ben")
    with built.database.reading(built.tenant) as session:
        old = authority.mint_in(session, ben)
        put(built, allow(ben.id))
        new = authority.mint(ben)

        assert authority.mint_in(session, ben) == old
    assert (len(old), len(new)) == (0, 1)
    assert authority.mint(ben) == new


def test_a_snapshot_of_the_past_costs_the_present_nothing(
    built: Built, authority: Authority
) -> None:
    ana, ben = built.principal("ana"), built.principal("ben")
    with built.database.reading(built.tenant) as session:
        authority.mint_in(session, ana)
        with built.database.writing(built.tenant) as writing:
            give(writing, built.resource("a"), allow(ben.id))
        authority.mint(ana)
        assert len(authority.mint_in(session, ben)) == 0

    with selects(built.database) as asked:
        assert len(authority.mint(ben)) == 1
    assert not any("grant" in each or "access_class" in each for each in asked)


def test_threads_of_one_tenant_compile_once(built: Built) -> None:
    authority = Authority(built.database, lambda: NOW_S)
    people = [built.principal(who) for who in ("ana", "ben", EVERYONE)] * 4

    with selects(built.database) as asked, ThreadPoolExecutor(len(people)) as pool:
        scopes = list(pool.map(authority.mint, people))

    assert [len(scope) for scope in scopes[:3]] == [1, 0, 0]
    assert sum("access_class" in each for each in asked) == 1
    assert sum("FROM grant" in each.replace('"', "") for each in asked) == 1


def test_a_tenant_that_compiles_holds_up_no_other(built: Built) -> None:
    other = build(World().user("ana").folder("a").document("d0", "a"), built.database, "other")
    authority = Authority(built.database, lambda: NOW_S)
    stopped, go_on = Event(), Event()

    def stop(
        _connection: object, _cursor: object, statement: str, asked: object, *_: object
    ) -> None:
        if "access_class" in statement and built.tenant in str(asked):
            stopped.set()
            go_on.wait(30)

    event.listen(built.database.engine, "before_cursor_execute", stop)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(authority.mint, built.principal("ana"))
        try:
            assert stopped.wait(30)
            scope = pool.submit(authority.mint, other.principal("ana")).result(30)

            assert (scope.tenant, len(scope)) == (other.tenant, 0)
            assert not waiting.done()
        finally:
            go_on.set()
        assert len(waiting.result(30)) == 1


def test_a_write_sees_its_own_rights_and_classes_beside_the_committed_ones(
    built: Built, authority: Authority
) -> None:
    ana, ben = built.principal("ana"), built.principal("ben")
    before = authority.mint(ana), authority.mint(ben)
    with built.database.writing(built.tenant) as writing:
        folder = writing.session.get_one(CollectionRow, built.folders["a"])
        place(writing, folder, Access((Grant(ana.id, Action.READ, Effect.DENY),)))
        place(writing, folder, Access((allow(ben.id),)))
        give(writing, built.resource("a"), allow(ben.id))
        inside = [authority.mint_in(writing.session, who) for who in (ana, ben)]
        assert (authority.mint(ana), authority.mint(ben)) == before

    assert [len(scope) for scope in inside] == [2, 3]
    after = [authority.mint(who) for who in (ana, ben)]
    assert [scope.classes for scope in after] == [scope.classes for scope in inside]


def test_grants_that_are_not_committed_are_not_remembered(
    built: Built, authority: Authority
) -> None:
    """The epoch stands still until the commit: a failed write could have left its rights."""
    ben = built.principal("ben")
    with pytest.raises(KeyError), built.database.writing(built.tenant) as writing:  # noqa: PT012
        give(writing, Resource(Level.TENANT), allow(ben.id))
        assert len(authority.mint_in(writing.session, ben)) == 1
        raise KeyError("the write fails")

    assert len(authority.mint(ben)) == 0


def test_classes_that_are_not_committed_are_not_remembered(
    built: Built, authority: Authority
) -> None:
    """SQLite gives the class id of a failed write out again, to a class with other readers."""
    ana, ben = built.principal("ana"), built.principal("ben")
    authority.mint(ana)
    with pytest.raises(KeyError), built.database.writing(built.tenant) as writing:  # noqa: PT012
        collection = writing.session.get_one(CollectionRow, built.folders["a"])
        place(writing, collection, Access((allow(ben.id),)))
        assert len(authority.mint_in(writing.session, ben)) == 1
        raise KeyError("the write fails")
    put(built, Grant(ben.id, Action.READ, Effect.DENY))

    assert len(authority.mint(ben)) == 0


def test_many_threads_get_what_one_gets(built: Built) -> None:
    authority = Authority(built.database, lambda: NOW_S)
    rng = Random(5)  # noqa: S311  # chance in a test, not a secret
    people = [built.principal(rng.choice(["ana", "ben"])) for _ in range(60)]

    def mint(who: Principal) -> int:
        if who.name == "ana":
            put(built)
        return len(authority.mint(who))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(mint, people)) == [1 if who.name == "ana" else 0 for who in people]
