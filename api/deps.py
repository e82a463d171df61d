"""What routes ask for, by name."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from acl.types import Principal
from api.auth import authenticate, is_operator
from pipeline.build import House
from pipeline.types import Deadline


def house_of(request: Request) -> House:
    """Give the house that the app serves."""
    house: House = request.app.state.house
    return house


async def caller(request: Request) -> Principal:
    """Give the verified principal. Raises: UnknownPrincipal; RightsUnavailable."""
    return await authenticate(request, house_of(request), request.app.state.secret)


def operator(request: Request) -> bool:
    """Say whether the operator is asking."""
    return is_operator(request, request.app.state.operator)


def deadline(request: Request) -> Deadline:
    """Give the moment by which this request must be answered."""
    return Deadline.after(house_of(request).settings.timeout_s)


Home = Annotated[House, Depends(house_of)]
Caller = Annotated[Principal, Depends(caller)]
IsOperator = Annotated[bool, Depends(operator)]
By = Annotated[Deadline, Depends(deadline)]
