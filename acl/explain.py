"""Why a principal may, or may not, do an action to a resource: the grants on the way, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy.orm import Session

from acl.groups import everyone_id, parents
from acl.policy import verdict
from acl.resources import own_grants, way
from acl.types import Action, Effect, Grant, Principal, Resource, Verdict


class Counts(StrEnum):
    """Whether a grant counts, and if not, why."""

    YES = "counts"
    CUT = "dropped by a cut below it"
    ENDED = "has ended"


@dataclass(frozen=True, slots=True)
class Reason:
    """A grant that concerns the principal, where it stands, and how the principal comes to it.

    chain: principals from the one asked about to the one that the grant names; each is a
    member of the next. One entry if the grant names the principal itself.
    """

    grant: Grant
    origin: Resource
    chain: tuple[int, ...]
    counts: Counts


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict with its reasons, from the tenant down to the resource."""

    verdict: Verdict
    reasons: tuple[Reason, ...]

    @property
    def said(self) -> bool:
        """What the reasons say by themselves: some allow counts, and no deny does."""
        effects = {each.grant.effect for each in self.reasons if each.counts is Counts.YES}
        return Effect.ALLOW in effects and Effect.DENY not in effects


def explain(
    session: Session, principal: Principal, action: Action, resource: Resource, now_s: float
) -> Explanation:
    """Explain a verdict in the open snapshot. The verdict is the policy's own, not ours.

    Raises: UnknownPrincipal; UnknownResource; RightsUnavailable.
    """
    decided = verdict(session, principal, action, resource, now_s)
    chains = _chains(principal.id, parents(session), everyone_id(session))
    reasons: list[Reason] = []
    for step in way(session, resource):
        if step.cut:
            reasons = [_dropped(each) for each in reasons]
        for grant in own_grants(session, step.resource):
            if grant.action is action and grant.principal in chains:
                ended = grant.expires_s is not None and grant.expires_s <= now_s
                counts = Counts.ENDED if ended else Counts.YES
                reasons.append(Reason(grant, step.resource, chains[grant.principal], counts))
    return Explanation(decided, tuple(reasons))


def _dropped(reason: Reason) -> Reason:
    if reason.grant.effect is Effect.DENY or reason.counts is not Counts.YES:
        return reason
    return Reason(reason.grant, reason.origin, reason.chain, Counts.CUT)


def _chains(
    principal: int, contained_in: Mapping[int, list[int]], everyone: int
) -> dict[int, tuple[int, ...]]:
    """Find a shortest chain of memberships to each group; a cycle ends the walk and no more."""
    chains = {principal: (principal,), everyone: (principal, everyone)}
    waiting = deque(chains)
    while waiting:
        inner = waiting.popleft()
        for group in sorted(contained_in.get(inner, ())):
            if group not in chains:
                chains[group] = (*chains[inner], group)
                waiting.append(group)
    return chains
