"""acl.authorize: what is minted, what is remembered, and when it is not."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from sqlalchemy import select, text, update

from acl.authorize import Authority
from acl.directory import create_collection
from acl.documents import Access, place, remove, settle
from acl.errors import RightsUnavailable, UnknownPrincipal
from acl.grants import give
from acl.groups import delete_principal
from acl.keys import create_key
from acl.session import Database
from acl.tables import ApiKeyRow, DocumentRow, InstanceRow, PrincipalRow
from acl.types import Action, Effect, Grant, Principal
from tests.acl.chance import NOW_S
from tests.acl.statements import selects
from tests.acl.world import Built, World, allow, build, put
from tests.clock import Clock


def test_a_scope_says_whose_it_is_and_when_it_was_minted(
    built: Built, authority: Authority
) -> None:
    ana = built.principal("ana")

    scope = authority.mint(ana)

    assert (scope.tenant, scope.principal, scope.valid_until_s) == (built.tenant, ana, inf)
    assert set(scope.classes) == set(built.classes().values())
    assert len(scope) == 1
    assert len(authority.mint(built.principal("ben"))) == 0


def test_a_principal_that_is_not_there_gets_no_scope(built: Built, authority: Authority) -> None:
    with pytest.raises(UnknownPrincipal):
        authority.mint(Principal(built.tenant, 999_999, "user:nobody"))


def test_a_deleted_principal_gets_no_scope(built: Built, authority: Authority) -> None:
    ana = built.principal("ana")
    assert authority.mint(ana)
    with built.database.writing(built.tenant) as writing:
        delete_principal(writing, writing.session.get_one(PrincipalRow, ana.id))

    with pytest.raises(UnknownPrincipal):
        authority.mint(ana)


def test_a_new_document_of_an_old_class_leaves_rights_alone(
    built: Built, authority: Authority
) -> None:
    ana = built.principal("ana")
    before = authority.mint(ana)
    put(built)

    with selects(built.database) as asked:
        after = authority.mint(ana)

    assert len(asked) == 1, "only the counters need be read"
    assert after.counters.rights_epoch == before.counters.rights_epoch
    assert after.counters.content_sequence == before.counters.content_sequence + 1
    assert after.classes == before.classes


def test_a_new_class_is_taken_in_without_compiling_anew(built: Built, authority: Authority) -> None:
    ana, ben = built.principal("ana"), built.principal("ben")
    before = authority.mint(ana), authority.mint(ben)
    put(built, allow(ben.id))

    with selects(built.database) as asked:
        after = authority.mint(ana), authority.mint(ben)

    assert after[0].counters.rights_epoch == before[0].counters.rights_epoch
    assert [len(scope) for scope in before] == [1, 0]
    assert [len(scope) for scope in after] == [2, 1]
    assert len(asked) == 3, "the counters twice, the new class once"
    assert not any("membership" in each for each in asked)


def test_another_incarnation_forgets_everything(built: Built, authority: Authority) -> None:
    """A restored backup may stand at the same numbers with other rights."""
    ana = built.principal("ana")
    before = authority.mint(ana)
    with built.database.engine.begin() as connection:
        connection.execute(update(InstanceRow).values(incarnation="life-2"))
        connection.execute(text('DELETE FROM "grant"'))

    after = authority.mint(ana)

    assert after.counters == replace(before.counters, incarnation="life-2")
    assert len(after) == 0


@pytest.mark.parametrize("where", ["a", "own"])
def test_the_end_of_a_grant_ends_the_remembered_scope(
    built: Built, authority: Authority, clock: Clock, where: str
) -> None:
    ben = built.principal("ben")
    authority.mint(ben)
    end_s = clock.now_s() + 10
    if where == "own":
        put(built, allow(ben.id, end_s))
    else:
        with built.database.writing(built.tenant) as writing:
            give(writing, built.resource("a"), allow(ben.id, end_s))

    scope = authority.mint(ben)
    assert (len(scope), scope.valid_until_s) == (1, end_s)
    clock.advance(9)
    assert authority.mint(ben) == scope
    clock.advance(1)
    assert (len(authority.mint(ben)), authority.mint(ben).valid_until_s) == (0, inf)


def test_a_database_that_fails_gives_no_rights(built: Built, authority: Authority) -> None:
    ana = built.principal("ana")
    authority.mint(ana)
    with built.database.writing(built.tenant) as writing:
        writing.rights_changed()
    with built.database.engine.begin() as connection:
        connection.execute(text("DROP TABLE membership"))

    with pytest.raises(RightsUnavailable):
        authority.mint(ana)
    nowhere = Authority(Database("sqlite:////dev/null/nowhere.db"))
    with pytest.raises(RightsUnavailable):
        nowhere.mint(ana)


def test_a_principal_is_not_judged_in_the_session_of_another_tenant(
    built: Built, authority: Authority
) -> None:
    """Both tenants may stand at the same numbers; one must not get what is kept of the other."""
    other = build(World().user("ana").folder("a").document("d0", "a"), built.database, "other")
    scope = authority.mint(built.principal("ana"))
    with built.database.reading(other.tenant) as session:
        with pytest.raises(RightsUnavailable):
            authority.mint_in(session, built.principal("ana"))
        with pytest.raises(AssertionError, match="another tenant"):
            authority.generations(session, scope)


def test_a_class_that_a_document_left_has_a_higher_generation(
    built: Built, authority: Authority
) -> None:
    ana, ben = built.principal("ana"), built.principal("ben")
    number = built.classes()["d0"]

    def generations(who: Principal) -> dict[int, int]:
        with built.database.reading(built.tenant) as session:
            return authority.generations(session, authority.mint_in(session, who))

    assert generations(ana) == {}
    with built.database.writing(built.tenant) as writing:
        row = writing.session.get_one(DocumentRow, built.documents["d0"])
        assert settle(writing, row, Access((allow(ben.id),)))
    assert generations(ana) == {number: 1}
    assert generations(ben) == {}
    with built.database.writing(built.tenant) as writing:
        remove(writing, writing.session.get_one(DocumentRow, built.documents["d1"]))
    assert generations(ana) == {number: 2}


def test_a_narrowed_scope_holds_what_both_hold_and_ends_with_the_first(
    built: Built, authority: Authority, clock: Clock
) -> None:
    ben = built.principal("ben")
    put(built, allow(ben.id, clock.now_s() + 5))
    first = authority.mint(ben)
    clock.advance(5)
    put(built, Grant(ben.id, Action.READ, Effect.DENY), allow(ben.id))
    put(built, allow(ben.id))
    second = authority.mint(ben)

    both = authority.narrowed(first, second)

    assert [len(scope) for scope in (first, second, both)] == [1, 1, 0]
    assert both.counters == second.counters
    assert both.valid_until_s == first.valid_until_s
    assert authority.narrowed(second, second) == second


def test_the_memory_is_bounded_and_the_oldest_is_forgotten(built: Built) -> None:
    authority = Authority(built.database, lambda: NOW_S, n_remembered=2)
    with built.database.writing(built.tenant) as writing:
        row = writing.session.get_one(PrincipalRow, built.people["ana"])
        create_key(writing, row, b"s" * 32)
    with built.database.reading(built.tenant) as session:
        key = session.scalars(select(ApiKeyRow.id)).one()
    people = [Principal(built.tenant, built.people["ana"], name, key) for name in ("a", "b", "c")]
    scopes = [authority.mint(who) for who in people]

    costs = []
    for who in (people[2], people[1], people[0]):
        with selects(built.database) as asked:
            assert authority.mint(who) == scopes[people.index(who)]
        costs.append(len(asked))

    # Who is forgotten has its key and its groups looked up again.
    assert costs == [1, 1, 3]


def test_the_end_of_a_right_asks_for_nothing_but_the_counters(
    built: Built, authority: Authority, clock: Clock
) -> None:
    ben = built.principal("ben")
    put(built, allow(ben.id, clock.now_s() + 10))
    with built.database.writing(built.tenant) as writing:
        give(writing, built.resource("a"), allow(ben.id, clock.now_s() + 20))
    scopes = []
    with selects(built.database) as asked:
        for _ in range(3):
            scopes.append(authority.mint(ben))
            clock.advance(10)
        n_asked = len(asked)

    assert [len(scope) for scope in scopes] == [2, 2, 0]
    assert [scope.valid_until_s - clock.now_s() for scope in scopes] == [-20, -10, inf]
    # Counters, groups, grants, collections, classes; then the counters alone, twice.
    assert n_asked == 5 + 2


def test_a_collection_made_later_is_known_to_the_next_scope(
    built: Built, authority: Authority
) -> None:
    ana = built.principal("ana")
    authority.mint(ana)
    with built.database.writing(built.tenant) as writing:
        place(writing, create_collection(writing, "a/new"), Access())
        place(writing, create_collection(writing, "b"), Access())

    assert len(authority.mint(ana)) == 2
