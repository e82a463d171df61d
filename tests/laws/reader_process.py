"""A server process of its own over a shared database, asked again and again as one person.

Started by test_processes: reads commands from its standard input, answers a line each.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from pathlib import Path

import httpx

from acl.directory import find_collection, find_principal
from acl.grants import give, revoke
from acl.session import Database, Writing
from acl.types import Action, Effect, Grant, Level, Resource
from api.app import create_app
from generation.scripted import ScriptedEngine
from pipeline.build import House, build_house
from pipeline.settings import Settings
from retrieval.hashed import HashedEncoder
from tests.laws.changes import SECRET_WORD


def main() -> None:
    """Serve commands until the input ends: revoke, give, count, report."""
    url, folder, secret, key, tenant = sys.argv[1:]
    house = build_house(
        Settings.model_validate(
            {"home": Path(folder), "secret": secret, "operator_token": "x", "timeout_s": 60}
        ),
        database=Database(url),
        encoder=HashedEncoder(),
        engine=ScriptedEngine(["Yes [1]."]),
    )
    asker = _Asker(house, key)
    thread = threading.Thread(target=asker.run, daemon=True)
    thread.start()
    _say("ready")
    for line in sys.stdin:
        command = line.strip()
        if command in {"revoke", "give"}:
            began = time.monotonic_ns()
            with house.database.writing(tenant) as writing:
                _change(writing, command)
            _say(json.dumps({"began": began, "acknowledged": time.monotonic_ns()}))
        elif command == "count":
            _say(str(len(asker.asked)))
        elif command == "report":
            asker.stop.set()
            thread.join()
            _say(json.dumps({"asked": asker.asked, "failed": asker.failed}))
    asyncio.run(house.close())


class _Asker:
    """Asks one question after the other; notes begin, end, and whether it saw the secret."""

    def __init__(self, house: House, key: str) -> None:
        self._app = create_app(house)
        self._key = key
        self.asked: list[tuple[int, int, bool]] = []
        self.failed: list[str] = []
        self.stop = threading.Event()

    def run(self) -> None:
        """Ask until told to stop."""
        asyncio.run(self._ask())

    async def _ask(self) -> None:
        transport = httpx.ASGITransport(self._app)
        headers = {"Authorization": f"Bearer {self._key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            while not self.stop.is_set():
                began = time.monotonic_ns()
                reply = await client.post(
                    "/v1/search", json={"query": "heron code"}, headers=headers
                )
                if reply.status_code == 200:
                    ended = time.monotonic_ns()
                    self.asked.append((began, ended, SECRET_WORD in reply.text))
                else:
                    self.failed.append(f"{reply.status_code} {reply.text}")


def _change(writing: Writing, command: str) -> None:
    closed = Resource(Level.COLLECTION, find_collection(writing.session, "closed").id)
    inner = find_principal(writing.session, "group:inner")
    grant = Grant(inner.id, Action.READ, Effect.ALLOW)
    if command == "revoke":
        assert revoke(writing, closed, grant)
    else:
        assert give(writing, closed, grant)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
