"""POST /v1/chat/completions and GET /v1/models, as OpenAI's clients know them."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from api.body import read_json
from api.deps import By, Caller, Home
from api.errors import UNEXPECTED, error_body, fault_of, log_unexpected
from api.stream import EventStream, while_connected
from api.wire import MODEL, ChatAsk, Chunks, completion, event, read_chat
from generation.types import Words
from pipeline.build import House
from pipeline.types import Closing

router = APIRouter()

Pieces = AsyncGenerator[Words | Closing, None]


@router.post("/v1/chat/completions", response_model=None)
async def chat(request: Request, house: Home, caller: Caller, by: By) -> Response:
    """Answer from what the caller may read, cited; whole or as a stream."""
    body = await read_json(request)
    ask = read_chat(body, caller, by, house.settings, house.pipeline.engine.model)
    if ask.streamed:
        return await while_connected(request.receive, _begin(house, ask))
    return JSONResponse(await while_connected(request.receive, _whole(house, ask)))


@router.get("/v1/models")
async def models(house: Home, _: Caller) -> JSONResponse:
    """List what may stand in `model`."""
    names = dict.fromkeys((MODEL, house.pipeline.engine.model))
    listed = [
        {"id": name, "object": "model", "created": 0, "owned_by": "ostiary"} for name in names
    ]
    return JSONResponse({"object": "list", "data": listed})


async def _whole(house: House, ask: ChatAsk) -> dict[str, object]:
    prepared = await house.pipeline.prepare(ask.ask)
    answer = await house.pipeline.answer(prepared)
    return completion(ask, answer.text, answer.closing)


async def _begin(house: House, ask: ChatAsk) -> EventStream:
    """Wait for the first piece, so that what fails early is a status and not a broken stream."""
    prepared = await house.pipeline.prepare(ask.ask)
    pieces = house.pipeline.stream(prepared)
    first = await anext(pieces)
    return EventStream(_events(first, pieces, Chunks(ask)), pieces, ask.ask.deadline)


async def _events(
    first: Words | Closing, rest: Pieces, chunks: Chunks
) -> AsyncGenerator[bytes, None]:
    try:
        for each in _written(chunks, first):
            yield each
        async for piece in rest:
            for each in _written(chunks, piece):
                yield each
    except Exception as failure:
        # The status is out: an error event, no finish_reason and no [DONE] tell the client.
        if fault_of(failure) is UNEXPECTED:
            log_unexpected(failure)
        yield event(error_body(failure))


def _written(chunks: Chunks, piece: Words | Closing) -> list[bytes]:
    if isinstance(piece, Words):
        return [chunks.words(piece.text)]
    return list(chunks.closing(piece))
