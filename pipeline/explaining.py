"""Explanations of rights for who manages a resource: what is from above is not named."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.orm import Session

from acl.audit import AuditLog, record
from acl.authorize import Authority
from acl.explain import Counts, Reason, explain
from acl.resources import way
from acl.session import Database
from acl.types import Action, Effect, Level, Principal, Resource
from pipeline.decide import Door
from pipeline.naming import Where, named, names_of, resource_at


@dataclass(frozen=True, slots=True)
class Ground:
    """One grant on the way. where: "here", "inherited", or the level that the asker manages too.

    chain: names from the principal to the grant's; empty where the grant is inherited from
    what the asker does not manage, and without the groups between for who does not manage
    the tenant: those may not be the asker's to know.
    """

    where: str
    effect: Effect
    chain: tuple[str, ...]
    expires_s: float | None
    counts: Counts


@dataclass(frozen=True, slots=True)
class Explained:
    """Whether a principal may do an action, and the grants that say so."""

    principal: str
    action: Action
    allowed: bool
    grounds: tuple[Ground, ...]


class Explaining:
    """Explains rights on behalf of callers. Calls block."""

    def __init__(
        self,
        database: Database,
        authority: Authority,
        log: AuditLog,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._door = Door(database, authority, log, now_s)

    def explain(self, asker: Principal, where: Where, who: str, action: Action) -> Explained:
        """Say why somebody may, or may not, do an action; needs manage on the resource.

        It is written down. It shows rights, never what the resource holds.
        Raises: UnknownResource; NotAllowed; RulesRefused if the asker may not name the
        principal.
        """
        with self._door.writing(asker, "rights.explain", str(where)) as (_, visit):
            at = resource_at(visit.session, where)
            here = visit.require(Action.MANAGE, at, where.n_levels)
            row = named(visit, [who], here)[who]
            subject = Principal(asker.tenant, row.id, who)
            found = explain(visit.session, subject, action, here, visit.now_s)
            managed = {
                step.resource
                for step in way(visit.session, here)
                if step.resource == here or visit.may(Action.MANAGE, step.resource)
            }
            record(
                visit.session, asker, "rights.explain", str(where)[:80], reason=f"{who} {action}"
            )
            every_group = visit.may(Action.MANAGE, Resource(Level.TENANT))
            grounds = tuple(
                shown(
                    visit.session,
                    each,
                    "here" if each.origin == here else each.origin.level.value,
                    every_group=every_group,
                )
                if each.origin in managed
                else _ground(each, "inherited", ())
                for each in found.reasons
            )
        return Explained(who, action, bool(found.verdict), grounds)


def shown(session: Session, reason: Reason, where: str, *, every_group: bool) -> Ground:
    """Name what a grant rests on. every_group: also the groups between, not the ends alone."""
    chain = (
        reason.chain if every_group else tuple(dict.fromkeys(reason.chain[:1] + reason.chain[-1:]))
    )
    names = names_of(session, chain)
    return _ground(reason, where, tuple(names[each] for each in chain))


def _ground(reason: Reason, where: str, chain: tuple[str, ...]) -> Ground:
    grant = reason.grant
    return Ground(where, grant.effect, chain, grant.expires_s, reason.counts)
