"""People and groups from a directory export: one JSON object a line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from acl.directory import create_principal
from acl.errors import AclRefused
from acl.groups import add_member
from acl.session import Database
from acl.types import Kind
from pipeline.errors import RulesRefused
from pipeline.sources import first_fault


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    user: str
    name: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """How many principals and memberships an import made; the rest were there."""

    n_users: int
    n_groups: int
    n_memberships: int


def import_roster(database: Database, tenant: str, path: Path) -> Imported:
    """Take in users with their groups: {"user": "user:NAME", "name", "groups": ["group:NAME"]}.

    Adds, never removes. All or nothing. Raises: RulesRefused naming the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as failure:
        raise RulesRefused(f"{path}: can't be read: {failure}") from failure
    n_users = n_groups = n_memberships = 0
    with database.writing(tenant) as writing:
        for number, text in enumerate(lines, start=1):
            if not text.strip():
                continue
            try:
                line = _Line.model_validate(json.loads(text))
                user, made = create_principal(
                    writing, Kind.USER, _name(line.user, Kind.USER), line.name
                )
                n_users += made
                for each in line.groups:
                    group, made = create_principal(writing, Kind.GROUP, _name(each, Kind.GROUP))
                    n_groups += made
                    n_memberships += add_member(writing, group, user)
            except ValidationError as failure:
                raise RulesRefused(f"{path}: line {number}: {first_fault(failure)}") from failure
            except (ValueError, AclRefused) as failure:
                raise RulesRefused(f"{path}: line {number}: {failure}") from failure
    return Imported(n_users, n_groups, n_memberships)


def _name(reference: str, kind: Kind) -> str:
    said, colon, name = reference.partition(":")
    if not colon:
        return reference
    if said != kind.value:
        raise AclRefused(f"{reference!r} is not a {kind.value}")
    return name
