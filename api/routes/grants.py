"""GET, POST and DELETE /v1/grants: who may do what to a resource."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from acl.types import Action, Effect
from api.body import checked, is_text, read_json
from api.deps import Caller, Home
from api.errors import WireRefused
from api.schemas import GrantBody, ResourceBody
from pipeline.naming import Where
from pipeline.rights import Line

router = APIRouter()

_LINE = ("principal", "action", "effect")


async def _asked(request: Request) -> dict[str, str]:
    found = dict(request.query_params)
    if len(found) != len(request.query_params.multi_items()):
        raise WireRefused("a parameter comes twice in the query", None, code="duplicate_key")
    if not all(map(is_text, found.values())):
        raise WireRefused("the query holds characters that are not text", None)
    return found


Asked = Annotated[dict[str, str], Depends(_asked)]


@router.get("/v1/grants")
async def listed(house: Home, caller: Caller, asked: Asked) -> JSONResponse:
    """List a resource's own grants: ?type=collection&path=..., ?type=document&id=..., ..."""
    where = checked(ResourceBody, asked).where()
    lines = await house.thread(house.rights.grants, caller, where)
    return JSONResponse({"object": "list", "data": [_wire(where, each) for each in lines]})


@router.post("/v1/grants")
async def give(request: Request, house: Home, caller: Caller) -> JSONResponse:
    """Give a grant; 201 if it is new, 200 if it stood there already."""
    body = checked(GrantBody, await read_json(request))
    where = body.resource.where()
    line = Line(body.principal, Action(body.action), Effect(body.effect), body.expires_s)
    given = await house.thread(house.rights.give, caller, where, line)
    return JSONResponse(_wire(where, line), 201 if given else 200)


@router.delete("/v1/grants")
async def revoke(house: Home, caller: Caller, asked: Asked) -> Response:
    """Revoke a grant: the resource as for GET, with principal, action and effect."""
    resource = {key: value for key, value in asked.items() if key not in _LINE}
    where = checked(ResourceBody, resource).where()
    said = {key: asked[key] for key in _LINE if key in asked}
    body = checked(GrantBody, {"resource": checked(ResourceBody, resource), **said})
    line = Line(body.principal, Action(body.action), Effect(body.effect))
    await house.thread(house.rights.revoke, caller, where, line)
    return Response(status_code=204)


def _wire(where: Where, line: Line) -> dict[str, object]:
    resource = {"type": where.level.value}
    field = {"collection": "path", "document": "id", "group": "name"}.get(where.level.value)
    if field is not None:
        resource[field] = where.name
    return {
        "object": "grant",
        "resource": resource,
        "principal": line.principal,
        "action": line.action.value,
        "effect": line.effect.value,
        "expires_s": line.expires_s,
    }
