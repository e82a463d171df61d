"""acl.compiled: what is brought up to date is what compiling anew gives, and old stays old."""

from __future__ import annotations

from copy import deepcopy
from math import inf
from random import Random

import pytest

from acl.compiled import CompiledRights
from acl.documents import Access, place
from acl.grants import give
from acl.groups import around
from acl.session import Database, counters
from acl.tables import CollectionRow
from acl.types import Action, Effect, Grant
from tests.acl.chance import NOW_S, Change, random_world
from tests.acl.oracle import readable
from tests.acl.statements import selects
from tests.acl.world import Built, World, build

# What makes the worlds of a sequence: small enough that a change often meets another.
_SMALL = {"users": 6, "chain": 4, "groups": 3, "folders": 6, "documents": 10, "rules": 25}


@pytest.fixture
def built(database: Database) -> Built:
    """A folder with a document that ana may read."""
    return build(World().user("ana", "ben").folder("a").document("d0", "a").allow("ana", "a"),
                 database)  # fmt: skip


def compiled(built: Built) -> CompiledRights:
    """Compile from nothing."""
    with built.database.reading(built.tenant) as session:
        return CompiledRights.compiled(session, counters(session).horizon)


def state(rights: CompiledRights) -> object:
    """Give all that is compiled, so that two can be compared."""
    tree = rights.tree
    areas = {number: rules for rules, numbers in tree.areas for number in numbers}
    return tree.own, tree.rules, tree.nodes, areas, rights.sets


def reads(rights: CompiledRights, built: Built, who: str, now_s: float = NOW_S) -> set[str]:
    """Name the documents that somebody reads by what is compiled."""
    classes = built.classes()
    with built.database.reading(built.tenant) as session:
        members, horizon = around(session, built.people[who]), counters(session).horizon
    found = rights.readable(members, now_s, horizon).classes
    return {name for name, number in classes.items() if number in found}


@pytest.mark.parametrize("seed", [31, 32, 33, 34])
def test_after_any_changes_what_is_brought_up_equals_what_is_compiled_anew(
    database: Database, seed: int
) -> None:
    rng = Random(seed)  # noqa: S311  # chance in a test, not a secret
    world = random_world(rng, **_SMALL)
    # A cycle would have the next member refused; cycles have tests of their own.
    world.inside = {(group, member) for group, member in world.inside if member[0] == "u"}
    built = build(world, database)
    rights = compiled(built)
    now_s = NOW_S
    for _ in range(40):
        with database.writing(built.tenant) as writing:
            for _ in range(rng.choice([1, 1, 2, 5])):
                Change(rng, world, built, writing).make()
        now_s += rng.choice([0, 0, 0, 2])
        with database.reading(built.tenant) as session:
            rights = rights.brought_up(session, counters(session).horizon)

        assert state(rights) == state(compiled(built))
        for who in world.everybody:
            assert reads(rights, built, who, now_s) == readable(world, who, now_s)


def test_bringing_up_leaves_what_others_still_read_as_it_was(built: Built) -> None:
    old = compiled(built)
    before = deepcopy((old.tree.rules, old.sets))
    with built.database.writing(built.tenant) as writing:
        folder = writing.session.get_one(CollectionRow, built.folders["a"])
        own = (Grant(built.people["ben"], Action.READ, Effect.ALLOW),)
        place(writing, folder, Access(own))
        place(writing, folder, Access(own, cut=True))
        give(writing, built.resource("a"), Grant(built.people["ana"], Action.READ, Effect.DENY))

    with built.database.reading(built.tenant) as session:
        new = old.brought_up(session, counters(session).horizon)

    assert (old.tree.rules, old.sets) == before
    assert (new.tree.rules, new.sets) != before
    assert (reads(old, built, "ana"), reads(new, built, "ana")) == ({"d0"}, set())


def test_a_class_beyond_the_horizon_is_left_out(built: Built) -> None:
    with built.database.writing(built.tenant) as writing:
        folder = writing.session.get_one(CollectionRow, built.folders["a"])
        place(writing, folder, Access((Grant(built.people["ben"], Action.READ, Effect.ALLOW),)))
    rights = compiled(built)
    with built.database.reading(built.tenant) as session:
        ana, last = around(session, built.people["ana"]), counters(session).horizon
    first = built.classes()["d0"]

    assert set(rights.readable(ana, NOW_S, last).classes) == {first, last}
    assert set(rights.readable(ana, NOW_S, last - 1).classes) == {first}
    assert set(rights.readable(ana, NOW_S, 0).classes) == set()


def test_old_access_classes_are_not_read_again(built: Built) -> None:
    rights = compiled(built)
    with built.database.reading(built.tenant) as session, selects(built.database) as asked:
        again = rights.brought_up(session, rights.sets.horizon)

    assert not any("access_class" in each for each in asked)
    assert again.tree is rights.tree, "no rule has changed, so none is worked out again"


def test_rights_last_until_the_first_end_that_concerns_the_reader(database: Database) -> None:
    world = World().user("ana", "ben", "cleo").group("staff", "ana").folder("a")
    world.document("d0", "a").document("d1", "a").allow("everyone", "a")
    world.allow("staff", "a", NOW_S + 30).deny("ana", "d0", NOW_S + 20).allow(
        "ben", "d1", NOW_S + 5
    )
    built = build(world, database)
    rights = compiled(built)

    def until_s(who: str, now_s: float) -> float:
        with database.reading(built.tenant) as session:
            members = around(session, built.people[who])
            return rights.readable(members, now_s, counters(session).horizon).until_s

    assert [until_s(who, NOW_S) for who in ("ana", "ben", "cleo")] == [NOW_S + 20, NOW_S + 5, inf]
    assert until_s("ana", NOW_S + 20) == NOW_S + 30
    assert until_s("ana", NOW_S + 30) == inf
    assert reads(rights, built, "ana", NOW_S + 19) == {"d1"}
    assert reads(rights, built, "ana", NOW_S + 20) == {"d0", "d1"}
