"""Three ways to say who may read what agree: compiled scopes, casbin, and the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acl.authorize import Authority
from acl.errors import UnknownPrincipal
from acl.policy import verdict
from acl.session import Database
from acl.types import Action
from tests.acl.chance import NOW_S, Change, random_world
from tests.acl.oracle import names_of, readable
from tests.acl.world import TENANT, Built, World, build
from tests.clock import Clock
from tests.databases import fresh_sqlite

_LARGE = {
    "users": 70, "chain": 65, "groups": 50, "folders": 40, "documents": 220, "rules": 700
}  # fmt: skip


@dataclass(slots=True)
class Shelf:
    """One database for many worlds, each in a tenant of its own."""

    database: Database
    numbers: Iterator[int] = field(default_factory=count)

    def put(self, world: World) -> Built:
        """Build a world in a new tenant."""
        return build(world, self.database, f"world{next(self.numbers)}")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """A database that the worlds of this module share."""
    database = fresh_sqlite(tmp_path_factory.mktemp("shelf"))
    yield Shelf(database)
    database.close()


@pytest.fixture(scope="module", params=[11, 12, 13])
def large(request: pytest.FixtureRequest, shelf: Shelf) -> tuple[World, Built, Random]:
    """A large world by a fixed seed."""
    rng = Random(request.param)  # noqa: S311  # chance in a test, not a secret
    world = random_world(rng, **_LARGE)
    return world, shelf.put(world), rng


def scopes(authority: Authority, world: World, built: Built) -> dict[str, set[str]]:
    """Name what everybody may read by their scopes."""
    classes = built.classes()
    found = {}
    for who in world.everybody:
        scope = authority.mint(built.principal(who))
        found[who] = {name for name, number in classes.items() if number in scope.classes}
    return found


def truths(world: World, now_s: float) -> dict[str, set[str]]:
    """Name what everybody may read by the oracle."""
    return {who: readable(world, who, now_s) for who in world.everybody}


def asked(built: Built, who: str, documents: list[str], now_s: float) -> set[str]:
    """Name those of the documents that casbin lets somebody read."""
    principal = built.principal(who)
    with built.database.reading(built.tenant) as session:
        return {
            name
            for name in documents
            if verdict(session, principal, Action.READ, built.resource(name), now_s)
        }


@settings(max_examples=40, deadline=None, database=None)
@given(rng=st.randoms(use_true_random=False), chain=st.integers(0, 14), groups=st.integers(0, 5))
def test_scopes_and_casbin_say_what_the_oracle_says(
    shelf: Shelf, rng: Random, chain: int, groups: int
) -> None:
    world = random_world(rng, users=3, chain=chain, groups=groups, folders=4, documents=5, rules=12)
    built = shelf.put(world)
    clock = Clock(NOW_S)
    authority = Authority(shelf.database, clock.now_s)

    assert scopes(authority, world, built) == truths(world, NOW_S)
    who = rng.choice(world.everybody)
    assert asked(built, who, list(world.documents), NOW_S) == readable(world, who, NOW_S)
    clock.advance(20)
    assert scopes(authority, world, built) == truths(world, NOW_S + 20)


def test_scopes_equal_the_oracle_in_a_large_world(large: tuple[World, Built, Random]) -> None:
    world, built, _ = large
    clock = Clock(NOW_S)
    authority = Authority(built.database, clock.now_s)
    n_pairs = len(world.everybody) * len(world.documents)
    deepest = max(len(names_of(world, who)) for who in world.users)

    for _ in range(2):
        truth = truths(world, clock.now_s())
        share = sum(map(len, truth.values())) / n_pairs

        assert scopes(authority, world, built) == truth
        assert 0.1 < share < 0.9, "a world where all or none may read would show nothing"
        clock.advance(20)
    # Three seeds, two moments each: over 200,000 (principal, document) pairs.
    assert n_pairs * 2 * 3 > 200_000
    assert deepest > 64


def test_casbin_equals_the_oracle_on_a_sample(large: tuple[World, Built, Random]) -> None:
    world, built, rng = large
    # 50 people with 10 documents each, in three worlds: 1,500 verdicts of a few ms.
    for who in rng.sample(world.everybody, 50):
        documents = rng.sample(list(world.documents), 10)

        assert asked(built, who, documents, NOW_S) == readable(world, who, NOW_S) & {*documents}


@pytest.mark.parametrize("depth", [1, 9, 10, 11, 12, 33, 64])
def test_allow_and_deny_hold_at_any_depth_of_nesting(shelf: Shelf, depth: int) -> None:
    """Ten levels is where casbin's own role manager stops without a word."""
    world = World().user("ana").folder("a").document("open", "a").document("shut", "a")
    world.group("g1", "ana")
    for level in range(2, depth + 1):
        world.group(f"g{level}", f"g{level - 1}")
    world.allow(f"g{depth}", "a").deny(f"g{depth}", "shut")
    built = shelf.put(world)
    authority = Authority(shelf.database, lambda: NOW_S)

    assert readable(world, "ana", NOW_S) == {"open"}
    assert scopes(authority, world, built)["ana"] == {"open"}
    assert asked(built, "ana", ["open", "shut"], NOW_S) == {"open"}


def test_equal_names_in_two_tenants_have_nothing_to_do_with_each_other(shelf: Shelf) -> None:
    plain = World().user("ana", "ben").group("staff", "ana").folder("hr").document("plan", "hr")
    ours = shelf.put(plain.allow("staff", "hr"))
    other = World().user("ana", "ben").group("staff", "ben").folder("hr").document("plan", "hr")
    theirs = shelf.put(other.allow("staff", "hr").allow("ben", TENANT))
    authority = Authority(shelf.database, lambda: NOW_S)

    for world, built in ((plain, ours), (other, theirs)):
        assert scopes(authority, world, built) == truths(world, NOW_S)
    assert scopes(authority, plain, ours)["ana"] == {"plan"}
    assert scopes(authority, other, theirs)["ana"] == set()
    stranger = replace(theirs.principal("ana"), tenant=ours.tenant)
    with pytest.raises(UnknownPrincipal):
        authority.mint(stranger)
    with shelf.database.reading(ours.tenant) as session, pytest.raises(UnknownPrincipal):
        verdict(session, stranger, Action.READ, ours.resource("plan"), NOW_S)


@pytest.mark.parametrize("seed", [21, 22, 23])
def test_after_every_change_what_is_remembered_equals_what_is_fresh(
    shelf: Shelf, seed: int
) -> None:
    rng = Random(seed)  # noqa: S311  # chance in a test, not a secret
    world = random_world(rng, users=8, chain=4, groups=4, folders=6, documents=12, rules=30)
    # add_member refuses cycles, so that a world to be changed starts without one.
    world.inside = {(group, member) for group, member in world.inside if _below(member, group)}
    built = shelf.put(world)
    clock = Clock(NOW_S)
    remembering = Authority(shelf.database, clock.now_s)
    made = set()
    for _ in range(60):
        with shelf.database.writing(built.tenant) as writing:
            made.add(Change(rng, world, built, writing).make())
        if rng.random() < 0.2:
            clock.advance(3)

        remembered = scopes(remembering, world, built)

        assert remembered == scopes(Authority(shelf.database, clock.now_s), world, built)
        assert remembered == truths(world, clock.now_s())
    assert len(made) == 10, "a kind of change was never made"


def _below(member: str, group: str) -> bool:
    return member[0] == "u" or int(member[1:]) < int(group[1:])
