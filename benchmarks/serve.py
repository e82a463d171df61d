"""A whole request: our own share of it, the real stages against their budgets, the first token."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable
from contextlib import aclosing
from functools import cache
from pathlib import Path

import httpx
import yaml

from acl.directory import create_tenant, find_principal
from acl.keys import create_key
from acl.session import Database
from acl.types import Principal
from api.app import create_app
from api.wire import MODEL
from benchmarks.report import Report, Row, percentile, within
from generation.scripted import ScriptedEngine
from generation.types import Engine, Words
from pipeline.access import read_sheet
from pipeline.build import (
    House,
    build_encoder,
    build_encoders,
    build_engine,
    build_house,
    build_maker,
    build_sandbox,
)
from pipeline.ingest import Ingest
from pipeline.migrate import open_database
from pipeline.settings import Settings, load_settings
from pipeline.sources import from_sheet
from pipeline.types import Ask, Deadline, Stage
from retrieval.encode import Encoder
from retrieval.errors import ModelMissing
from retrieval.hashed import HashedEncoder

COMPANY = Path(__file__).parents[1] / "examples/company"
N_ASKS, N_WARM_UP, N_ANSWERS = 320, 16, 10
CLIENTS = (1, 16)
STAGES = (Stage.ADMIT, Stage.EMBED, Stage.SEARCH, Stage.AUTHORIZE, Stage.RERANK)
_ANSWER = "It is so"


def run() -> None:
    """Measure and write results/serve.json; what needs a model that is not there is left out."""
    report = Report.begin("serve")
    rows = _own()
    left_out = []
    try:
        encoder = build_encoder(load_settings().retrieval.encoder, threads=1)
    except ModelMissing as missing:
        left_out.append(f"stages with the real encoder, first token: {missing}")
    else:
        try:
            engine: Engine | None = build_engine(load_settings())
        except ModelMissing as missing:
            engine = None
            left_out.append(f"first token of the embedded engine: {missing}")
        rows += _real(encoder, engine)
    report.write(rows, left_out)


def _own() -> list[Row]:
    """Measure all but models and engine: hashed vectors, a scripted answer, over the ASGI app."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(home=Path(folder), refuse_below=-1.0)
        engine = ScriptedEngine([f"{_ANSWER} [1]."])
        house, people = _house(settings, HashedEncoder(), engine)
        keys = _keys(house, people)
        return asyncio.run(_own_rows(house, keys))


async def _own_rows(house: House, keys: list[str]) -> list[Row]:
    rows = []
    transport = httpx.ASGITransport(create_app(house))
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            floor = [await _timed_ms(client.get("/healthz")) for _ in range(N_WARM_UP + 100)]
            await _chats(client, keys, 1, N_WARM_UP)
            for n_clients in CLIENTS:
                began = time.perf_counter()
                times = await _chats(client, keys, n_clients, N_ASKS)
                rate = N_ASKS / (time.perf_counter() - began)
                named = f"chat without models, {n_clients} at once"
                rows += [
                    Row(f"{named}: p50", percentile(times, 50), "ms"),
                    Row(f"{named}: p95", percentile(times, 95), "ms"),
                    Row(f"{named}: answered", rate, "chats/s"),
                ]
    finally:
        await house.close()
    health = Row("GET /healthz, the client's own share: p50", percentile(floor[N_WARM_UP:], 50),
                 "ms")  # fmt: skip
    return [health, *rows]


async def _chats(
    client: httpx.AsyncClient, keys: list[str], n_clients: int, n_asks: int
) -> list[float]:
    """Ask from so many clients at once; gives how long each waited for its answer, in ms."""
    questions = _questions()
    times_ms: list[float] = []

    async def one(number: int) -> None:
        for at in range(number, n_asks, n_clients):
            began = time.perf_counter()
            answered = await client.post(
                "/v1/chat/completions",
                json={
                    "model": MODEL,
                    "messages": [{"role": "user", "content": questions[at % len(questions)]}],
                },
                headers={"Authorization": f"Bearer {keys[at % len(keys)]}"},
            )
            times_ms.append((time.perf_counter() - began) * 1000)
            if answered.status_code != 200 or _ANSWER not in answered.text:
                raise RuntimeError(f"a chat ended with {answered.status_code}, or without evidence")

    await asyncio.gather(*(one(number) for number in range(n_clients)))
    return times_ms


def _real(encoder: Encoder, engine: Engine | None) -> list[Row]:
    """Measure the real encoder and engine on the sample company."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(home=Path(folder))
        house, people = _house(settings, encoder, engine or ScriptedEngine([_ANSWER]))
        by_stage, first_ms = asyncio.run(_asked(house, people, engine is not None))
    rows = []
    for stage in STAGES:
        rows += [
            Row(f"{stage.value}: p50", percentile(by_stage[stage], 50), "ms"),
            within(f"{stage.value}: p95", percentile(by_stage[stage], 95), "ms",
                   settings.budgets.of(stage)),
        ]  # fmt: skip
    if first_ms:
        rows.append(within("first token of the embedded engine: p50", percentile(first_ms, 50),
                           "ms", settings.budgets.generate_ms))  # fmt: skip
    return rows


async def _asked(
    house: House, people: list[Principal], with_answers: bool
) -> tuple[dict[Stage, list[float]], list[float]]:
    """Prepare all questions with nothing else at work, then wait for the first words of some."""
    by_stage: defaultdict[Stage, list[float]] = defaultdict(list)
    first_ms: list[float] = []
    try:
        for number in range(N_WARM_UP + N_ASKS):
            prepared = await house.pipeline.prepare(_ask(people, number))
            for spent in prepared.spent if number >= N_WARM_UP else ():
                by_stage[spent.stage].append(spent.spent_ms)
        number = 0
        while with_answers and len(first_ms) < N_ANSWERS:
            prepared = await house.pipeline.prepare(_ask(people, number))
            number += 1
            if prepared.prompt is None:  # refused without asking the engine
                continue
            began = time.perf_counter()
            async with aclosing(house.pipeline.stream(prepared)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Words):
                        first_ms.append((time.perf_counter() - began) * 1000)
                        break
    finally:
        await house.close()
    return by_stage, first_ms


async def _timed_ms(request: Awaitable[httpx.Response]) -> float:
    began = time.perf_counter()
    (await request).raise_for_status()
    return (time.perf_counter() - began) * 1000


def _ask(people: list[Principal], number: int) -> Ask:
    questions = _questions()
    return Ask(people[number % len(people)], questions[number % len(questions)], Deadline.after(60))


def _keys(house: House, people: list[Principal]) -> list[str]:
    secret = house.settings.secret_bytes()
    with house.database.writing(people[0].tenant) as writing:
        rows = [find_principal(writing.session, each.name) for each in people]
        return [create_key(writing, row, secret) for row in rows]


def _house(settings: Settings, encoder: Encoder, engine: Engine) -> tuple[House, list[Principal]]:
    database = open_database(settings)
    tenant = create_tenant(database, "calderhythe")
    sheet = read_sheet(COMPANY / "access.yaml")
    items = from_sheet([COMPANY], COMPANY, sheet)
    with build_sandbox(settings) as sandbox:
        encoders = build_encoders(database, 1, encoder)
        flow = Ingest(database, build_maker(settings, encoder, sandbox, encoders))
        flow.prepare(tenant, items, sheet)
        for _ in flow.run(tenant, items):
            pass
    house = build_house(settings, database=database, encoder=encoder, engine=engine)
    return house, _people(database, tenant, list(sheet.users))


def _people(database: Database, tenant: str, names: list[str]) -> list[Principal]:
    with database.reading(tenant) as session:
        return [
            Principal(tenant, find_principal(session, f"user:{name}").id, f"user:{name}")
            for name in names
        ]


@cache
def _questions() -> tuple[str, ...]:
    listed = yaml.safe_load((COMPANY / "questions.yaml").read_text())
    return tuple(each["question"] for each in listed)
