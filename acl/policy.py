"""Sole importer of casbin: decides an action of one principal on one resource.

casbin reads our own tables through the adapter below. It decides writes, management and
reads of single resources, and is the reference that tests hold the compiled read path
against. Its role manager stops at ten levels without a word and its matcher turns errors
into "no", so groups are closed over by us and handed to it flattened.
"""

from __future__ import annotations

from pathlib import Path

import casbin
from casbin.model import Model
from casbin.persist import Adapter, load_policy_line
from sqlalchemy import select
from sqlalchemy.orm import Session

from acl.errors import AclError, RightsUnavailable, UnknownPrincipal
from acl.groups import closure, everyone_id, parents
from acl.resources import standing
from acl.tables import PrincipalRow
from acl.types import Action, Allowed, Denied, Principal, Resource, Verdict

_MODEL = Path(__file__).with_name("model.conf").read_text()


class _TableAdapter(Adapter):  # type: ignore[misc]  # casbin ships no types
    """Loads what counts on one resource for one principal, from the session's snapshot."""

    def __init__(
        self,
        session: Session,
        principal: Principal,
        action: Action,
        resource: Resource,
        now_s: float,
    ) -> None:
        self._session = session
        self._principal = principal
        self._action = action
        self._resource = resource
        self._now_s = now_s

    def load_policy(self, model: Model) -> None:
        """Fill casbin's model with p lines (grants) and g lines (the flattened closure)."""
        domain = self._principal.tenant
        for each in standing(self._session, self._resource, self._action):
            grant = each.grant
            if grant.expires_s is None or grant.expires_s > self._now_s:
                line = ("p", grant.principal, domain, _name(self._resource), grant.action.value,
                        grant.effect.value)  # fmt: skip
                load_policy_line(", ".join(map(str, line)), model)
        above = closure(self._principal.id, parents(self._session), everyone_id(self._session))
        for group in above - {self._principal.id}:
            load_policy_line(f"g, {self._principal.id}, {group}, {domain}", model)


def verdict(
    session: Session, principal: Principal, action: Action, resource: Resource, now_s: float
) -> Verdict:
    """Say whether the principal may do the action to the resource, in the open snapshot.

    Raises: UnknownPrincipal if the session's tenant has no such principal; UnknownResource;
    RightsUnavailable if tables or casbin fail.
    """
    try:
        _require_known(session, principal)
        adapter = _TableAdapter(session, principal, action, resource, now_s)
        model = Model()
        model.load_model_from_text(_MODEL)
        allowed = casbin.Enforcer(model, adapter).enforce(
            str(principal.id), principal.tenant, _name(resource), action.value
        )
    except AclError:
        raise
    except Exception as failure:
        raise RightsUnavailable("rights can't be evaluated now") from failure
    if allowed:
        return Allowed()
    return Denied(f"{principal.name} may not {action.value} {_name(resource)}")


def _require_known(session: Session, principal: Principal) -> None:
    # Asked as a query: the session may still hold the row of a principal that it has deleted.
    # A principal of another tenant may have the row id of one of ours; it is not that one.
    known = select(PrincipalRow.id).where(PrincipalRow.id == principal.id)
    if principal.tenant != session.info["tenant"] or session.scalar(known) is None:
        raise UnknownPrincipal("the principal does not exist")


def _name(resource: Resource) -> str:
    return f"{resource.level.value}:{resource.id}"
