"""Which tenants' indexes are in use, and which could be let go of for another's sake."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

COLD_AFTER_S = 60.0
"""Who was asked for within this time keeps the index: so two tenants never push each other out
in turns, however little room there is."""


class Warmth:
    """When each tenant's index was last asked for. A note takes no lock."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._used_s: dict[str, float] = {}

    def use(self, tenant: str) -> None:
        """Note that a tenant's index is asked for now."""
        self._used_s[tenant] = self._now_s()

    def cold(self, tenants: Iterable[str]) -> list[str]:
        """Give those of some tenants that were not asked for lately, the coldest first."""
        before_s = self._now_s() - COLD_AFTER_S
        used_s = dict(self._used_s)
        cold = [each for each in tenants if used_s.get(each, before_s) <= before_s]
        return sorted(cold, key=lambda each: used_s.get(each, before_s))
