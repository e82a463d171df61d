"""A whole request: our own share of it, the real stages against their budgets, the first token."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import defaultdict
from contextlib import aclosing
from pathlib import Path

import numpy as np
import yaml

from acl.directory import create_tenant, find_principal
from acl.session import Database
from acl.types import Principal
from benchmarks.report import Row, at_most, write
from generation.scripted import ScriptedEngine
from generation.types import Engine, Words
from pipeline.access import read_sheet
from pipeline.build import (
    House,
    build_encoder,
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
N_ASKS = 200


def run() -> None:
    """Measure and write results/serve.json."""
    rows = _own()
    try:
        rows += _real()
    except ModelMissing as missing:
        rows.append(Row(f"real encoder and engine: left out, {missing}", 0.0, ""))
    write("serve", rows)


def _own() -> list[Row]:
    """Measure all but models and engine: hashed vectors, a scripted answer."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(home=Path(folder), refuse_below=-1.0)
        house, people = _house(settings, HashedEncoder(), ScriptedEngine(["It is so [1]."]))
        rows = []
        own = asyncio.run(_own_times(house, people))
        for (n_clients, limit), times in own.items():
            p50, p95 = (float(np.percentile(times, p)) for p in (50, 95))
            # The bars are those of a later issue; here they say how far it is.
            rows += [
                Row(f"own time of a chat, {n_clients} at once: p50", p50, "ms",
                    f"{limit} ms (later)", p50 / limit),
                Row(f"own time of a chat, {n_clients} at once: p95", p95, "ms"),
            ]  # fmt: skip
    return rows


async def _own_times(house: House, people: list[Principal]) -> dict[tuple[int, int], list[float]]:
    try:
        return {
            (n_clients, limit): await _asked(house, people, n_clients)
            for n_clients, limit in ((1, 3), (16, 6))
        }
    finally:
        await house.close()


async def _asked(house: House, people: list[Principal], n_clients: int) -> list[float]:
    """Ask from so many clients at once; gives what each answer took of its own share."""
    questions = [each["question"] for each in _questions()]
    times: list[float] = []

    async def client(number: int) -> None:
        for turn in range(N_ASKS // n_clients):
            at = number + turn * n_clients
            ask = Ask(people[at % len(people)], questions[at % len(questions)], Deadline.after(60))
            began = time.perf_counter()
            await house.pipeline.answer(await house.pipeline.prepare(ask))
            times.append((time.perf_counter() - began) * 1000 / n_clients)

    await asyncio.gather(*(client(number) for number in range(n_clients)))
    return times


def _real() -> list[Row]:
    """Measure the real encoder and engine on the sample company."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(home=Path(folder))
        engine = build_engine(settings)
        house, people = _house(settings, build_encoder(settings, threads=1), engine)
        by_stage, first_ms = asyncio.run(_timed(house, people))
    rows = []
    for stage in (Stage.ADMIT, Stage.EMBED, Stage.SEARCH, Stage.AUTHORIZE, Stage.RERANK):
        budget = settings.budgets.of(stage)
        p50, p95 = (float(np.percentile(by_stage[stage], p)) for p in (50, 95))
        bar, met = at_most(p95, budget)
        rows.append(Row(f"{stage.value}: p50", p50, "ms"))
        rows.append(Row(f"{stage.value}: p95", p95, "ms", "budget", p95 / budget, bar, met))
    p50 = float(np.median(first_ms))
    bar, met = at_most(p50, settings.budgets.generate_ms)
    rows.append(Row("first token of the embedded engine: p50", p50, "ms", "budget",
                    p50 / settings.budgets.generate_ms, bar, met))  # fmt: skip
    return rows


async def _timed(
    house: House, people: list[Principal]
) -> tuple[dict[Stage, list[float]], list[float]]:
    by_stage: defaultdict[Stage, list[float]] = defaultdict(list)
    first_ms: list[float] = []
    for number in range(N_ASKS):
        question = _questions()[number % len(_questions())]["question"]
        ask = Ask(people[number % len(people)], question, Deadline.after(60))
        prepared = await house.pipeline.prepare(ask)
        for spent in prepared.spent if number >= len(people) else ():  # the first ones warm up
            by_stage[spent.stage].append(spent.spent_ms)
        if prepared.prompt is None or len(first_ms) == 10:
            continue
        began = time.perf_counter()
        async with aclosing(house.pipeline.stream(prepared)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Words):
                    first_ms.append((time.perf_counter() - began) * 1000)
                    break
    await house.close()
    return by_stage, first_ms


def _house(settings: Settings, encoder: Encoder, engine: Engine) -> tuple[House, list[Principal]]:
    database = open_database(settings)
    tenant = create_tenant(database, "calderhythe")
    sheet = read_sheet(COMPANY / "access.yaml")
    items = from_sheet([COMPANY], COMPANY, sheet)
    with build_sandbox(settings) as sandbox:
        flow = Ingest(database, build_maker(settings, encoder, sandbox))
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


def _questions() -> list[dict[str, str]]:
    found: list[dict[str, str]] = yaml.safe_load((COMPANY / "questions.yaml").read_text())
    return found
