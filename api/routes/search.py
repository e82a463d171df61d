"""POST /v1/search: the best passages that the caller may read."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from api.body import checked, read_json
from api.deps import By, Caller, Home
from api.errors import WireRefused
from api.schemas import SearchBody
from api.stream import while_connected
from api.wire import fitting, place, stages
from pipeline.types import Ask, Ranked

router = APIRouter()


@router.post("/v1/search")
async def search(request: Request, house: Home, caller: Caller, by: By) -> JSONResponse:
    """Find passages; never fewer than asked for while there are more."""
    body = checked(SearchBody, await read_json(request))
    most = house.settings.max_depth
    if not 1 <= body.top_k <= most:
        raise WireRefused(f"top_k is {body.top_k}, it goes from 1 to {most}", "top_k")
    question = fitting(body.query, "query", house.settings)
    ask = Ask(caller, question, by, depth=body.top_k)
    ranked = await while_connected(request.receive, house.pipeline.search(ask))
    return JSONResponse(_results(ranked, body.top_k))


def _results(ranked: Ranked, asked: int) -> dict[str, object]:
    results = [
        {
            "rank": rank,
            "score": candidate.score,
            **place(candidate.passage),
            "text": candidate.passage.text,
        }
        for rank, candidate in enumerate(ranked.ranking, start=1)
    ]
    return {
        "object": "search.results",
        "asked": asked,
        "returned": len(results),
        "results": results,
        "stages": stages(ranked.spent),
    }
