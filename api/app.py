"""The ASGI app: routes, the error table, and the envelope around every response."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import install, log_unexpected, respond
from api.routes import chat, documents, explain, grants, groups, health, memory, search
from pipeline.build import House


def create_app(house: House) -> FastAPI:
    """Make the app that serves a house, and closes it when it ends.

    Raises: SettingsRefused; StorageFull if the secrets can't be read.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await house.close()

    app = FastAPI(
        title="Ostiary", docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan
    )  # fmt: skip
    app.state.house = house
    app.state.secret = house.settings.secret_bytes()
    app.state.operator = house.settings.operator()
    for each in (search, chat, documents, grants, groups, explain, memory, health):
        app.include_router(each.router)
    install(app)
    app.add_middleware(Envelope)
    return app


class Envelope:
    """Gives every response an id of ours and keeps it out of caches; lets no exception out.

    What gets here is a bug. The server would log its message, which may hold content.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def sealed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = secrets.token_hex(16)
                headers["Cache-Control"] = "no-store"
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        try:
            await self._app(scope, receive, sealed)
        except Exception as failure:
            if begun:
                # Too late for a status: the server breaks the connection off.
                log_unexpected(failure)
            else:
                await respond(failure)(scope, receive, sealed)
