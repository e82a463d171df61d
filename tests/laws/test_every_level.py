"""Law 5, cell by cell: allow, deny and cut at every level, by hand, compiled and by casbin."""

from __future__ import annotations

from itertools import product

import pytest

from acl.authorize import Authority
from acl.policy import verdict
from acl.session import Database
from acl.types import Action
from tests.acl.chance import NOW_S
from tests.acl.oracle import readable
from tests.acl.world import TENANT, Built, World, build
from tests.clock import Clock

N_LEVELS = 5  # tenant, three folders, document
NESTING = 12  # beyond the ten levels of casbin's own role manager


def way(tree: int) -> list[str]:
    """Name the places from the tenant to the document of a tree."""
    return [TENANT, f"t{tree}", f"t{tree}/a", f"t{tree}/a/b", f"plan{tree}"]


def trees() -> World:
    """One tree for each level that may be cut, and one that is not: the tenant can't be."""
    world = World()
    for tree in range(N_LEVELS):
        for level, path in enumerate(way(tree)[1:-1], start=1):
            world.folder(path, cut=level == tree)
        world.document(f"plan{tree}", f"t{tree}/a/b", cut=tree == N_LEVELS - 1)
    return world


def expected(cut: int, allow: int, deny: int | None) -> bool:
    """Work out one cell by the sentence of the law: tree 0 is not cut."""
    return deny is None and (cut == 0 or allow >= cut)


def say(built: Built, clock: Clock, who: str) -> tuple[set[str], set[str]]:
    """Name what somebody reads by a scope, and by casbin."""
    principal, classes = built.principal(who), built.classes()
    scope = Authority(built.database, clock.now_s).mint(principal)
    with built.database.reading(built.tenant) as session:
        asked = {
            name
            for name in built.documents
            if verdict(session, principal, Action.READ, built.resource(name), clock.now_s())
        }
    return {name for name, number in classes.items() if number in scope.classes}, asked


@pytest.mark.parametrize("how", ["herself", "nested group"])
def test_every_cell_of_the_table_of_levels(database: Database, how: str) -> None:
    """150 cells for each way to be meant: one person for each place of allow and of deny."""
    world = trees()
    cells = list(product(range(N_LEVELS), [None, *range(N_LEVELS)]))
    for number, (allow, deny) in enumerate(cells):
        meant = f"u{number}"
        world.user(meant)
        for depth in range(NESTING if how == "nested group" else 0):
            outer = f"g{number}.{depth}"
            world.group(outer, meant)
            meant = outer
        for tree in range(N_LEVELS):
            world.allow(meant, way(tree)[allow])
            if deny is not None:
                world.deny(meant, way(tree)[deny])
    built, clock = build(world, database), Clock(NOW_S)

    for number, (allow, deny) in enumerate(cells):
        by_law = {f"plan{cut}" for cut in range(N_LEVELS) if expected(cut, allow, deny)}
        assert readable(world, f"u{number}", NOW_S) == by_law
        assert say(built, clock, f"u{number}") == (by_law, by_law)


@pytest.mark.parametrize("level", range(N_LEVELS))
@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_a_rule_ends_between_two_mints_at_every_level(
    database: Database, level: int, effect: str
) -> None:
    world, end_s = trees().user("ana"), NOW_S + 5
    if effect == "allow":
        world.allow("ana", way(0)[level], end_s)
    else:
        world.allow("ana", "plan0").deny("ana", way(0)[level], end_s)
    built, clock = build(world, database), Clock(NOW_S)
    remembering = Authority(database, clock.now_s)
    plan = built.classes()["plan0"]

    seen = []
    for _ in range(3):
        scope = remembering.mint(built.principal("ana"))
        assert say(built, clock, "ana") == (readable(world, "ana", clock.at_s),) * 2
        seen.append((plan in scope.classes, scope.valid_until_s))
        clock.advance(2.5)

    before = effect == "allow"
    assert seen[:2] == [(before, end_s)] * 2
    assert seen[2][0] is not before


def test_everyone_and_the_tenant_reach_every_level(database: Database) -> None:
    world = trees().user("ana").allow("everyone", TENANT).deny("everyone", "t1")
    built, clock = build(world, database), Clock(NOW_S)

    assert say(built, clock, "ana") == ({"plan0"}, {"plan0"})
    assert readable(world, "ana", NOW_S) == {"plan0"}
