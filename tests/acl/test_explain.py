"""Explanations say what the policy says, and why."""

from __future__ import annotations

from random import Random

import pytest

from acl.explain import Counts, explain
from acl.session import Database
from acl.types import Action, Effect
from tests.acl.chance import NOW_S, random_world
from tests.acl.oracle import readable
from tests.acl.world import TENANT, World, build


@pytest.mark.parametrize("seed", range(12))
def test_the_reasons_alone_lead_to_the_verdict_and_the_oracles(
    database: Database, seed: int
) -> None:
    rng = Random(seed)  # noqa: S311  # chance in a test, not a secret
    world = random_world(rng, users=4, chain=8, groups=6, folders=5, documents=8, rules=20)
    built = build(world, database, f"world{seed}")
    n_allowed = 0
    for now_s in (NOW_S, NOW_S + 20):
        for who in world.everybody:
            truth = readable(world, who, now_s)
            n_allowed += len(truth)
            with database.reading(built.tenant) as session:
                for name in world.documents:
                    found = explain(
                        session, built.principal(who), Action.READ, built.resource(name), now_s
                    )
                    assert bool(found.verdict) == found.said == (name in truth)
    assert n_allowed


def test_the_way_is_told_from_the_top_with_what_was_dropped_and_what_ended(
    database: Database,
) -> None:
    world = World().user("ana").group("inner", "ana").group("outer", "inner")
    world.folder("closed", cut=True).document("plan", "closed")
    world.rules[TENANT] = {("outer", "allow"): None, ("outer", "deny"): NOW_S - 1}
    world.rules["closed"] = {("inner", "allow"): None}
    world.rules["plan"] = {("ana", "deny"): None}
    built = build(world, database, "acme")
    with database.reading(built.tenant) as session:
        found = explain(session, built.principal("ana"), Action.READ, built.resource("plan"), NOW_S)
    assert not found.verdict
    assert not found.said
    assert [(each.grant.effect, each.counts, len(each.chain)) for each in found.reasons] == [
        (Effect.ALLOW, Counts.CUT, 3),
        (Effect.DENY, Counts.ENDED, 3),
        (Effect.ALLOW, Counts.YES, 2),
        (Effect.DENY, Counts.YES, 1),
    ]


def test_grants_to_others_and_other_actions_are_no_reasons(database: Database) -> None:
    world = World().user("ana", "bo").folder("open").document("plan", "open")
    world.rules["open"] = {("bo", "allow"): None}
    built = build(world, database, "acme")
    with database.reading(built.tenant) as session:
        for who, action in (("ana", Action.READ), ("bo", Action.WRITE)):
            found = explain(session, built.principal(who), action, built.resource("plan"), NOW_S)
            assert (bool(found.verdict), found.reasons) == (False, ())
