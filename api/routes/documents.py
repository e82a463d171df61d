"""/v1/documents: list, open, send, share and delete."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.datastructures import FormData, UploadFile

from api.body import bounded, checked, is_text, read_json
from api.deps import Caller, Home
from api.errors import WireRefused
from api.schemas import AccessBody
from api.wire import place
from pipeline.access import Rule
from pipeline.documents import Upload
from pipeline.settings import Settings
from retrieval.corpus import Listed

router = APIRouter()

# What a multipart body may hold besides its file.
_FORM_NBYTES = 500_000
_LISTS = ("read", "write", "manage", "deny")
_FIELDS = {"file", "collection", "title", "cut", *_LISTS}
_MAX_INT32 = 2**31 - 1

Offset = Annotated[int, Query(ge=0, le=_MAX_INT32)]


@router.get("/v1/documents")
async def listed(
    house: Home,
    caller: Caller,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> JSONResponse:
    """List readable documents, oldest first, from the one after `after`."""
    # One more than asked for says whether there are more.
    found = await house.thread(house.documents.list, caller, after, limit + 1)
    shown = [_wire(each) for each in found[:limit]]
    return JSONResponse({"object": "list", "data": shown, "has_more": len(found) > limit})


@router.post("/v1/documents")
async def upload(request: Request, house: Home, caller: Caller) -> JSONResponse:
    """Take in a file. Lists of readers are repeated fields, e.g. read=group:staff."""
    asked = await _read_upload(request, house.settings)
    stored = await house.thread(house.documents.upload, caller, asked)
    return JSONResponse({"id": stored.id, "outcome": stored.result.value}, 201)


@router.get("/v1/documents/{public_id}")
async def get(public_id: str, house: Home, caller: Caller) -> JSONResponse:
    """Tell of one document."""
    return JSONResponse(_wire(await house.thread(house.documents.get, caller, public_id)))


@router.get("/v1/documents/{public_id}/text")
async def text(
    public_id: str,
    house: Home,
    caller: Caller,
    start: Offset = 0,
    end: Annotated[int | None, Query(ge=0, le=_MAX_INT32)] = None,
) -> JSONResponse:
    """Give a document's text, or the stretch [start, end) of it, in characters."""
    found = await house.thread(house.documents.text, caller, public_id, start, end)
    stretch = {
        "start": found.start, "end": found.end, "n_chars": found.n_chars, "text": found.text,
    }  # fmt: skip
    return JSONResponse({**_wire(found.document), "object": "document.text", **stretch})


@router.get("/v1/documents/{public_id}/passages/{ordinal}")
async def passage(public_id: str, ordinal: int, house: Home, caller: Caller) -> JSONResponse:
    """Open what a citation points at, with the text around it."""
    # No document has that many; databases differ on what they do with such a number.
    within = ordinal if 0 < ordinal <= _MAX_INT32 else 0
    found = await house.thread(house.documents.passage, caller, public_id, within)
    shown = {"text": found.passage.text, "before": found.before, "after": found.after}
    return JSONResponse({"object": "passage", **place(found.passage), **shown})


@router.get("/v1/documents/{public_id}/acl")
async def access(public_id: str, house: Home, caller: Caller) -> JSONResponse:
    """Give a document's own access."""
    return JSONResponse(_lists(await house.thread(house.documents.access, caller, public_id)))


@router.put("/v1/documents/{public_id}/acl")
async def set_access(
    public_id: str, request: Request, house: Home, caller: Caller
) -> JSONResponse:  # fmt: skip
    """Set a document's own access; a list that is left out is empty."""
    rule = checked(AccessBody, await read_json(request)).rule()
    found = await house.thread(house.documents.set_access, caller, public_id, rule)
    return JSONResponse(_lists(found))


@router.delete("/v1/documents/{public_id}")
async def delete(public_id: str, house: Home, caller: Caller) -> Response:
    """Delete a document."""
    await house.thread(house.documents.delete, caller, public_id)
    return Response(status_code=204)


async def _read_upload(request: Request, settings: Settings) -> Upload:
    most = settings.max_upload_bytes
    limited = bounded(request, most + _FORM_NBYTES)
    async with limited.form(max_files=1, max_fields=1000, max_part_size=64_000) as form:
        unknown = sorted(set(form) - _FIELDS)
        if unknown:
            raise WireRefused(f"there is no field {unknown[0]!r}", unknown[0][:100])
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise WireRefused("a file is needed, as multipart/form-data", "file")
        content = await file.read(most + 1)
        if len(content) > most:
            raise WireRefused(
                f"the file is longer than {most} bytes", "file", status=413, code="too_large"
            )
        return Upload(
            collection=_one(form, "collection", needed=True),
            name=_file_name(file.filename or ""),
            content=content,
            title=" ".join(_one(form, "title").split())[:300],
            rule=_rule(form),
        )


def _rule(form: FormData) -> Rule | None:
    """Read who shall have access; None if the caller says nothing of it."""
    if not set(form) & {"cut", *_LISTS}:
        return None
    cut = _one(form, "cut")
    if cut not in ("", "true", "false"):
        raise WireRefused("cut is true or false", "cut")
    lists = {each: [_text(each, value) for value in form.getlist(each)] for each in _LISTS}
    return checked(AccessBody, {"cut": cut == "true", **lists}).rule()


def _one(form: FormData, field: str, *, needed: bool = False) -> str:
    values = form.getlist(field)
    if len(values) > 1 or (needed and not values):
        raise WireRefused(f"{field} is needed once" if needed else f"{field} comes twice", field)
    return _text(field, values[0]) if values else ""


def _text(field: str, value: str | UploadFile) -> str:
    if not isinstance(value, str) or not is_text(value):
        raise WireRefused(f"{field} must be text", field)
    return value


def _file_name(name: str) -> str:
    """Give the name under which a file is known: its last part, in one Unicode form."""
    plain = unicodedata.normalize("NFC", PurePosixPath(name.replace("\\", "/")).name)
    if not plain.strip(". ") or len(plain) > 255 or not plain.isprintable():
        raise WireRefused("the file needs a name of 1 to 255 printable characters", "file")
    return plain


def _wire(document: Listed) -> dict[str, object]:
    return {
        "object": "document",
        "id": document.id,
        "title": document.title,
        "collection": document.collection,
        "media_type": document.media_type,
        "nbytes": document.nbytes,
        "passages": document.n_passages,
        "created_s": document.created_s,
    }


def _lists(rule: Rule) -> dict[str, object]:
    return {"object": "document.acl", **rule.model_dump(exclude={"name"}, mode="json")}
