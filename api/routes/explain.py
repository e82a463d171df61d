"""GET /v1/explain: why somebody may, or may not, do something to a resource."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from api.body import checked
from api.deps import Caller, Home
from api.routes.grants import Asked
from api.schemas import ExplainQuery, ResourceBody

router = APIRouter()

_OWN = ("principal", "action")


@router.get("/v1/explain")
async def explained(house: Home, caller: Caller, asked: Asked) -> JSONResponse:
    """Explain: ?principal=user:NAME&action=read and the resource as for GET /v1/grants."""
    resource = {key: value for key, value in asked.items() if key not in _OWN}
    where = checked(ResourceBody, resource).where()
    query = checked(ExplainQuery, {key: asked[key] for key in _OWN if key in asked})
    found = await house.thread(
        house.explaining.explain, caller, where, query.principal, query.wanted
    )
    return JSONResponse(
        {
            "object": "explanation",
            "principal": found.principal,
            "action": found.action.value,
            "allowed": found.allowed,
            "grants": [
                {
                    "where": each.where,
                    "effect": each.effect.value,
                    "through": list(each.chain),
                    "expires_s": each.expires_s,
                    "counts": each.counts.value,
                }
                for each in found.grounds
            ],
        }
    )
