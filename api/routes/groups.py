"""/v1/groups: the groups that the caller is in or manages, and their members."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from api.body import checked, read_json
from api.deps import Caller, Home
from api.schemas import GroupBody
from pipeline.rights import Group

router = APIRouter()


@router.get("/v1/groups")
async def listed(house: Home, caller: Caller) -> JSONResponse:
    """List groups by name."""
    found = await house.thread(house.rights.groups, caller)
    return JSONResponse({"object": "list", "data": [_wire(each) for each in found]})


@router.post("/v1/groups")
async def add(request: Request, house: Home, caller: Caller) -> JSONResponse:
    """Make a group; 201 if it is new, 200 if there is one of that name."""
    body = checked(GroupBody, await read_json(request))
    made = await house.thread(house.rights.add_group, caller, body.name, body.display)
    found = await house.thread(house.rights.group, caller, body.name)
    return JSONResponse(_wire(found), 201 if made else 200)


@router.get("/v1/groups/{name}")
async def get(name: str, house: Home, caller: Caller) -> JSONResponse:
    """Show one group."""
    return JSONResponse(_wire(await house.thread(house.rights.group, caller, name)))


@router.put("/v1/groups/{name}/members/{member}")
async def put_member(name: str, member: str, house: Home, caller: Caller) -> Response:
    """Put user:NAME, service:NAME or group:NAME into the group."""
    await house.thread(house.rights.add_member, caller, name, member)
    return Response(status_code=204)


@router.delete("/v1/groups/{name}/members/{member}")
async def delete_member(name: str, member: str, house: Home, caller: Caller) -> Response:
    """Take a direct member out of the group."""
    await house.thread(house.rights.remove_member, caller, name, member)
    return Response(status_code=204)


def _wire(group: Group) -> dict[str, object]:
    shown: dict[str, object] = {
        "object": "group",
        "name": group.name,
        "display": group.display,
        "manages": group.members is not None,
    }
    if group.members is not None:
        shown["members"] = list(group.members)
    return shown
