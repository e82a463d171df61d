"""Laws 3, 4 and 9: the order of counters is the order of commits, and a snapshot stands still."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from sqlalchemy import select

from acl.authorize import Authority
from acl.directory import create_tenant
from acl.documents import Access, place
from acl.grants import revoke
from acl.session import Database, counters
from acl.tables import ChangeRow, CollectionRow
from acl.types import Action, Counters, Effect, Grant
from tests.acl.chance import NOW_S
from tests.acl.oracle import readable
from tests.acl.world import TENANT, Built, World, build
from tests.clock import Clock

_N_WRITES = 20


def plain(database: Database) -> Built:
    """A world with one folder, that ana may read."""
    world = World().user("ana").folder("a").document("d0", "a").allow("ana", "a")
    return build(world, database)


def now(database: Database, tenant: str) -> Counters:
    """The counters in a new snapshot."""
    with database.reading(tenant) as session:
        return counters(session)


def test_two_writers_move_the_counters_in_the_order_of_their_commits(
    any_database: Database,
) -> None:
    built = plain(any_database)
    start = now(any_database, built.tenant)
    bodies: list[tuple[Counters, int]] = []

    def write(first: int) -> None:
        for document in range(first, first + _N_WRITES):
            with any_database.writing(built.tenant) as writing:
                # Writers are one at a time here, so what this list says is the order of commits.
                bodies.append((counters(writing.session), document))
                writing.rights_changed()
                writing.document_changed(document)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(write, first) for first in (100, 200)]:
            done.result(60)

    epochs = [seen.rights_epoch - start.rights_epoch for seen, _ in bodies]
    assert epochs == list(range(2 * _N_WRITES))
    with any_database.reading(built.tenant) as session:
        rows = session.execute(
            select(ChangeRow.sequence, ChangeRow.document_id).order_by(ChangeRow.sequence)
        )
        assert [*rows] == [
            (start.content_sequence + place, document)
            for place, (_, document) in enumerate(bodies, start=1)
        ]


def test_who_follows_the_change_log_misses_nothing(any_database: Database) -> None:
    """With a database's own sequence a number can commit after a higher one was read."""
    built = plain(any_database)
    over = Event()
    start = at = now(any_database, built.tenant).content_sequence
    followed: list[int] = []

    def write(first: int) -> None:
        for document in range(first, first + _N_WRITES):
            with any_database.writing(built.tenant) as writing:
                writing.document_changed(document)

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, first) for first in (100, 200)]
        while not over.is_set():
            if all(each.done() for each in writers):
                over.set()
            with any_database.reading(built.tenant) as session:
                newest = counters(session).content_sequence
                fresh = session.scalars(
                    select(ChangeRow.document_id).where(
                        ChangeRow.sequence > at, ChangeRow.sequence <= newest
                    )
                ).all()
            assert len(fresh) == newest - at
            followed += fresh
            at = newest

    assert at == start + 2 * _N_WRITES
    assert sorted(followed) == [*range(100, 100 + _N_WRITES), *range(200, 200 + _N_WRITES)]


def test_each_counter_moves_for_its_own_reason(any_database: Database) -> None:
    built = plain(any_database)
    before = now(any_database, built.tenant)

    with any_database.writing(built.tenant) as idle:
        pass
    assert idle.counters == before
    with any_database.writing(built.tenant) as rights:
        rights.rights_changed()
        rights.rights_changed()
    with any_database.writing(built.tenant) as content:
        content.document_changed(7)
        content.document_changed(8)
    with any_database.writing(built.tenant) as left:
        left.passages_left(built.classes()["d0"])

    at = (before.rights_epoch, before.content_sequence, before.departures)
    assert [
        (each.counters.rights_epoch, each.counters.content_sequence, each.counters.departures)
        for each in (rights, content, left)
        if each.counters is not None
    ] == [(at[0] + 1, at[1], at[2]), (at[0] + 1, at[1] + 1, at[2]), tuple(n + 1 for n in at)]
    assert left.counters == now(any_database, built.tenant)


def test_nothing_moves_when_a_write_fails(any_database: Database) -> None:
    built = plain(any_database)
    before = now(any_database, built.tenant)

    with pytest.raises(KeyError), any_database.writing(built.tenant) as writing:  # noqa: PT012
        collection = writing.session.get_one(CollectionRow, built.folders["a"])
        document = place(
            writing, collection, Access((Grant(built.people["ana"], Action.READ, Effect.DENY),))
        )
        writing.document_changed(document.id)
        writing.rights_changed()
        writing.passages_left(document.class_id)
        writing.stamp()
        raise KeyError("the write fails at its end")

    assert now(any_database, built.tenant) == before
    with any_database.reading(built.tenant) as session:
        assert session.scalars(select(ChangeRow)).all() == []


def test_the_counters_of_one_tenant_do_not_move_those_of_another(any_database: Database) -> None:
    built, other = plain(any_database), create_tenant(any_database, "other")
    before = now(any_database, built.tenant)

    with any_database.writing(other) as writing:
        writing.rights_changed()
        writing.document_changed(1)

    assert now(any_database, built.tenant) == before
    assert now(any_database, other) != before


def test_a_snapshot_does_not_see_a_commit_after_its_first_read(any_database: Database) -> None:
    built = plain(any_database)
    authority = Authority(any_database)
    ana = built.principal("ana")
    with any_database.reading(built.tenant) as session:
        before = counters(session)
        with any_database.writing(built.tenant) as writing:
            assert revoke(writing, built.resource("a"), Grant(ana.id, Action.READ, Effect.ALLOW))

        assert counters(session) == before
        old = authority.mint_in(session, ana)
    assert old.counters == before
    assert set(old.classes) == set(built.classes().values())
    assert len(authority.mint(ana)) == 0


def test_scopes_equal_the_oracle_on_every_database(any_database: Database) -> None:
    world = World().user("ana", "ben").group("staff", "ana").group("all", "staff", "ben")
    world.folder("a").folder("a/b", cut=True)
    world.document("d0", "a").document("d1", "a/b").document("d2", "a", cut=True)
    world.allow("all", TENANT).deny("ben", "d0").allow("staff", "a/b", NOW_S + 5).allow("ben", "d2")
    built = build(world, any_database)

    for now_s in (NOW_S, NOW_S + 5):
        authority = Authority(any_database, Clock(now_s).now_s)
        for who in world.everybody:
            readable_now = authority.mint(built.principal(who)).classes
            found = {name for name, number in built.classes().items() if number in readable_now}
            assert found == readable(world, who, now_s)
