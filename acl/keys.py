"""API keys: who holds one is vouched for as a principal, until it ends or is revoked."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from hashlib import blake2b, sha256
from math import inf

from sqlalchemy import select
from sqlalchemy.orm import Session

from acl.errors import UnknownPrincipal
from acl.session import Database, Writing
from acl.tables import ApiKeyRow, PrincipalRow
from acl.types import Kind, Principal

_MARK = "ost"
_PREFIX_BYTES = 6
_SECRET_BYTES = 32


def create_key(
    writing: Writing,
    principal: PrincipalRow,
    secret: bytes,
    label: str = "",
    expires_s: float | None = None,
) -> str:
    """Make a key for a user or service. The returned text is shown once and never stored.

    Raises: UnknownPrincipal for a group: a group can't ask questions.
    """
    if principal.kind == Kind.GROUP.value:
        raise UnknownPrincipal(f"group:{principal.name} can't hold a key; give it to a user")
    prefix = secrets.token_hex(_PREFIX_BYTES)
    token = f"{_MARK}_{prefix}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    writing.session.add(
        ApiKeyRow(
            principal_id=principal.id,
            prefix=prefix,
            digest=_digest(token, secret),
            label=label,
            expires_s=expires_s,
        )
    )
    writing.session.flush()
    return token


def verify_key(
    database: Database, token: str, secret: bytes, now_s: Callable[[], float]
) -> Principal:
    """Turn a key into the principal it vouches for.

    The hash is fast and keyed (BLAKE2b with the server's secret): a key has 256 random bits,
    so a slow hash would only slow down the server. Raises: UnknownPrincipal, with one
    message whatever was wrong.
    """
    mark, _, rest = token.partition("_")
    prefix = rest.partition("_")[0]
    if not (token.isascii() and token.isprintable()):
        raise UnknownPrincipal("the API key is not valid")
    digest = _digest(token, secret)
    with database.unpinned() as session:
        row = session.execute(
            select(ApiKeyRow, PrincipalRow)
            .join(PrincipalRow, PrincipalRow.id == ApiKeyRow.principal_id)
            .where(ApiKeyRow.prefix == prefix)
        ).one_or_none()
    stored = row[0].digest if row else "0" * len(digest)
    same = hmac.compare_digest(stored, digest)
    if row is None or not same or mark != _MARK:
        raise UnknownPrincipal("the API key is not valid")
    key, principal = row
    if key.expires_s is not None and key.expires_s <= now_s():
        raise UnknownPrincipal("the API key is not valid")
    return Principal(key.tenant, principal.id, f"{principal.kind}:{principal.name}", key.id)


def key_expiry(session: Session, principal: Principal, now_s: float) -> float:
    """Give when the principal's key ends (Unix seconds, inf for never), in a snapshot.

    Raises: UnknownPrincipal if the key was revoked, has ended, or vouches for another.
    """
    if principal.key is None:
        return inf
    row = session.get(ApiKeyRow, principal.key)
    if row is None or row.principal_id != principal.id:
        raise UnknownPrincipal("the API key is not valid")
    end = inf if row.expires_s is None else row.expires_s
    if end <= now_s:
        raise UnknownPrincipal("the API key is not valid")
    return end


def revoke_key(writing: Writing, prefix: str) -> bool:
    """Revoke a key by its prefix; False if there is none. In force at the next check."""
    row = writing.session.scalar(select(ApiKeyRow).where(ApiKeyRow.prefix == prefix))
    if row is None:
        return False
    writing.session.delete(row)
    writing.rights_changed()
    return True


def key_prefix(token: str) -> str:
    """Give the part of a key that may be shown and names it."""
    return token.split("_")[1]


def _digest(token: str, secret: bytes) -> str:
    key = sha256(secret).digest()  # BLAKE2b takes keys of 64 bytes at most; secrets may be longer
    return blake2b(token.encode(), key=key, digest_size=32, person=b"ostiary-key").hexdigest()
