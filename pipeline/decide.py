"""One caller in one transaction: what is decided there, and the record of what was denied."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy.orm import Session

from acl.audit import AuditLog
from acl.authorize import Authority
from acl.errors import NotAllowed, UnknownResource
from acl.policy import verdict
from acl.resources import own_grants
from acl.session import Database, Writing
from acl.tables import CollectionRow
from acl.types import AccessScope, Action, Denied, Level, Principal, Resource


@dataclass(frozen=True, slots=True)
class Visit:
    """A caller in an open transaction, with what the caller may read in it.

    The scope is minted when the transaction begins and never after a change in it: rights
    that are not committed must not be remembered.
    """

    principal: Principal
    session: Session
    scope: AccessScope
    now_s: float

    def may(self, action: Action, resource: Resource) -> bool:
        """Say whether the caller may do the action to the resource."""
        return bool(verdict(self.session, self.principal, action, resource, self.now_s))

    def require(self, action: Action, resource: Resource | None, n_levels: int = 1) -> Resource:
        """Give the resource back if the caller may do the action to it.

        Missing (None) is answered as forbidden is, after the same three decisions and as many
        reads as something so many levels below the tenant takes. Everybody knows of their own
        tenant.
        Raises: UnknownResource if it is not there or the caller may do nothing at all to it;
        NotAllowed if the caller may do something to it, but not this.
        """
        if resource is None:
            self.decide_for_nothing(list(Action), n_levels)
            raise UnknownResource("there is no such resource")
        verdicts = {
            each: verdict(self.session, self.principal, each, resource, self.now_s)
            for each in Action
        }
        found = verdicts[action]
        if isinstance(found, Denied):
            if any(verdicts.values()) or resource.level is Level.TENANT:
                raise NotAllowed(found.reason)
            raise UnknownResource(found.reason)
        return resource

    def decide_for_nothing(self, actions: Sequence[Action], n_levels: int) -> None:
        """Do the work of deciding on what is not there, so that its absence costs no less."""
        for each in actions:
            self.may(each, Resource(Level.TENANT))
            for _ in range(n_levels):
                self.session.get(CollectionRow, 0)
                own_grants(self.session, Resource(Level.COLLECTION, 0))


@dataclass(frozen=True, slots=True)
class Door:
    """Opens transactions for callers and writes down who was turned away.

    `event` and `named` say in the audit log what was tried, and on what as the caller named
    it. What is missing is recorded as what is forbidden is, so that it takes no less work.
    """

    database: Database
    authority: Authority
    log: AuditLog
    now_s: Callable[[], float] = time.time

    @contextmanager
    def reading(self, principal: Principal, event: str, named: str) -> Iterator[Visit]:
        """Open a snapshot. Raises: UnknownPrincipal; RightsUnavailable."""
        with (
            self._recorded(principal, event, named),
            self.database.reading(principal.tenant) as session,
        ):
            yield self._visit(session, principal)

    @contextmanager
    def writing(
        self, principal: Principal, event: str, named: str
    ) -> Iterator[tuple[Writing, Visit]]:
        """Open a write, in which nothing changes under a decision.

        Raises: UnknownPrincipal; RightsUnavailable.
        """
        with (
            self._recorded(principal, event, named),
            self.database.writing(principal.tenant) as writing,
        ):
            yield writing, self._visit(writing.session, principal)

    def _visit(self, session: Session, principal: Principal) -> Visit:
        return Visit(
            principal, session, self.authority.mint_in(session, principal), self.now_s()
        )  # fmt: skip

    @contextmanager
    def _recorded(self, principal: Principal, event: str, named: str) -> Iterator[None]:
        try:
            yield
        except (UnknownResource, NotAllowed) as denial:
            self.log.note(principal, event, named, "denied", str(denial))
            raise
