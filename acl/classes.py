"""Which documents share readers: finds or makes the access class of a document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

from sqlalchemy import select

from acl.session import Writing
from acl.tables import AccessClassRow, TenantEntry
from acl.types import Action, Grant


def class_of(writing: Writing, collection_id: int, cut: bool, own: Sequence[Grant]) -> int:
    """Give the class of documents in this collection, with this flag and these read grants.

    A new class does not move the rights epoch: rights on the classes that exist are as they
    were, and scopes take the new one in by the tenant's horizon.
    """
    lines = sorted(
        (grant.principal, grant.effect.value, grant.expires_s)
        for grant in own
        if grant.action is Action.READ
    )
    key = sha256(json.dumps([collection_id, cut, lines]).encode()).hexdigest()
    session = writing.session
    found = session.scalar(select(AccessClassRow.id).where(AccessClassRow.key == key))
    if found is not None:
        return found
    row = AccessClassRow(key=key, collection_id=collection_id, cut=cut, own=lines)
    session.add(row)
    session.flush()
    session.get_one(TenantEntry, writing.tenant).horizon = row.id
    return row.id
