"""Who is asking: the bearer key, and nothing else in a request, says it."""

from __future__ import annotations

import hmac
import time

from fastapi import Request

from acl.errors import AclError, RightsUnavailable, UnknownPrincipal
from acl.keys import verify_key
from acl.types import Principal
from pipeline.build import House


def bearer(request: Request) -> str:
    """Give the token of the one Authorization header. Raises: UnknownPrincipal."""
    given = request.headers.getlist("authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not token.strip():
        raise UnknownPrincipal("one bearer token is needed")
    return token.strip()


async def authenticate(request: Request, house: House, secret: bytes) -> Principal:
    """Turn the request's key into its principal.

    Raises: UnknownPrincipal; RightsUnavailable if keys can't be looked up.
    """
    token = bearer(request)
    try:
        return await house.thread(verify_key, house.database, token, secret, time.time)
    except AclError:
        raise
    except Exception as failure:
        raise RightsUnavailable("keys can't be looked up now") from failure


def is_operator(request: Request, operator: str) -> bool:
    """Say whether the request holds the operator's token."""
    try:
        token = bearer(request)
    except UnknownPrincipal:
        return False
    return hmac.compare_digest(token.encode(), operator.encode())
