"""acl.class_sets: access classes as bitmaps, read in one go and never changed in place."""

from __future__ import annotations

from collections import defaultdict
from math import inf
from random import Random

import pytest
from pyroaring import FrozenBitMap
from sqlalchemy import func, select, text

from acl.class_sets import ClassSets
from acl.documents import Access, place
from acl.errors import RightsUnavailable
from acl.session import Database, counters
from acl.tables import AccessClassRow, CollectionRow
from acl.types import Action, Effect, Grant
from tests.acl.world import Built, World, build

_Line = tuple[int, bool, float]


@pytest.fixture
def built(any_database: Database) -> Built:
    """Two folders without a document, and people."""
    world = World().user(*(f"u{n}" for n in range(6))).folder("a").folder("b", cut=True)
    return build(world, any_database)


def put(built: Built, folder: str, *own: Grant, cut: bool = False) -> int:
    """Make a document of a class; gives the class."""
    with built.database.writing(built.tenant) as writing:
        row = writing.session.get_one(CollectionRow, built.folders[folder])
        return place(writing, row, Access(own, cut)).class_id


def read(built: Built, old: ClassSets | None = None) -> ClassSets:
    """Read what there is, or what there is beyond the old."""
    with built.database.reading(built.tenant) as session:
        return (old or ClassSets.none()).up_to(session, counters(session).horizon)


def test_classes_stand_by_collection_and_by_the_lines_of_their_own_grants(built: Built) -> None:
    one, two, three = (built.people[f"u{n}"] for n in range(3))
    end_s = 1_767_225_600.1234567
    plain = put(built, "a")
    cut = put(built, "a", cut=True)
    mixed = put(
        built, "a", Grant(one, Action.READ, Effect.ALLOW), Grant(two, Action.READ, Effect.DENY),
        Grant(three, Action.READ, Effect.ALLOW, end_s),
    )  # fmt: skip
    again = put(built, "b", Grant(one, Action.READ, Effect.ALLOW))
    put(built, "b", Grant(two, Action.WRITE, Effect.ALLOW))

    sets = read(built)

    a, b = built.folders["a"], built.folders["b"]
    with built.database.reading(built.tenant) as session:
        b_plain = session.scalar(select(func.max(AccessClassRow.id)))
    assert sets.horizon == b_plain
    assert sets.inside == {a: FrozenBitMap([plain, cut, mixed]), b: FrozenBitMap([again, b_plain])}
    assert sets.inheriting[a] == FrozenBitMap([plain, mixed])
    assert sets.own == {
        one: {(True, inf): FrozenBitMap([mixed, again])},
        two: {(False, inf): FrozenBitMap([mixed])},
        # To the last bit: an end that is rounded would be another moment.
        three: {(True, end_s): FrozenBitMap([mixed])},
    }


@pytest.mark.parametrize("seed", [41, 42])
def test_reading_in_steps_gives_what_reading_row_by_row_gives(built: Built, seed: int) -> None:
    rng = Random(seed)  # noqa: S311  # chance in a test, not a secret
    sets = ClassSets.none()
    for _ in range(12):
        for _ in range(rng.randrange(4)):
            people = rng.sample(range(6), rng.randrange(5))
            own = [
                Grant(
                    built.people[f"u{who}"], Action.READ, rng.choice(list(Effect)),
                    rng.choice([None, 0.0, 5.0, rng.random() * 1e9]),
                )
                for who in people
            ]  # fmt: skip
            put(built, rng.choice("ab"), *own, cut=rng.random() < 0.3)
        sets = read(built, sets)

        assert sets == read(built)
        inside, own_lines = defaultdict[int, set[int]](set), defaultdict[_Line, set[int]](set)
        with built.database.reading(built.tenant) as session:
            for row in session.scalars(select(AccessClassRow)):
                inside[row.collection_id].add(row.id)
                for principal, effect, end_s in row.own:
                    line = (principal, effect == "allow", inf if end_s is None else end_s)
                    own_lines[line].add(row.id)
        assert {each: set(held) for each, held in sets.inside.items()} == inside
        assert {
            (principal, *term): set(held)
            for principal, terms in sets.own.items()
            for term, held in terms.items()
        } == own_lines


def test_classes_of_another_tenant_are_not_in_them(built: Built) -> None:
    world = World().user("ana").folder("a").document("d0", "a").allow("ana", "d0")
    other = build(world, built.database, "other")
    mine = put(built, "a")

    assert set(read(built).inside) == {built.folders["a"]}
    assert set(read(built).inside[built.folders["a"]]) == {mine}
    assert set(read(other).own) == {other.people["ana"]}


def test_an_old_horizon_gives_the_very_same_sets(built: Built) -> None:
    put(built, "a")
    sets = read(built)

    assert read(built, sets) is sets
    with built.database.reading(built.tenant) as session:
        assert sets.up_to(session, 0) is sets


@pytest.mark.parametrize(
    "stored",
    [
        '[[1, "allow"]]',
        '[[1, "may", null]]',
        '[[1, "allow", null',
        '[[1,"allow",null],[2,"deny",null]]',
        "nonsense",
        "",
        "[]\n[]",
    ],
)
def test_own_grants_that_can_not_be_read_give_no_rights(database: Database, stored: str) -> None:
    world = World().user("ana").folder("a").document("d0", "a").document("d1", "a", cut=True)
    built = build(world, database)
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE access_class SET own = :own"), {"own": stored})

    with pytest.raises(RightsUnavailable, match="can't be read"):
        read(built)


def test_a_class_that_no_bitmap_holds_gives_no_rights(database: Database) -> None:
    built = build(World().folder("a").document("d0", "a"), database)

    with (
        database.reading(built.tenant) as session,
        pytest.raises(RightsUnavailable, match="4294967296"),
    ):
        ClassSets.none().up_to(session, 2**32)
