"""The ground on which attacks are fought: a server of our own, its people, and its engine."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from acl.directory import (
    create_collection,
    create_principal,
    create_tenant,
    find_collection,
    find_principal,
)
from acl.grants import give, revoke
from acl.groups import add_member, remove_member
from acl.keys import create_key
from acl.session import Database, Writing
from acl.types import Action, Effect, Grant, Kind, Level, Resource
from evals.attacks.engine import RecordingEngine, recording_engine
from evals.server import serving
from pipeline.migrate import open_database
from pipeline.settings import Settings, load_settings

_SYLLABLES = ("ba", "do", "fi", "ku", "lem", "nor", "pas", "rit", "sul", "tev", "vo", "zan")
WORDS = (
    "heron", "weir", "gate", "ledger", "badge", "canteen", "winter", "boiler", "lamp", "river",
    "timber", "copper", "harbour", "signal", "orchard", "lantern", "barrel", "engine", "meadow",
    "kettle", "bridge", "saddle", "window", "ladder", "pocket", "marble",
)  # fmt: skip


@dataclass(slots=True)
class Ground:
    """A server of its own with two tenants, an engine that records, and ways in as anybody.

    In acme everyone reads `open`; `closed` is read by group:inner (ana); bo is nobody special;
    mo manages the tenant; wes writes to `open` and `drop`, which ana reads, and reads neither
    of `closed` and `drop`. zoe is of another tenant, rival.
    """

    url: str
    engine: RecordingEngine
    settings: Settings
    database: Database
    log: Path
    tenants: dict[str, str]
    process: subprocess.Popen[bytes]
    keys: dict[str, str] = field(default_factory=dict)
    canaries: tuple[str, ...] = ()
    documents: dict[str, str] = field(default_factory=dict)
    chance: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=60))

    def ask(
        self,
        who: str | None,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: object,
    ) -> httpx.Response:
        """Send one request, as a person or as nobody."""
        own = {} if who is None else {"Authorization": f"Bearer {self.keys[who]}"}
        return self.client.request(
            method,
            self.url + path,
            headers={**own, **(headers or {})},
            **more,  # type: ignore[arg-type]
        )

    def search(self, who: str, query: str, depth: int = 10) -> httpx.Response:
        """Search as a person."""
        return self.ask(who, "POST", "/v1/search", json={"query": query, "top_k": depth})

    def chat(
        self, who: str, question: str, *, stream: bool = False, history: Sequence[str] = ()
    ) -> httpx.Response:
        """Ask as a person; history alternates between person and assistant."""
        turns = [
            {"role": "assistant" if number % 2 else "user", "content": text}
            for number, text in enumerate(history)
        ]
        messages = [*turns, {"role": "user", "content": question}]
        body = {"model": "ostiary", "messages": messages, "stream": stream}
        return self.ask(who, "POST", "/v1/chat/completions", json=body)

    def upload(
        self, who: str, path: str, name: str, text: str, read: Sequence[str] = ()
    ) -> httpx.Response:
        """Upload a text as a person."""
        return self.ask(
            who, "POST", "/v1/documents", data={"collection": path, "read": list(read)},
            files={"file": (f"{name}.txt", text.encode())},
        )  # fmt: skip

    def put(self, path: str, name: str, text: str, read: Sequence[str] = ()) -> str:
        """Upload as mo, who may; gives the document's id."""
        answer = self.upload("mo", path, name, text, read)
        answer.raise_for_status()
        self.documents[name] = str(answer.json()["id"])
        return self.documents[name]

    def person(self, name: str, *groups: str, tenant: str = "acme", ends_s: float = 0) -> str:
        """Make a person with a key and groups; gives the key."""
        with self.database.writing(self.tenants[tenant]) as writing:
            row, _ = create_principal(writing, Kind.USER, name)
            for group in groups:
                add_member(writing, find_principal(writing.session, group), row)
            end = ends_s or time.time() + 86_400
            secret = self.settings.secret_bytes()
            self.keys[name] = create_key(writing, row, secret, "attack", end)
        return self.keys[name]

    @contextmanager
    def writing(self, tenant: str = "acme") -> Iterator[Writing]:
        """Change rights through the database, as another process does."""
        with self.database.writing(self.tenants[tenant]) as writing:
            yield writing

    def grant(self, who: str, action: str, path: str, effect: str = "allow") -> None:
        """Give a right on a collection ("" for the tenant)."""
        with self.writing() as writing:
            row = find_principal(writing.session, who)
            give(writing, _at(writing, path), Grant(row.id, Action(action), Effect(effect)))

    def ungrant(self, who: str, action: str, path: str) -> None:
        """Take a right on a collection away."""
        with self.writing() as writing:
            row = find_principal(writing.session, who)
            revoke(writing, _at(writing, path), Grant(row.id, Action(action), Effect.ALLOW))

    def member(self, group: str, who: str, *, joins: bool) -> None:
        """Put somebody into a group, or take them out."""
        with self.writing() as writing:
            found = [find_principal(writing.session, each) for each in (group, who)]
            (add_member if joins else remove_member)(writing, found[0], found[1])

    def canary(self) -> str:
        """Make a word that stands nowhere by chance."""
        return "q" + "".join(self.chance.choice(_SYLLABLES) for _ in range(6))

    def prose(self, n_words: int) -> str:
        """Make some words."""
        return " ".join(self.chance.choice(WORDS) for _ in range(n_words))

    def logged(self) -> str:
        """Give all that the server has written to its log."""
        return self.log.read_text(errors="replace")


@contextmanager
def open_ground(*, hidden: bool = True, **environment: str) -> Iterator[Ground]:
    """Start a server over an empty folder, fill it, and stop it in the end.

    Args: hidden: whether what bo may not read is there; a second ground without it is the other
        world. environment: more settings of the server, OSTIARY_ left out.
    """
    with (
        tempfile.TemporaryDirectory(prefix="ostiary-attacks-") as space,
        recording_engine() as engine,
    ):
        folder = Path(space)
        chosen = {
            "HOME": str(folder / "home"), "RETRIEVAL__ENCODER": "hashed", "REFUSE_BELOW": "-1",
            "EVIDENCE_MARGIN": "2", "EVIDENCE_DEPTH": "4", "GENERATION__BASE_URL": engine.url,
            "GENERATION__KIND": "vllm", "GENERATION__CONTEXT_TOKENS": "8192", **environment,
        }  # fmt: skip
        outside = {name: value for name, value in os.environ.items() if name[:8] != "OSTIARY_"}
        settings = load_settings(
            home=folder / "home", retrieval={"encoder": "hashed"}, operator_token="", secret=""
        )
        database = open_database(settings)
        tenants = {name: create_tenant(database, name) for name in ("acme", "rival")}
        log = folder / "server.log"
        with serving(log, {**outside, **{f"OSTIARY_{n}": v for n, v in chosen.items()}}) as started:
            process, url = started
            ground = Ground(url, engine, settings, database, log, tenants, process)
            try:
                _fill(ground, hidden=hidden)
                engine.fresh()
                yield ground
            finally:
                ground.client.close()
                database.close()


def _at(writing: Writing, path: str) -> Resource:
    if not path:
        return Resource(Level.TENANT)
    return Resource(Level.COLLECTION, find_collection(writing.session, path).id)


def _fill(ground: Ground, *, hidden: bool) -> None:
    with ground.writing() as writing:
        for name in ("inner", "staff"):
            create_principal(writing, Kind.GROUP, name)
        for path in ("open", "drop", *(("closed",) if hidden else ())):
            create_collection(writing, path)
    ground.person("ana", "group:inner", "group:staff")
    for name in ("bo", "mo", "wes"):
        ground.person(name, "group:staff")
    ground.person("zoe", tenant="rival")
    ground.grant("user:mo", "manage", "")
    ground.grant("user:mo", "write", "")
    ground.grant("group:everyone", "read", "open")
    ground.grant("group:inner", "read", "drop")
    for path in ("open", "drop"):
        ground.grant("user:wes", "write", path)
    for number in range(40):
        ground.put("open", f"open-{number}", ground.prose(40))
    if hidden:
        ground.grant("group:inner", "read", "closed")
        ground.canaries = tuple(ground.canary() for _ in range(40))
        for number, canary in enumerate(ground.canaries):
            text = f"{ground.prose(20)} the word for it is {canary} {ground.prose(20)}"
            ground.put("closed", f"closed-{number}", text)
