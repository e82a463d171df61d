"""access.yaml: who there is, where files go and who reads them; checked before anything is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.orm import Session

from acl.audit import record
from acl.directory import (
    checked_name,
    create_collection,
    create_principal,
    find_principal,
    reference,
)
from acl.documents import Access
from acl.errors import AclRefused, UnknownPrincipal
from acl.grants import set_rules
from acl.groups import EVERYONE, add_member, members, remove_member
from acl.session import Writing
from acl.tables import PrincipalRow
from acl.types import Action, Effect, Grant, Kind
from pipeline.errors import RulesRefused


class Rule(BaseModel):
    """What a folder or file says of itself; `deny` withholds reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ""
    cut: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    manage: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def references(self) -> set[str]:
        """Give every principal that the rule names."""
        return {*self.read, *self.write, *self.manage, *self.deny}


class _Sheet(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    users: dict[str, str] = Field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    collections: dict[str, Rule] = Field(default_factory=dict)
    documents: dict[str, Rule] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AccessSheet:
    """A checked access file. Paths are relative to its folder, written with /."""

    root: str
    users: Mapping[str, str]
    groups: Mapping[str, tuple[str, ...]]
    collections: Mapping[str, Rule]
    documents: Mapping[str, Rule]

    def collection_of(self, file: str) -> str:
        """Give the collection path of a file: that of the nearest folder with an entry."""
        for folder in PurePosixPath(file).parents:
            if str(folder) in self.collections or str(folder) == ".":
                return self.path_of(str(folder))
        return self.root

    def path_of(self, folder: str) -> str:
        """Give the collection path of a folder."""
        return self.root if folder == "." else f"{self.root}/{folder}"


def read_sheet(path: Path, root: str = "") -> AccessSheet:
    """Read and check an access file. `root` names the top collection if the file does not.

    Raises: RulesRefused, saying where and what.
    """
    try:
        sheet = _Sheet.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except (OSError, UnicodeDecodeError) as failure:
        raise RulesRefused(f"{path}: can't be read: {failure}") from failure
    except yaml.YAMLError as failure:
        raise RulesRefused(f"{path}: is not YAML: {_where(failure)}") from failure
    except ValidationError as failure:
        faults = "; ".join(
            f"{' > '.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in failure.errors(include_input=False, include_url=False)
        )
        raise RulesRefused(f"{path}: {faults}") from None
    collections = {str(PurePosixPath(folder)): rule for folder, rule in sheet.collections.items()}
    documents = {str(PurePosixPath(file)): rule for file, rule in sheet.documents.items()}
    top = collections.get(".")
    name = (top.name if top else "") or root or path.parent.resolve().name
    for place, rule in [*collections.items(), *documents.items()]:
        if rule.name and place != ".":
            raise RulesRefused(
                f"{path}: {place} > name: only the top folder, '.', has a name; others are "
                "called by their path"
            )
    for folder in collections.keys() | documents.keys():
        if folder.startswith("/") or ".." in PurePosixPath(folder).parts:
            raise RulesRefused(f"{path}: {folder!r} lies outside the folder of the access file")
    for file in sorted(documents):
        if not (path.parent / file).is_file():
            raise RulesRefused(f"{path}: documents > {file}: there is no such file")
    return AccessSheet(name, sheet.users, sheet.groups, collections, documents)


def _where(failure: yaml.YAMLError) -> str:
    if isinstance(failure, yaml.MarkedYAMLError) and failure.problem_mark is not None:
        mark = failure.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {failure.problem}"
    return " ".join(str(failure).split())


def check_references(session: Session, sheet: AccessSheet) -> None:
    """Check that every principal named is declared in the sheet or exists already.

    Raises: RulesRefused naming all that do not, and where.
    """
    declared = {f"user:{name}" for name in sheet.users} | {f"group:{name}" for name in sheet.groups}
    places = [(f"groups > {group}", set(inside)) for group, inside in sheet.groups.items()]
    places += [(f"collections > {at}", rule.references()) for at, rule in sheet.collections.items()]
    places += [(f"documents > {at}", rule.references()) for at, rule in sheet.documents.items()]
    unknown = []
    for place, references in places:
        for named in sorted(references - declared):
            try:
                find_principal(session, named)
            except UnknownPrincipal as failure:
                unknown.append(f"{place}: {failure}")
    for name in [*sheet.users, *sheet.groups]:
        try:
            checked_name(name)
        except AclRefused as failure:
            unknown.append(str(failure))
    if EVERYONE in sheet.groups:
        unknown.append(f"groups > {EVERYONE}: is built in, its members can't be listed")
    if unknown:
        raise RulesRefused("nothing was ingested: " + "; ".join(unknown))


def apply_sheet(writing: Writing, sheet: AccessSheet) -> None:
    """Make principals, memberships, collections and their rules what the sheet says.

    A group in the sheet has exactly the members listed; groups elsewhere are left alone.
    Raises: RulesRefused for a cycle of groups.
    """
    for name, display in sheet.users.items():
        create_principal(writing, Kind.USER, name, display)
    rows = {name: create_principal(writing, Kind.GROUP, name)[0] for name in sheet.groups}
    try:
        for name, references in sheet.groups.items():
            wanted = {each.id: each for each in _found(writing.session, references)}
            for member in members(writing.session, rows[name]):
                if member.id not in wanted and remove_member(writing, rows[name], member):
                    _record(writing, "member.remove", f"group:{name}", reference(member))
        for name, references in sheet.groups.items():
            for member in _found(writing.session, references):
                if add_member(writing, rows[name], member):
                    _record(writing, "member.add", f"group:{name}", reference(member))
    except AclRefused as failure:
        raise RulesRefused(f"nothing was ingested: groups: {failure}") from failure
    create_collection(writing, sheet.root)
    for folder, rule in sorted(sheet.collections.items()):
        collection = create_collection(writing, sheet.path_of(folder))
        grants = set(access_of_rule(writing.session, rule).grants)
        if set_rules(writing, collection, grants, rule.cut):
            _record(writing, "collection.set_access", f"collection:{collection.path}", _said(rule))


def _record(writing: Writing, event: str, resource: str, reason: str) -> None:
    record(writing.session, None, event, resource[:80], reason=reason)


def _said(rule: Rule) -> str:
    lists = {"read": rule.read, "write": rule.write, "manage": rule.manage, "deny": rule.deny}
    said = [f"{name} {' '.join(listed)}" for name, listed in lists.items() if listed]
    return "; ".join((["cut"] if rule.cut else []) + said)


def access_of_rule(session: Session, rule: Rule) -> Access:
    """Turn a rule into grants. Raises: UnknownPrincipal."""
    lines = [
        (rule.read, Action.READ, Effect.ALLOW),
        (rule.write, Action.WRITE, Effect.ALLOW),
        (rule.manage, Action.MANAGE, Effect.ALLOW),
        (rule.deny, Action.READ, Effect.DENY),
    ]
    grants = {
        Grant(row.id, action, effect)
        for references, action, effect in lines
        for row in _found(session, references)
    }
    ordered = sorted(grants, key=lambda g: (g.principal, g.action.value, g.effect.value))
    return Access(tuple(ordered), rule.cut)


def _found(session: Session, references: Iterable[str]) -> list[PrincipalRow]:
    return [find_principal(session, each) for each in sorted(set(references))]
