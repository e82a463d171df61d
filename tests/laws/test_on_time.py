"""Law 7, thin: one deadline, stages timed against budgets, a bounded line that sheds early."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from generation.scripted import ScriptedEngine
from pipeline.admit import Gate
from pipeline.errors import Overloaded
from pipeline.serve import Pipeline
from pipeline.types import Ask, Deadline, Stage
from retrieval.errors import RerankFailed
from retrieval.rerank import Reranker
from retrieval.types import Candidate, Query
from tests.api.houses import ANSWER, Home, open_home


def _ask(home: Home, timeout_s: float) -> Ask:
    return Ask(home.principal("bo"), "gate", Deadline.after(timeout_s), depth=5)


def test_every_stage_is_told_with_its_budget_and_time(tmp_path: Path) -> None:
    with open_home(tmp_path) as home:
        home.document("open", "Gate", "The gate opens at nine.")
        reply = home.ask("bo", "POST", "/v1/search", json={"query": "gate"}).json()

    budgets = {each["name"]: each["budget_ms"] for each in reply["stages"]}
    assert budgets == {"admit": 10, "embed": 60, "search": 60, "authorize": 20, "rerank": 400}
    assert all(each["spent_ms"] >= 0 for each in reply["stages"])
    assert "fusion" in reply["stages"][-1]["cut"]


def test_a_passed_deadline_is_a_timeout_and_not_a_late_answer(tmp_path: Path) -> None:
    engine = ScriptedEngine(["word "] * 50, delay_s=0.05)
    with open_home(tmp_path, engine, timeout_s=0.4, refuse_below=-1.0) as home:
        home.document("open", "Gate", "The gate opens at nine.")
        chat = {"model": "ostiary", "messages": [{"role": "user", "content": "gate"}]}
        began_s = time.monotonic()
        reply = home.ask("bo", "POST", "/v1/chat/completions", json=chat)

    assert reply.status_code == 504
    assert time.monotonic() - began_s < 2.0


class Late:
    """A reranker that counts, and fails if it is told to."""

    kind = "late"

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.n_calls = fails, 0

    def rerank(self, query: Query, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        self.n_calls += 1
        if self.fails:
            raise RerankFailed("it does not answer")
        return tuple(reversed(candidates))


def _with(pipeline: Pipeline, reranker: Reranker) -> Pipeline:
    return replace(pipeline, stages=replace(pipeline.stages, reranker=reranker))


@pytest.mark.parametrize(
    ("fails", "timeout_s", "said", "n_calls"),
    [
        (False, 20.0, "", 1),
        (True, 20.0, "the reranker failed: the order of fusion stands", 1),
        (False, 0.3, "no time was left: the order of fusion stands", 0),
    ],
)
def test_reranking_is_left_out_before_time_runs_out_and_that_is_said(
    tmp_path: Path, fails: bool, timeout_s: float, said: str, n_calls: int
) -> None:
    reranker = Late(fails)
    with open_home(tmp_path) as home:
        for number in range(5):
            home.document("open", f"Gate {number}", f"gate number {number}")
        home.ask("bo", "POST", "/v1/search", json={"query": "gate"})
        pipeline = _with(home.house.pipeline, reranker)
        plain = asyncio.run(home.house.pipeline.search(_ask(home, 20.0)))
        ranked = asyncio.run(pipeline.search(_ask(home, timeout_s)))

    cut = next(each.cut for each in ranked.spent if each.stage is Stage.RERANK)
    order = [each.passage.id for each in ranked.ranking]
    usual = [each.passage.id for each in plain.ranking]
    assert cut == said
    assert reranker.n_calls == n_calls
    assert order == (usual if said else list(reversed(usual)))


def test_a_full_line_sheds_at_once_and_says_when_to_come_back() -> None:
    async def crowd() -> list[object]:
        gate, leave = Gate(max_running=1, max_waiting=2), asyncio.Event()

        async def visit(timeout_s: float) -> str:
            async with gate.admitted("acme", Deadline.after(timeout_s)):
                await leave.wait()
            return "served"

        inside = asyncio.create_task(visit(5.0))
        await asyncio.sleep(0)
        in_line = [asyncio.create_task(visit(5.0)), asyncio.create_task(visit(0.05))]
        await asyncio.sleep(0)
        began_s = time.monotonic()
        with pytest.raises(Overloaded) as shed:
            await visit(5.0)
        assert time.monotonic() - began_s < 0.05
        assert shed.value.retry_after_s >= 1
        await asyncio.sleep(0.1)
        leave.set()
        return list(await asyncio.gather(inside, *in_line, return_exceptions=True))

    first, second, late = asyncio.run(crowd())

    assert (first, second) == ("served", "served")
    assert isinstance(late, Overloaded)


def test_overload_is_a_503_with_a_date_to_come_back(tmp_path: Path) -> None:
    async def flood(home: Home) -> list[httpx.Response]:
        transport = httpx.ASGITransport(home.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            asks = [
                client.post("/v1/search", json={"query": "gate"}, headers=home.headers("bo"))
                for _ in range(30)
            ]
            return list(await asyncio.gather(*asks))

    with open_home(tmp_path, ScriptedEngine(ANSWER), max_running=1, max_waiting=1) as home:
        home.document("open", "Gate", "The gate opens at nine.")
        replies = asyncio.run(flood(home))

    shed = [each for each in replies if each.status_code == 503]
    assert {each.status_code for each in replies} == {200, 503}
    assert all(int(each.headers["Retry-After"]) >= 1 for each in shed)
    assert all(each.json()["error"]["code"] == "overloaded" for each in shed)
