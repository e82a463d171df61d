"""Worlds, and changes to them, by chance: the same change in plain words and in the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from acl.directory import create_principal
from acl.documents import Access, settle
from acl.errors import AclRefused
from acl.grants import give, revoke, set_rules
from acl.groups import add_member, delete_principal, remove_member
from acl.session import Writing
from acl.tables import CollectionRow, DocumentRow, PrincipalRow
from acl.types import Action, Effect, Grant, Kind
from tests.acl.world import TENANT, Built, World

NOW_S = 1_000.0


def random_world(
    rng: Random, *, users: int, chain: int, groups: int, folders: int, documents: int, rules: int
) -> World:
    """Make a world with a chain of nested groups, groups in cycles, cuts, denies and ends."""
    world = World().user(*(f"u{n}" for n in range(users)))
    for n in range(chain + groups):
        world.group(f"g{n}")
        if 0 < n < chain:
            world.group(f"g{n}", f"g{n - 1}")
    for _ in range(groups and users + 2 * groups):
        group = f"g{rng.randrange(chain, chain + groups)}"
        world.group(group, rng.choice([*world.users, *world.groups]))
    if chain:
        world.group("g0", *rng.sample(world.users, 1 + users // 3))
    for n in range(folders):
        above = rng.choice(["", *list(world.folders)[-3:]])
        world.folder(f"{above}/f{n}".lstrip("/"), cut=rng.random() < 0.2)
    for n in range(documents):
        world.document(f"d{n}", rng.choice(list(world.folders)), cut=rng.random() < 0.2)
    for _ in range(rules):
        add_rule(rng, world, random_place(rng, world))
    return world


def random_place(rng: Random, world: World) -> str:
    """Pick the tenant, a folder or a document."""
    kind = rng.random()
    if kind < 0.04:
        return TENANT
    return rng.choice(list(world.folders if kind < 0.5 else world.documents))


def add_rule(rng: Random, world: World, where: str) -> None:
    """Put a rule by chance on a place; a deny a little less often than an allow."""
    who = rng.choice(world.everybody)
    until_s = rng.choice([None, None, None, NOW_S - 1, NOW_S + rng.randrange(1, 40)])
    if rng.random() < 0.35 and where != TENANT:
        world.deny(who, where, until_s)
    else:
        world.allow(who, where, until_s)


@dataclass(slots=True)
class Change:
    """One change by chance, made in a world and in its tables; each method is a kind of it."""

    rng: Random
    world: World
    built: Built
    writing: Writing

    def make(self) -> str:
        """Make a change of some kind; gives its name."""
        kinds: list[Callable[[], None]] = [
            self.give, self.give, self.revoke, self.set_rules, self.settle, self.settle,
            self.join, self.leave, self.delete, self.new_user, self.new_folder, self.new_document,
        ]  # fmt: skip
        chosen = self.rng.choice(kinds)
        chosen()
        return chosen.__name__

    def give(self) -> None:
        """Give or deny somebody something."""
        where = random_place(self.rng, self.world)
        add_rule(self.rng, self.world, where)
        for grant in self.built.grants(self.world, where):
            give(self.writing, self.built.resource(where), grant)

    def revoke(self) -> None:
        """Take one rule away."""
        lines = [(where, line) for where, each in self.world.rules.items() for line in each]
        if not lines:
            return
        where, (who, effect) = self.rng.choice(lines)
        del self.world.rules[where][who, effect]
        grant = Grant(self.built.people[who], Action.READ, Effect(effect))
        assert revoke(self.writing, self.built.resource(where), grant)

    def set_rules(self) -> None:
        """Give a folder new rules and turn its cut over."""
        where = self.rng.choice(list(self.world.folders))
        self._new_rules(where)
        self.world.folders[where] = cut = not self.world.folders[where]
        row = self.writing.session.get_one(CollectionRow, self.built.folders[where])
        set_rules(self.writing, row, self.built.grants(self.world, where), cut)

    def settle(self) -> None:
        """Give a document new rules, and perhaps another folder and cut."""
        name = self.rng.choice(list(self.world.documents))
        self._new_rules(name)
        folder, cut = self.rng.choice(list(self.world.folders)), self.rng.random() < 0.3
        self.world.document(name, folder, cut=cut)
        row = self.writing.session.get_one(DocumentRow, self.built.documents[name])
        access = Access(tuple(self.built.grants(self.world, name)), cut)
        settle(self.writing, row, access, self.built.folders[folder])

    def join(self) -> None:
        """Put somebody into a group, unless that would be a cycle."""
        group = self.rng.choice(self.world.groups)
        member = self.rng.choice([*self.world.users, *self.world.groups])
        try:
            add_member(self.writing, self._row(group), self._row(member))
        except AclRefused:
            return
        self.world.group(group, member)

    def leave(self) -> None:
        """Take somebody out of a group."""
        if self.world.inside:
            group, member = self.rng.choice(sorted(self.world.inside))
            self.world.inside.remove((group, member))
            assert remove_member(self.writing, self._row(group), self._row(member))

    def delete(self) -> None:
        """Delete somebody, unless denies would end with a group."""
        who = self.rng.choice([*self.world.users[1:], *self.world.groups[1:]])
        try:
            delete_principal(self.writing, self._row(who))
        except AclRefused:
            return
        world = self.world
        for names in (world.users, world.groups):
            if who in names:
                names.remove(who)
        world.inside = {pair for pair in world.inside if who not in pair}
        for lines in world.rules.values():
            for line in [line for line in lines if line[0] == who]:
                del lines[line]

    def new_user(self) -> None:
        """Make a user."""
        name = f"v{len(self.built.people)}"
        self.world.user(name)
        self.built.people[name] = create_principal(self.writing, Kind.USER, name)[0].id

    def new_folder(self) -> None:
        """Make a folder below another."""
        above = self.rng.choice(list(self.world.folders))
        path = f"{above}/n{len(self.world.folders)}"
        self.world.folder(path, cut=self.rng.random() < 0.3)
        self._new_rules(path)
        self.built.make_folder(self.writing, self.world, path)

    def new_document(self) -> None:
        """Make a document, with rules of its own or without."""
        name = f"d{len(self.world.documents)}"
        self.world.document(name, self.rng.choice(list(self.world.folders)))
        self._new_rules(name)
        self.built.make_document(self.writing, self.world, name)

    def _new_rules(self, where: str) -> None:
        self.world.rules[where].clear()
        for _ in range(self.rng.randrange(3)):
            add_rule(self.rng, self.world, where)

    def _row(self, who: str) -> PrincipalRow:
        return self.writing.session.get_one(PrincipalRow, self.built.people[who])
