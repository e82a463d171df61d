"""acl.salt: equal rights share a salt, and nothing else does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from pyroaring import FrozenBitMap

from acl.salt import cache_salt
from acl.types import AccessScope, Counters, Principal

SECRET = b"s" * 32
COUNTERS = Counters("life-1", 5, 6, 7, 8)
SCOPE = AccessScope("tn_1", Principal("tn_1", 1, "user:ana"), FrozenBitMap([1, 2]), COUNTERS, 9.0)


def salt(scope: AccessScope = SCOPE, **other: object) -> str:
    """Make the salt of a scope with no class that passages have left."""
    return cache_salt(scope, {}, SECRET, **other)  # type: ignore[arg-type]  # few options, for brevity


def test_people_with_equal_rights_share_a_salt() -> None:
    ben = Principal("tn_1", 2, "user:ben", key=4)

    assert salt(replace(SCOPE, principal=ben)) == salt()


def test_what_does_not_change_rights_does_not_change_the_salt() -> None:
    later = Counters("life-1", 50, 60, 70, 80)

    assert salt(replace(SCOPE, counters=later, valid_until_s=1.0)) == salt()


def test_each_thing_that_rights_rest_on_changes_the_salt() -> None:
    restored = replace(COUNTERS, incarnation="life-2")
    salts = {
        salt(),
        salt(replace(SCOPE, tenant="tn_2")),
        salt(replace(SCOPE, counters=restored)),
        salt(replace(SCOPE, classes=FrozenBitMap([1]))),
        salt(replace(SCOPE, classes=FrozenBitMap([1, 2, 3]))),
        salt(replace(SCOPE, classes=FrozenBitMap([1, 3]))),
        salt(replace(SCOPE, classes=FrozenBitMap())),
        cache_salt(SCOPE, {1: 1}, SECRET),
        cache_salt(SCOPE, {2: 1}, SECRET),
        cache_salt(SCOPE, {1: 2}, SECRET),
        cache_salt(SCOPE, {1: 1, 2: 1}, SECRET),
        cache_salt(SCOPE, {}, b"t" * 32),
        salt(sharing="user"),
        salt(sharing="off", nonce="n1"),
        salt(sharing="off", nonce="n2"),
    }

    assert len(salts) == 15


def test_fields_do_not_run_into_each_other() -> None:
    def named(incarnation: str, tenant: str) -> AccessScope:
        return replace(SCOPE, tenant=tenant, counters=replace(COUNTERS, incarnation=incarnation))

    assert salt(named("a", "bc")) != salt(named("ab", "c"))
    assert salt(named("", "abc")) != salt(named("abc", ""))
    # The same bytes as a class or as a generation must not hash alike either.
    one = replace(SCOPE, classes=FrozenBitMap([1, 0, 2]))
    assert cache_salt(one, {}, SECRET) != cache_salt(SCOPE, {0: 0}, SECRET)


def test_the_order_of_generations_is_of_no_account() -> None:
    assert cache_salt(SCOPE, {1: 3, 2: 4}, SECRET) == cache_salt(SCOPE, {2: 4, 1: 3}, SECRET)


def test_a_salt_for_each_user_is_kept_apart_by_principal() -> None:
    ben = replace(SCOPE, principal=Principal("tn_1", 2, "user:ben"))

    assert salt(ben, sharing="user") != salt(sharing="user")
    assert salt(sharing="user") == salt(sharing="user")


def test_a_salt_is_43_characters_that_every_engine_takes() -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", salt())


def test_a_short_secret_is_refused_with_both_lengths() -> None:
    with pytest.raises(ValueError, match="31 bytes, needs 32"):
        cache_salt(SCOPE, {}, b"s" * 31)


def test_sharing_off_needs_a_nonce() -> None:
    with pytest.raises(ValueError, match="nonce"):
        salt(sharing="off")
