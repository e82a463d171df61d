"""The one table from exceptions to responses; every error body has OpenAI's shape."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from acl import errors as acl
from generation import errors as generation
from pipeline import errors as pipeline
from retrieval import errors as retrieval

_log = logging.getLogger(__name__)

_BAD = "invalid_request_error"
_OURS = "server_error"


@dataclass(frozen=True, slots=True)
class Fault:
    """What a caller is told of a kind of error. Without `text` it is the error's own message."""

    status: int
    kind: str
    code: str
    text: str = ""
    retry_after_s: int = 0


class WireRefused(Exception):
    """A request that is not acceptable as it came; `param` is the field at fault."""

    def __init__(
        self, message: str, param: str | None, status: int = 400, code: str = "invalid_value"
    ) -> None:
        super().__init__(message)
        self.param = param
        self.fault = Fault(status, _BAD if status < 500 else _OURS, code)


class ClientGone(Exception):
    """The client went away; nobody reads the response."""


# Missing and forbidden, unknown routes and the operator's: one body for all of them (law 1).
NOT_FOUND = Fault(404, _BAD, "not_found", "there is nothing here for you under this address")
UNEXPECTED = Fault(500, _OURS, "internal_error", "something went wrong here; it has been logged")

STATUS: dict[type[Exception], Fault] = {
    acl.UnknownPrincipal: Fault(
        401, "authentication_error", "invalid_api_key", "the API key is not valid"
    ),
    acl.UnknownResource: NOT_FOUND,
    acl.NotAllowed: Fault(403, "permission_error", "not_allowed", "you may not do this here"),
    acl.RightsUnavailable: Fault(
        503, _OURS, "rights_unavailable", "rights can't be evaluated now", retry_after_s=2
    ),
    acl.AclRefused: Fault(422, _BAD, "refused"),
    acl.StorageBusy: Fault(
        503, _OURS, "storage_busy", "the database is busy; come back", retry_after_s=1
    ),
    acl.StorageFull: Fault(507, _OURS, "storage_full", "nothing can be stored now"),
    retrieval.ParseFailed: Fault(422, _BAD, "unreadable_file"),
    retrieval.IndexNotReady: Fault(
        503, _OURS, "index_not_ready", "the index can't be opened now", retry_after_s=2
    ),
    retrieval.IndexMismatch: Fault(
        500, _OURS, "index_mismatch", "the index and the encoder do not fit; the operator must act"
    ),
    retrieval.IndexUnsound: Fault(
        500, _OURS, "index_unsound", "the search was refused by a guard; the operator must act"
    ),
    retrieval.ModelMissing: Fault(
        503, _OURS, "model_missing", "a model is missing here; the operator must act"
    ),
    retrieval.VersionsMoved: Fault(
        503, _OURS, "index_not_ready", "the index moves to another version; come back",
        retry_after_s=2,
    ),
    retrieval.RerankFailed: Fault(
        503, _OURS, "rerank_failed", "the reranker did not answer", retry_after_s=2
    ),
    generation.EngineDown: Fault(
        503, _OURS, "engine_down", "the language model does not answer now", retry_after_s=5
    ),
    generation.EngineBusy: Fault(
        503, _OURS, "engine_busy", "the language model is busy", retry_after_s=2
    ),
    generation.PromptTooLong: Fault(413, _BAD, "context_length_exceeded"),
    pipeline.Overloaded: Fault(503, _OURS, "overloaded", "too many requests are waiting"),
    pipeline.EvidenceRevoked: Fault(
        503, _OURS, "evidence_revoked",
        "what this answer rested on may no longer be read; ask again", retry_after_s=1,
    ),
    pipeline.AskRefused: Fault(400, _BAD, "invalid_value"),
    pipeline.RulesRefused: Fault(422, _BAD, "unknown_principal"),
    pipeline.LedgerFull: Fault(
        503, _OURS, "out_of_memory", "there is not enough memory for this now", retry_after_s=10
    ),
    pipeline.PlanRefused: Fault(422, _BAD, "plan_refused"),
    pipeline.SettingsRefused: Fault(500, _OURS, "settings_refused", UNEXPECTED.text),
    TimeoutError: Fault(504, _OURS, "timeout", "the deadline passed before there was an answer"),
}  # fmt: skip


def fault_of(failure: Exception) -> Fault:
    """Give what is told of an exception: its own line in the table, or its nearest root's."""
    if isinstance(failure, WireRefused):
        return failure.fault
    lines = (STATUS[each] for each in type(failure).__mro__ if each in STATUS)
    return next(lines, UNEXPECTED)


def error_body(failure: Exception) -> dict[str, object]:
    """Give the error object of a response or of a stream that breaks off."""
    fault = fault_of(failure)
    param = failure.param if isinstance(failure, WireRefused) else None
    return _body(fault, fault.text or str(failure), param)


def respond(failure: Exception) -> JSONResponse:
    """Turn an exception into a response; what is unexpected is logged without its message."""
    fault = fault_of(failure)
    if fault is UNEXPECTED:
        log_unexpected(failure)
    headers = {}
    retry_after_s = getattr(failure, "retry_after_s", fault.retry_after_s)
    if retry_after_s:
        headers["Retry-After"] = str(retry_after_s)
    if fault.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error_body(failure), fault.status, headers)


def log_unexpected(failure: Exception) -> None:
    """Log where an unexpected exception came from. Its message may hold content: left out."""
    frames = traceback.extract_tb(failure.__traceback__)
    place = " < ".join(f"{at.filename}:{at.lineno}" for at in reversed(frames[-5:]))
    _log.error("unexpected %s at %s", type(failure).__name__, place)


def install(app: FastAPI) -> None:
    """Make the app answer with the table."""

    async def known(_: Request, failure: Exception) -> Response:
        return respond(failure)

    async def framework(_: Request, failure: Exception) -> Response:
        return _of_framework(failure)

    async def gone(_: Request, __: Exception) -> Response:
        return Response(status_code=499)

    for each in (*STATUS, WireRefused):
        app.add_exception_handler(each, known)
    for each in (HTTPException, RequestValidationError):
        app.add_exception_handler(each, framework)
    for each in (ClientGone, ClientDisconnect):
        app.add_exception_handler(each, gone)


def _of_framework(failure: Exception) -> Response:
    if isinstance(failure, RequestValidationError):
        first = failure.errors()[0]
        param = ".".join(str(part) for part in first["loc"][1:])
        return respond(WireRefused(f"{param}: {first['msg']}", param))
    if not isinstance(failure, HTTPException):
        return respond(failure)
    if failure.status_code == 404:
        return JSONResponse(_body(NOT_FOUND, NOT_FOUND.text, None), 404)
    fault = Fault(failure.status_code, _BAD, "invalid_request")
    return JSONResponse(_body(fault, failure.detail, None), failure.status_code, failure.headers)


def _body(fault: Fault, message: str, param: str | None) -> dict[str, object]:
    return {
        "error": {"message": message, "type": fault.kind, "param": param, "code": fault.code}
    }  # fmt: skip
