"""acl.rules: what counts at each collection, and working out anew only what has changed."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from sqlalchemy import update

from acl.errors import RightsUnavailable
from acl.grants import give, revoke
from acl.rules import Rules, RuleTree, Source
from acl.session import Database
from acl.tables import CollectionRow
from acl.types import Action, Effect, Grant
from tests.acl.statements import selects
from tests.acl.world import TENANT, Built, World, build


def source(built: Built) -> Source:
    """Read what rules are made of."""
    with built.database.reading(built.tenant) as session:
        return Source.read(session)


def anew(built: Built) -> RuleTree:
    """Work out all rules from nothing."""
    return RuleTree.bare().updated(source(built))


def at(tree: RuleTree, built: Built, path: str) -> tuple[dict[str, float], dict[str, float]]:
    """Give whom the rules at a collection allow and deny, by name, and until when."""
    names = {number: name for name, number in built.people.items()}
    rules = tree.rules[built.folders[path]]
    allow, deny = ({names[p]: end_s for p, end_s in h.items()} for h in (rules.allow, rules.deny))
    return allow, deny


def test_allows_and_denies_run_down_and_a_cut_stops_the_allows(any_database: Database) -> None:
    world = World().user("ana", "ben").folder("a").folder("a/b").folder("a/b/c", cut=True)
    world.folder("a/b/c/d").folder("e")
    world.allow("ana", TENANT).deny("ben", "a").allow("ben", "a/b", 50.0).allow("ana", "a/b/c/d")
    tree = anew(built := build(world, any_database))

    assert at(tree, built, "e") == ({"ana": inf}, {})
    assert at(tree, built, "a") == ({"ana": inf}, {"ben": inf})
    assert at(tree, built, "a/b") == ({"ana": inf, "ben": 50.0}, {"ben": inf})
    assert at(tree, built, "a/b/c") == ({}, {"ben": inf})
    assert at(tree, built, "a/b/c/d") == ({"ana": inf}, {"ben": inf})


@pytest.mark.parametrize("above_s", [None, 50.0, 70.0])
def test_of_two_ends_on_the_way_the_later_counts(database: Database, above_s: float | None) -> None:
    world = World().user("ana").folder("a").folder("a/b")
    world.allow("ana", "a", above_s).allow("ana", "a/b", 60.0)
    tree = anew(built := build(world, database))

    assert at(tree, built, "a/b")[0] == {"ana": max(60.0, inf if above_s is None else above_s)}


@pytest.mark.parametrize("n_changes", [1, 3, 40])
def test_what_changed_in_a_deep_tree_is_worked_out_as_if_anew(
    any_database: Database, n_changes: int
) -> None:
    """Few changes are followed downwards one by one, in any order; for many, all is done anew."""
    rng = Random(n_changes)  # noqa: S311  # chance in a test, not a secret
    world = World().user(*(f"u{n}" for n in range(4)))
    paths = ["/".join(f"n{n}" for n in range(depth + 1)) for depth in range(24)]
    paths += [f"{path}/side" for path in paths[::3]]
    for path in sorted(paths, key=len):
        world.folder(path, cut=rng.random() < 0.1)
    built = build(world, any_database)
    tree = anew(built)
    for _ in range(12):
        with any_database.writing(built.tenant) as writing:
            for _ in range(n_changes):
                resource = built.resource(rng.choice([*paths, TENANT]))
                end_s = rng.choice([None, None, 5.0, rng.random() * 1e9])
                grant = Grant(
                    built.people[f"u{rng.randrange(4)}"], Action.READ, rng.choice(list(Effect)),
                    end_s,
                )  # fmt: skip
                if rng.random() < 0.6 or not revoke(writing, resource, grant):
                    give(writing, resource, grant)
        old, tree = tree, tree.updated(source(built))

        fresh = anew(built)
        assert (tree.own, tree.rules, tree.nodes) == (fresh.own, fresh.rules, fresh.nodes)
        assert {number for _, numbers in tree.areas for number in numbers} == {
            *built.folders.values()
        }
        assert all(tree.rules[each] == rules for rules, numbers in tree.areas for each in numbers)
        assert old.updated(old.source) is old


def test_a_collection_that_is_moved_gets_the_rules_of_its_new_place(database: Database) -> None:
    world = World().user("ana", "ben").folder("a").folder("b").folder("a/c").folder("a/c/d")
    built = build(world.allow("ana", "a").allow("ben", "b"), database)
    tree = anew(built)
    moved = update(CollectionRow).where(CollectionRow.id == built.folders["a/c"])
    with database.writing(built.tenant) as writing:
        writing.session.execute(moved.values(parent_id=built.folders["b"]))

    after = tree.updated(source(built))

    assert at(tree, built, "a/c/d")[0] == {"ana": inf}
    assert at(after, built, "a/c/d")[0] == {"ben": inf}
    with database.writing(built.tenant) as writing:
        writing.session.execute(moved.values(parent_id=built.folders["a/c/d"]))
    with pytest.raises(RightsUnavailable, match="cycle"):
        after.updated(source(built))


def test_grants_of_documents_actions_and_tenants_that_do_not_count_are_not_in(
    any_database: Database,
) -> None:
    world = World().user("ana").folder("a").document("d0", "a").allow("ana", "d0")
    built = build(world, any_database)
    other = build(World().user("ana").folder("a").allow("ana", "a", 5.0), any_database, "other")
    with any_database.writing(built.tenant) as writing:
        give(writing, built.resource("a"), Grant(built.people["ana"], Action.WRITE, Effect.ALLOW))

    assert source(built) == Source(collections=f"{built.folders['a']} 0 0")
    assert [line[2:] for line in source(other).ending] == [(other.people["ana"], "allow", 5.0)]


@pytest.mark.parametrize(("end_s", "n_queries"), [(None, 1), (5.0, 2)])
def test_the_source_is_one_query_and_one_more_where_grants_end(
    database: Database, end_s: float | None, n_queries: int
) -> None:
    built = build(World().user("ana").folder("a").allow("ana", "a", end_s), database)
    with selects(database) as asked:
        source(built)

    assert len(asked) == n_queries


def test_a_node_without_rules_of_its_own_has_those_above_it_themselves() -> None:
    above = Rules({1: inf}, {2: inf})

    assert above.below(Rules({}, {}), cut=False) is above
    assert above.below(Rules({}, {}), cut=True) == Rules({}, {2: inf})
    assert Rules({}, {2: inf}).below(Rules({}, {}), cut=True) == Rules({}, {2: inf})
