"""acl.groups: who stands around a principal, by one query and by walking the memberships."""

from __future__ import annotations

from random import Random

import pytest

from acl.errors import UnknownPrincipal
from acl.groups import around, closure, everyone_id, parents
from acl.session import Database
from tests.acl.chance import random_world
from tests.acl.oracle import names_of
from tests.acl.statements import selects
from tests.acl.world import EVERYONE, Built, World, build


def names_around(built: Built, who: str) -> set[str]:
    """Name the principals that stand around somebody, by the query."""
    names = {number: name for name, number in built.people.items()}
    with built.database.reading(built.tenant) as session:
        return {names[each] for each in around(session, built.people[who])}


@pytest.mark.parametrize("seed", [51, 52])
def test_the_query_finds_what_the_walk_and_the_oracle_find(
    any_database: Database, seed: int
) -> None:
    rng = Random(seed)  # noqa: S311  # chance in a test, not a secret
    world = random_world(rng, users=10, chain=65, groups=12, folders=1, documents=1, rules=0)
    built = build(world, any_database)
    deepest = 0
    for who in world.everybody:
        with any_database.reading(built.tenant) as session:
            found = around(session, built.people[who])
            walked = closure(built.people[who], parents(session), everyone_id(session))

        assert found == walked
        assert names_around(built, who) == names_of(world, who)
        deepest = max(deepest, len(found))
    assert deepest > 64


def test_a_cycle_ends_and_everyone_may_be_in_a_group(any_database: Database) -> None:
    world = World().user("ana").group("a", "ana").group("b", "a").group("c", "b")
    world.group("a", "c").group("d", "d").group("all", EVERYONE)
    built = build(world, any_database)

    assert names_around(built, "ana") == {"ana", "a", "b", "c", EVERYONE, "all"}
    assert names_around(built, "d") == {"d", EVERYONE, "all"}


def test_it_is_one_query(database: Database) -> None:
    built = build(World().user("ana").group("a", "ana").group("b", "a"), database)
    with database.reading(built.tenant) as session, selects(database) as asked:
        around(session, built.people["ana"])

    assert len(asked) == 1


def test_a_principal_of_another_tenant_is_unknown(any_database: Database) -> None:
    ours = build(World().user("ana"), any_database)
    theirs = build(World().user("ana").group("a", "ana"), any_database, "other")

    with any_database.reading(ours.tenant) as session:
        for stranger in (theirs.people["ana"], 999_999):
            with pytest.raises(UnknownPrincipal):
                around(session, stranger)
