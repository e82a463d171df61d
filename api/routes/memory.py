"""GET /v1/memory: who holds which bytes of this process and why, for the operator."""

from __future__ import annotations

from fastapi import APIRouter, Response

from acl.errors import UnknownResource
from api.deps import Home, IsOperator

router = APIRouter()


@router.get("/v1/memory")
async def memory(house: Home, operator: IsOperator) -> Response:
    """Give the operator the ledger; for everybody else there is nothing here.

    A manager of a tenant is no operator: figures count documents that he may not read (law 1).
    """
    if not operator:
        raise UnknownResource("the ledger is the operator's")
    shown = await house.thread(house.memory.whole_json)
    return Response(shown, media_type="application/json")
