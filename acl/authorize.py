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

from acl.compiled import CompiledRights
from acl.errors import AclError, RightsUnavailable
from acl.groups import around
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


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A scope, and what it takes to mint its like while the rights epoch stands still."""

    scope: AccessScope
    members: frozenset[int]
    key_end_s: float


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A tenant's compiled rights, and the life of the database and the epoch they are of."""

    incarnation: str
    rights_epoch: int
    rights: CompiledRights

    def serves(self, now: Counters) -> bool:
        """Say whether a snapshot at these counters can be served as it is."""
        same = (self.incarnation, self.rights_epoch) == (now.incarnation, now.rights_epoch)
        return same and self.rights.sets.horizon >= now.horizon


class Authority:
    """Mints scopes; remembers them for as long as nothing that they rest on has changed.

    Threads that mint for one tenant wait while one of them compiles; those of other tenants
    do not: what all share is locked for single look-ups, never for a query.
    """

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
        self._memo: OrderedDict[Principal, _Remembered] = OrderedDict()
        self._compiled: dict[str, _Compiled] = {}
        self._compiling: dict[str, Lock] = {}
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
            end_s = key_expiry(session, principal, now_s)
            members = around(session, principal.id)
            rights = self._uncommitted(session, principal.tenant, now)
            return _scope(rights, principal, members, now, now_s, end_s)
        with self._lock:
            held = self._memo.get(principal)
        if held is None or not _same_rights(held.scope.counters, now) or now_s >= held.key_end_s:
            end_s = key_expiry(session, principal, now_s)
            members = around(session, principal.id)
        elif held.scope.counters.horizon == now.horizon and now_s < held.scope.valid_until_s:
            # Content moved, rights did not: the same scope stands at the newer counters.
            scope = held.scope
            return scope if scope.counters == now else replace(scope, counters=now)
        else:
            end_s, members = held.key_end_s, held.members
        rights = self._rights(session, principal.tenant, now)
        scope = _scope(rights, principal, members, now, now_s, end_s)
        with self._lock:
            self._memo[principal] = _Remembered(scope, members, end_s)
            self._memo.move_to_end(principal)
            while len(self._memo) > self._n_remembered:
                self._memo.popitem(last=False)
        return scope

    def _rights(self, session: Session, tenant: str, now: Counters) -> CompiledRights:
        held = self._compiled.get(tenant)
        if held is not None and held.serves(now):
            return held.rights
        with self._lock:
            compiling = self._compiling.setdefault(tenant, Lock())
        with compiling:
            held = self._compiled.get(tenant)
            if held is not None and held.serves(now):
                return held.rights
            if held is None or held.incarnation != now.incarnation:
                rights, newest = CompiledRights.compiled(session, now.horizon), True
            elif held.rights_epoch == now.rights_epoch:
                rights, newest = held.rights.extended(session, now.horizon), True
            else:
                # A snapshot of the past gets the rules of the past, and they are not kept.
                rights = held.rights.brought_up(session, now.horizon)
                newest = now.rights_epoch > held.rights_epoch
            if newest:
                self._compiled[tenant] = _Compiled(now.incarnation, now.rights_epoch, rights)
        return rights

    def _uncommitted(self, session: Session, tenant: str, now: Counters) -> CompiledRights:
        """Compile what a write sees of itself; the committed classes are taken as compiled.

        A write holds its tenant's lock, so that what is compiled can't be ahead of it.
        """
        held = self._compiled.get(tenant)
        if held is None or held.incarnation != now.incarnation:
            return CompiledRights.compiled(session, now.horizon)
        return held.rights.brought_up(session, now.horizon)


def _require_tenant(session: Session, tenant: str) -> None:
    # What is remembered is kept by tenant: it must come from no other tenant's rows.
    if session.info["tenant"] != tenant:
        raise AssertionError("rights can't be read in another tenant's session")


def _scope(
    rights: CompiledRights,
    principal: Principal,
    members: frozenset[int],
    now: Counters,
    now_s: float,
    key_end_s: float,
) -> AccessScope:
    found = rights.readable(members, now_s, now.horizon)
    end_s = min(key_end_s, found.until_s)
    return AccessScope(principal.tenant, principal, found.classes, now, end_s)


def _same_rights(old: Counters, new: Counters) -> bool:
    return (old.incarnation, old.rights_epoch) == (new.incarnation, new.rights_epoch)
