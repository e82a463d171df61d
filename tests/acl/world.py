"""Worlds of rights in plain words: described here, judged by the oracle, built in tables."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

from acl.directory import create_collection, create_principal, create_tenant
from acl.documents import Access, place
from acl.grants import give, set_rules
from acl.groups import everyone_id
from acl.session import Database, Writing
from acl.tables import CollectionRow, DocumentRow, MembershipRow
from acl.types import Action, Effect, Grant, Kind, Level, Principal, Resource

Word = Literal["allow", "deny"]
EVERYONE = "everyone"
TENANT = "/"


@dataclass(slots=True)
class World:
    """One tenant as text. Folders are paths, documents are names; `TENANT` is above all.

    `rules[place]` maps (who, allow or deny) to the end of that rule, None for never. A
    place is `TENANT`, the path of a folder or the name of a document.
    """

    users: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    inside: set[tuple[str, str]] = field(default_factory=set)
    folders: dict[str, bool] = field(default_factory=dict)
    documents: dict[str, tuple[str, bool]] = field(default_factory=dict)
    rules: defaultdict[str, dict[tuple[str, Word], float | None]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def user(self, *names: str) -> World:
        """Add users."""
        self.users += names
        return self

    def group(self, name: str, *members: str) -> World:
        """Add a group, or members to it; a group may hold any name, itself included."""
        if name not in self.groups:
            self.groups.append(name)
        self.inside |= {(name, member) for member in members}
        return self

    def folder(self, path: str, *, cut: bool = False) -> World:
        """Add a folder; the folder above it must be there."""
        self.folders[path] = cut
        return self

    def document(self, name: str, folder: str, *, cut: bool = False) -> World:
        """Add a document to a folder."""
        self.documents[name] = (folder, cut)
        return self

    def allow(self, who: str, where: str, until_s: float | None = None) -> World:
        """Let somebody read a place and what is below it."""
        self.rules[where][who, "allow"] = until_s
        return self

    def deny(self, who: str, where: str, until_s: float | None = None) -> World:
        """Forbid somebody to read a place and what is below it."""
        self.rules[where][who, "deny"] = until_s
        return self

    @property
    def everybody(self) -> list[str]:
        """Everyone who can be asked about: users, groups and the built-in group."""
        return [*self.users, *self.groups, EVERYONE]


@dataclass(slots=True)
class Built:
    """A world in the tables of a database: where its names lead."""

    database: Database
    tenant: str
    people: dict[str, int]
    folders: dict[str, int] = field(default_factory=dict)
    documents: dict[str, int] = field(default_factory=dict)

    def principal(self, who: str) -> Principal:
        """Give the principal of a name, without a key."""
        return Principal(self.tenant, self.people[who], who)

    def classes(self) -> dict[str, int]:
        """Map each document to its access class, as the tables say now."""
        with self.database.reading(self.tenant) as session:
            return {
                name: session.get_one(DocumentRow, number).class_id
                for name, number in self.documents.items()
            }

    def resource(self, where: str) -> Resource:
        """Give the resource of a place."""
        if where == TENANT:
            return Resource(Level.TENANT)
        if where in self.documents:
            return Resource(Level.DOCUMENT, self.documents[where])
        return Resource(Level.COLLECTION, self.folders[where])

    def grants(self, world: World, where: str) -> set[Grant]:
        """Give the rules of a place as grants."""
        return {
            Grant(self.people[who], Action.READ, Effect(effect), until_s)
            for (who, effect), until_s in world.rules[where].items()
        }

    def make_folder(self, writing: Writing, world: World, path: str) -> CollectionRow:
        """Make a folder with its rules."""
        row = create_collection(writing, path)
        self.folders[path] = row.id
        set_rules(writing, row, self.grants(world, path), world.folders[path])
        return row

    def make_document(self, writing: Writing, world: World, name: str) -> DocumentRow:
        """Make a document with its rules."""
        folder, cut = world.documents[name]
        collection = writing.session.get_one(CollectionRow, self.folders[folder])
        row = place(writing, collection, Access(tuple(self.grants(world, name)), cut))
        self.documents[name] = row.id
        return row


def build(world: World, database: Database, name: str = "acme") -> Built:
    """Write a world into a new tenant.

    Memberships go straight into their table, so that a world may hold the cycles that
    `acl.groups.add_member` refuses.
    """
    tenant = create_tenant(database, name)
    with database.writing(tenant) as writing:
        people = {EVERYONE: everyone_id(writing.session)}
        for kind, names in ((Kind.USER, world.users), (Kind.GROUP, world.groups)):
            for each in names:
                people[each] = create_principal(writing, kind, each)[0].id
        writing.session.add_all(
            MembershipRow(group_id=people[group], member_id=people[member])
            for group, member in sorted(world.inside)
        )
        built = Built(database, tenant, people)
        for grant in built.grants(world, TENANT):
            give(writing, Resource(Level.TENANT), grant)
        for path in world.folders:
            built.make_folder(writing, world, path)
        for document in world.documents:
            built.make_document(writing, world, document)
    return built


def allow(who: int, until_s: float | None = None) -> Grant:
    """A grant that lets somebody read."""
    return Grant(who, Action.READ, Effect.ALLOW, until_s)


def put(built: Built, *own: Grant) -> int:
    """Make a document with these grants of its own; gives its row id."""
    with built.database.writing(built.tenant) as writing:
        collection = writing.session.get_one(CollectionRow, built.folders["a"])
        row = place(writing, collection, Access(own))
        writing.document_changed(row.id)
        return row.id
