"""Request bodies: bounded while they are read, JSON without duplicate keys or broken text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.types import Message

from api.errors import WireRefused

JSON_NBYTES = 256_000

M = TypeVar("M", bound=BaseModel)


def bounded(request: Request, most_nbytes: int) -> Request:
    """Give the request with a body that ends in a refusal once it is too long."""
    too_long = WireRefused(
        f"the body is longer than {most_nbytes} bytes", None, status=413, code="too_large"
    )
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared[:20]) > most_nbytes:
        raise too_long
    n_read = 0

    async def receive() -> Message:
        nonlocal n_read
        message = await request.receive()
        n_read += len(message.get("body", b""))
        if n_read > most_nbytes:
            raise too_long
        return message

    return Request(request.scope, receive)


async def read_json(request: Request) -> dict[str, object]:
    """Read a JSON object of at most 256 kB.

    Raises: WireRefused for a key that comes twice (two readers could each take another one),
    NaN, NUL or half a surrogate pair, and whatever is not an object.
    """
    content = await bounded(request, JSON_NBYTES).body()
    try:
        body = json.loads(content, object_pairs_hook=_unique, parse_constant=_no_constant)
        sound = _is_sound(body)
    except (ValueError, RecursionError):
        raise WireRefused("the body is not JSON", None, code="invalid_json") from None
    if not isinstance(body, dict):
        raise WireRefused("the body must be a JSON object", None, code="invalid_json")
    if not sound:
        raise WireRefused(
            "the body holds characters that are not text (NUL or half a surrogate pair)", None
        )
    return body


def checked(model: type[M], body: object) -> M:
    """Check a body against its wire model. Raises: WireRefused naming the first fault."""
    try:
        return model.model_validate(body)
    except ValidationError as failure:
        first = failure.errors(include_input=False, include_url=False, include_context=False)[0]
        param = dotted(first["loc"])
        raise WireRefused(f"{param}: {first['msg']}", param) from None


def dotted(place: Sequence[int | str]) -> str:
    """Write the place of a field as callers do: messages.0.role."""
    return ".".join(map(str, place))


def is_text(text: str) -> bool:
    """Say whether every database can hold the text."""
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise WireRefused("a key comes twice in one object", None, code="duplicate_key")
    return found


def _no_constant(_: str) -> object:
    raise ValueError("not a JSON number")


def _is_sound(value: object) -> bool:
    if isinstance(value, str):
        return is_text(value)
    if isinstance(value, list):
        return all(map(_is_sound, value))
    if isinstance(value, dict):
        return all(is_text(key) and _is_sound(each) for key, each in value.items())
    return True
