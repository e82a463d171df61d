"""An index in use, and whether it shows what is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from retrieval.tenant_index import TenantIndex


@dataclass(frozen=True, slots=True)
class InUse:
    """An index in use. saved: the content sequence of the snapshot it goes back to, or 0.

    n_new: rows that came or died since, that a restart would have to read again.
    """

    incarnation: str
    index: TenantIndex
    saved: int = 0
    n_new: int = 0


def serves(held: InUse | None, sequence: int, incarnation: str) -> TypeGuard[InUse]:
    """Say whether an index is of this life of the database, and not older than the sequence."""
    if held is None or held.incarnation != incarnation:
        return False
    return held.index.sequence >= sequence
