"""A whole house of fakes and a real database, with people and documents in it, and ways in."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import uvicorn
from fastapi import FastAPI

from acl.directory import (
    create_collection,
    create_principal,
    create_tenant,
    find_collection,
    find_principal,
)
from acl.documents import Access, place
from acl.grants import give
from acl.groups import add_member
from acl.keys import create_key, verify_key
from acl.session import Database, Writing
from acl.types import Action, Effect, Grant, Kind, Level, Principal, Resource
from api.app import create_app
from generation.scripted import ScriptedEngine
from generation.types import Engine
from pipeline.build import House, build_house
from pipeline.documents import Documents
from pipeline.making import Maker
from pipeline.settings import Settings
from retrieval.chunk import Chunker
from retrieval.corpus import store
from retrieval.hashed import HashedEncoder
from retrieval.parse import ParseLimits, parse
from retrieval.sandbox import Sandbox
from retrieval.types import Parsed
from tests.databases import fresh_sqlite

SECRET = "5e" * 32
OPERATOR = "the-operator"
ANSWER = ("The gate ", "opens ", "at nine [1]. ", "Bring a badge [1].")


class OpenSandbox(Sandbox):
    """Reads files in this process: a process apart would cost each test a second."""

    def parse(self, name: str, content: bytes) -> Parsed:
        """Read one file."""
        return parse(name, content, ParseLimits())


@dataclass(slots=True)
class Home:
    """A house, its app, and the keys of the people in it."""

    house: House
    app: FastAPI
    maker: Maker
    tenants: dict[str, str]
    keys: dict[str, str]

    def principal(self, who: str) -> Principal:
        """Give a person as the edge verifies them."""
        database = self.house.database
        return verify_key(database, self.keys[who], bytes.fromhex(SECRET), time.time)

    def person(self, who: str, tenant: str = "acme") -> str:
        """Make a user with a key; gives the key."""
        with self.house.database.writing(self.tenants[tenant]) as writing:
            row, _ = create_principal(writing, Kind.USER, who)
            self.keys[who] = create_key(writing, row, bytes.fromhex(SECRET))
        return self.keys[who]

    def group(self, name: str, *members: str) -> None:
        """Make a group with members."""
        with self.house.database.writing(self.tenants["acme"]) as writing:
            row, _ = create_principal(writing, Kind.GROUP, name)
            for each in members:
                add_member(writing, row, find_principal(writing.session, each))

    def grant(self, who: str, action: str, path: str = "", effect: str = "allow") -> None:
        """Give a principal something on a collection, or on the tenant."""
        with self.house.database.writing(self.tenants["acme"]) as writing:
            row = find_principal(writing.session, who)
            give(writing, _at(writing, path), Grant(row.id, Action(action), Effect(effect)))

    def document(
        self, path: str, title: str, text: str, *, tenant: str = "acme", read: Sequence[str] = ()
    ) -> str:
        """Store a text in a collection as the operator would; gives the document's id."""
        made = self.maker.make_text(title, text)
        with self.house.database.writing(self.tenants[tenant]) as writing:
            rows = [find_principal(writing.session, each) for each in read]
            grants = tuple(Grant(row.id, Action.READ, Effect.ALLOW) for row in rows)
            document = place(writing, create_collection(writing, path), Access(grants))
            origin = self.maker.origin(made, "files", title)
            store(writing, document, made.parsed, made.pieces, made.vectors, origin)
            return document.public_id

    def ask(
        self,
        who: str | None,
        method: str,
        url: str,
        *,
        json: object = None,
        headers: Mapping[str, str] | Mapping[bytes, bytes] | None = None,
        content: bytes | None = None,
        data: Mapping[str, str | list[str]] | None = None,
        files: Mapping[str, tuple[str, bytes]] | None = None,
    ) -> httpx.Response:
        """Send one request through the app, as a person or as nobody."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await client.request(
                    method, url, json=json, headers=self.headers(who, headers), content=content,
                    data=data, files=files,
                )  # fmt: skip

        return asyncio.run(send())

    def headers(
        self, who: str | None, more: Mapping[str, str] | Mapping[bytes, bytes] | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Give the headers of a person's request."""
        own = [] if who is None else [(b"Authorization", f"Bearer {self.keys[who]}".encode())]
        pairs = [
            (_raw(name), _raw(value)) for name, value in (more or {}).items()
        ]  # fmt: skip
        return [*own, *pairs]


@contextmanager
def open_home(
    folder: Path, engine: Engine | None = None, database: Database | None = None, **settings: object
) -> Iterator[Home]:
    """Open a house with two tenants: acme, where people are, and rival.

    In acme everyone reads "open"; "closed" is read by group:inner (ana) and managed by mo;
    tess manages the tenant; wes writes to "open", and to "closed" without reading it.
    """
    chosen = Settings.model_validate(
        {"home": folder, "secret": SECRET, "operator_token": OPERATOR, "timeout_s": 20, **settings}
    )
    encoder = HashedEncoder()
    chunker = Chunker(encoder.tokenizer, chosen.retrieval.passage_tokens, 0)
    maker = Maker(OpenSandbox(ParseLimits()), chunker, encoder, chosen.retrieval)
    database = database or fresh_sqlite(folder)
    tenants = {name: create_tenant(database, name) for name in ("acme", "rival")}
    house = build_house(
        chosen, database=database, encoder=encoder, engine=engine or ScriptedEngine(ANSWER)
    )
    house = replace(house, documents=Documents(database, house.authority, maker, house.audit))
    home = Home(house, create_app(house), maker, tenants, {})
    try:
        _people(home)
        yield home
    finally:
        asyncio.run(house.close())


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an app over loopback from a thread; gives its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, lifespan="off", access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _people(home: Home) -> None:
    for who in ("ana", "bo", "wes", "mo", "tess"):
        home.person(who)
    home.person("zoe", tenant="rival")
    home.group("inner", "user:ana")
    with home.house.database.writing(home.tenants["acme"]) as writing:
        create_collection(writing, "open")
        create_collection(writing, "closed")
    home.grant("group:everyone", "read", "open")
    home.grant("group:inner", "read", "closed")
    home.grant("user:mo", "manage", "closed")
    home.grant("user:tess", "manage")
    home.grant("user:wes", "write", "open")
    home.grant("user:wes", "write", "closed")


def _at(writing: Writing, path: str) -> Resource:
    if not path:
        return Resource(Level.TENANT)
    return Resource(Level.COLLECTION, find_collection(writing.session, path).id)
