"""GET /v1/memory: what the caller's tenant holds, for who manages it."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from api.deps import Caller, Home

router = APIRouter()


@router.get("/v1/memory")
async def memory(house: Home, caller: Caller) -> JSONResponse:
    """Say which bytes the tenant's index holds; of other tenants and the process, nothing."""
    found = await house.thread(house.memory.of_tenant, caller)
    held = [{"part": part, "bytes": nbytes} for part, nbytes in sorted(found.held.items())]
    return JSONResponse(
        {
            "object": "memory",
            "bytes": sum(found.held.values()),
            "mapped_bytes": found.mapped,
            "held": held,
        }
    )
