"""The vocabulary of rights: who asks, what they may do, and what they may read now."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyroaring import FrozenBitMap


class Kind(StrEnum):
    """What a principal is."""

    USER = "user"
    GROUP = "group"
    SERVICE = "service"


class Action(StrEnum):
    """What a grant lets a principal do; none of the three implies another."""

    READ = "read"
    WRITE = "write"
    MANAGE = "manage"


class Effect(StrEnum):
    """Whether a grant gives or withholds; a deny beats any allow."""

    ALLOW = "allow"
    DENY = "deny"


class Level(StrEnum):
    """Where a grant can stand: from the top down, and on a group for those who keep it."""

    TENANT = "tenant"
    COLLECTION = "collection"
    DOCUMENT = "document"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Principal:
    """A person, group or service of one tenant, as the edge has verified it.

    `key` is the row id of the API key that vouched for it, None for an operator at the
    machine's own command line. Whatever carries a Principal is bound to that key: when the
    key is revoked or expires, no new scope can be minted from it.
    """

    tenant: str
    id: int
    name: str
    key: int | None = None


@dataclass(frozen=True, slots=True)
class Resource:
    """A tenant, collection, document or group that grants stand on.

    `id` is the row id of a collection, document or group; it is 0 for the tenant itself.
    """

    level: Level
    id: int = 0


@dataclass(frozen=True, slots=True)
class Grant:
    """One line of an access list: this principal, this action, allowed or denied."""

    principal: int
    action: Action
    effect: Effect
    expires_s: float | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """Where a tenant's two logs stand in one snapshot, and in which life of the database.

    `incarnation` changes when a backup is restored; `rights_epoch` grows with every change
    of grants, memberships, keys and principals; `content_sequence` with every change of
    documents; `departures` with every passage that leaves a class; `horizon` is the highest
    access class id that exists. `version` is the index version that is searched.
    """

    incarnation: str
    rights_epoch: int
    content_sequence: int
    departures: int
    horizon: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class AccessScope:
    """What one principal may read at one moment. Minted by `acl.authorize` and nowhere else.

    `classes` holds the ids of the readable access classes. The scope ends at `valid_until_s`
    (Unix seconds, inf where nothing expires), whatever the epoch says.
    """

    tenant: str
    principal: Principal
    classes: FrozenBitMap
    counters: Counters
    valid_until_s: float

    def __len__(self) -> int:
        return len(self.classes)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The verdict yes."""

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Denied:
    """The verdict no; the reason is for the audit log, never for the caller."""

    reason: str

    def __bool__(self) -> bool:
        return False


Verdict = Allowed | Denied
