"""Is the process up, would it serve, and what does the operator see."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from acl.errors import UnknownResource
from api.deps import Home, IsOperator
from api.errors import WireRefused

router = APIRouter()


@router.get("/healthz")
async def healthz() -> JSONResponse:
    """Say that the process is up."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz")
async def readyz(house: Home) -> JSONResponse:
    """Say whether a request would be served, or which part is missing; why is for the log."""
    missing = sorted(name for name, said in (await house.ready()).items() if said != "ok")
    if missing:
        raise WireRefused(f"not ready: {', '.join(missing)}", None, status=503, code="not_ready")
    return JSONResponse({"status": "ok"})


@router.get("/metrics")
async def metrics(house: Home, operator: IsOperator) -> Response:
    """Give the operator's metrics; for everybody else there is nothing here."""
    if not operator:
        raise UnknownResource("metrics are the operator's")
    text = await house.thread(house.metrics)
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})
