"""A tenant of 100,000 access classes, for the cost of rights: written straight into its tables."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from sqlalchemy import insert

from acl.directory import create_collection, create_principal, create_tenant
from acl.groups import everyone_id
from acl.session import Database, Writing
from acl.tables import AccessClassRow, GrantRow, MembershipRow, TenantEntry
from acl.types import Action, Effect, Kind, Level, Principal

N_CLASSES, N_GROUPS, N_FOLDERS, N_USERS, N_RULES = 100_000, 200, 400, 500, 1_000
# Of the rules and of the own grants this share denies, of the own grants this share ends.
_DENIES, _ENDS, _END_S = 0.1, 0.05, 4e9


@dataclass(frozen=True, slots=True)
class Large:
    """The tenant, its people with their row ids, and the row ids of groups and folders."""

    tenant: str
    people: tuple[Principal, ...]
    groups: tuple[int, ...]
    folders: tuple[int, ...]


def build(database: Database) -> Large:
    """Make the tenant: nested groups, each person in two, folders in a tree, rules on them."""
    chance = np.random.default_rng(4)
    tenant = create_tenant(database, "large")
    with database.writing(tenant) as writing:
        groups = [create_principal(writing, Kind.GROUP, f"g{n}")[0].id for n in range(N_GROUPS)]
        users = [create_principal(writing, Kind.USER, f"u{n}")[0].id for n in range(N_USERS)]
        folders = [create_collection(writing, _path(n)).id for n in range(N_FOLDERS)]
        inside = {(groups[n // 3], groups[n]) for n in range(1, N_GROUPS)}
        inside |= {(int(chance.choice(groups)), user) for user in users for _ in range(2)}
        writing.session.execute(
            insert(MembershipRow),
            [{"tenant": tenant, "group_id": g, "member_id": m} for g, m in sorted(inside)],
        )
        _rules(writing, chance, groups, folders)
        _classes(writing, chance, [*groups, *users, everyone_id(writing.session)], folders)
        writing.rights_changed()
    people = tuple(Principal(tenant, user, f"user:u{n}") for n, user in enumerate(users))
    return Large(tenant, people, tuple(groups), tuple(folders))


def _path(number: int) -> str:
    above = [f"f{number}"]
    while number > 0:
        number = (number - 1) // 7
        above.append(f"f{number}")
    return "/".join(reversed(above))


def _rules(
    writing: Writing, chance: np.random.Generator, groups: list[int], folders: list[int]
) -> None:
    lines = set[tuple[int, int, str]]()
    while len(lines) < N_RULES:
        effect = Effect.DENY if chance.random() < _DENIES else Effect.ALLOW
        # Not on the topmost folder: what is given there is given everywhere.
        lines.add((int(chance.choice(folders[1:])), int(chance.choice(groups)), effect.value))
    writing.session.execute(
        insert(GrantRow),
        [
            {"tenant": writing.tenant, "level": Level.COLLECTION.value, "resource_id": folder,
             "principal_id": group, "action": Action.READ.value, "effect": effect,
             "expires_s": None}
            for folder, group, effect in sorted(lines)
        ],
    )  # fmt: skip


def _classes(
    writing: Writing, chance: np.random.Generator, principals: list[int], folders: list[int]
) -> None:
    found = set[tuple[int, bool, tuple[tuple[int, str, float | None], ...]]]()
    while len(found) < N_CLASSES:
        who = chance.choice(principals, int(chance.integers(4)), replace=False)
        denies, ends = chance.random(3) < _DENIES, chance.random(3) < _ENDS
        own = sorted(
            (int(each), (Effect.DENY if denies[n] else Effect.ALLOW).value,
             _END_S if ends[n] else None)
            for n, each in enumerate(who)
        )  # fmt: skip
        found.add((int(chance.choice(folders)), bool(chance.random() < _DENIES), tuple(own)))
    rows = [
        {"tenant": writing.tenant, "key": sha256(repr(each).encode()).hexdigest(),
         "collection_id": each[0], "cut": each[1], "own": each[2], "generation": 0}
        for each in found
    ]  # fmt: skip
    session = writing.session
    session.execute(insert(AccessClassRow), rows)
    horizon = session.query(AccessClassRow.id).order_by(AccessClassRow.id.desc()).limit(1).scalar()
    session.get_one(TenantEntry, writing.tenant).horizon = int(horizon or 0)
