"""Principal to AccessScope: the only place a scope is minted."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock

from pyroaring import BitMap
from sqlalchemy import select
from sqlalchemy.orm import Session

from acl.compiled import CompiledRights, compile_rights
from acl.errors import AclError, RightsUnavailable, UnknownPrincipal
from acl.keys import key_expiry
from acl.session import Database, counters, is_changed
from acl.tables import AccessClassRow
from acl.types import AccessScope, Counters, Principal


@dataclass(frozen=True, slots=True)
class _Generations:
    """The classes that passages have left, and how often, at one count of departures."""

    incarnation: str
    departures: int
    raised: dict[int, int]


class Authority:
    """Mints scopes; remembers them for as long as nothing that they rest on has changed."""

    def __init__(
        self,
        database: Database,
        now_s: Callable[[], float] = time.time,
        n_remembered: int = 10_000,
    ) -> None:
        self._database = database
        self._now_s = now_s
        self._n_remembered = n_remembered
        self._lock = Lock()
        self._memo: OrderedDict[Principal, AccessScope] = OrderedDict()
        self._compiled: dict[str, tuple[Counters, CompiledRights]] = {}
        self._generations: dict[str, _Generations] = {}

    def mint(self, principal: Principal) -> AccessScope:
        """Mint what the principal may read now, in a snapshot of its own.

        Raises: UnknownPrincipal; RightsUnavailable.
        """
        with self._database.reading(principal.tenant) as session:
            return self.mint_in(session, principal)

    def mint_in(self, session: Session, principal: Principal) -> AccessScope:
        """Mint in an open snapshot, so that rights and rows are of one moment.

        Raises: UnknownPrincipal if person or key is gone; RightsUnavailable if rights can't
        be evaluated, whatever the cause: nobody reads on a guess (law 3).
        """
        try:
            return self._mint(session, principal)
        except AclError:
            raise
        except Exception as failure:
            raise RightsUnavailable("rights can't be evaluated now") from failure

    def narrowed(self, scope: AccessScope, to: AccessScope) -> AccessScope:
        """Give what both scopes of one principal allow."""
        both = scope.classes & to.classes
        end = min(scope.valid_until_s, to.valid_until_s)
        return replace(to, classes=both, valid_until_s=end)

    def generations(self, session: Session, scope: AccessScope) -> dict[int, int]:
        """Give the generation of each class in the scope whose generation is not 0."""
        _require_tenant(session, scope.tenant)
        now = counters(session)
        held = self._generations.get(scope.tenant)
        if held is None or (held.incarnation, held.departures) != (now.incarnation, now.departures):
            rows = session.execute(
                select(AccessClassRow.id, AccessClassRow.generation).where(
                    AccessClassRow.generation > 0
                )
            )
            raised = dict(iter(rows))
            held = _Generations(now.incarnation, now.departures, raised)
            self._generations[scope.tenant] = held
        known = held.raised
        return {number: known[number] for number in scope.classes & BitMap(known.keys())}

    def _mint(self, session: Session, principal: Principal) -> AccessScope:
        _require_tenant(session, principal.tenant)
        now, now_s = counters(session), self._now_s()
        if is_changed(session):
            # Counters stand still until the commit, which may never come: remember nothing.
            rights = compile_rights(session, now.horizon, now_s)
            return _scope(rights, principal, now, key_expiry(session, principal, now_s))
        with self._lock:
            held = self._memo.get(principal)
        if held is not None and _rests_on_same(held.counters, now) and now_s < held.valid_until_s:
            # Content moved, rights did not: the same scope stands at the newer counters.
            return held if held.counters == now else replace(held, counters=now)
        end = key_expiry(session, principal, now_s)
        with self._lock:
            rights = self._rights(session, principal.tenant, now, now_s)
            scope = _scope(rights, principal, now, end)
            self._memo[principal] = scope
            self._memo.move_to_end(principal)
            while len(self._memo) > self._n_remembered:
                self._memo.popitem(last=False)
        return scope

    def _rights(self, session: Session, tenant: str, now: Counters, now_s: float) -> CompiledRights:
        held = self._compiled.get(tenant)
        if held is not None:
            at, rights = held
            same = (at.incarnation, at.rights_epoch) == (now.incarnation, now.rights_epoch)
            # An older snapshot than the compiled one must not see classes of its future.
            if same and now_s < rights.valid_until_s and rights.horizon <= now.horizon:
                if rights.horizon < now.horizon:
                    rights.extend(session, now.horizon, now_s)
                    self._compiled[tenant] = (now, rights)
                return rights
        rights = compile_rights(session, now.horizon, now_s)
        self._compiled[tenant] = (now, rights)
        return rights


def _require_tenant(session: Session, tenant: str) -> None:
    # What is remembered is kept by tenant: it must come from no other tenant's rows.
    if session.info["tenant"] != tenant:
        raise AssertionError("rights can't be read in another tenant's session")


def _scope(
    rights: CompiledRights, principal: Principal, now: Counters, end_s: float
) -> AccessScope:
    if principal.id not in rights.known:
        raise UnknownPrincipal("the principal does not exist")
    classes, end_s = rights.readable(principal.id), min(end_s, rights.valid_until_s)
    return AccessScope(principal.tenant, principal, classes, now, end_s)


def _rests_on_same(old: Counters, new: Counters) -> bool:
    return (old.incarnation, old.rights_epoch, old.horizon) == (
        new.incarnation,
        new.rights_epoch,
        new.horizon,
    )
