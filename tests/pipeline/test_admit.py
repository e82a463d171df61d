"""The gate: each tenant gets its share of the places, whatever another sends."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from pipeline.admit import Gate
from pipeline.errors import Overloaded
from pipeline.types import Deadline


class Crowd:
    """Visitors of a gate, who stay until they are sent out; `order` is how they came in."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.order: list[str] = []
        self.shed: list[str] = []
        self._leave = asyncio.Semaphore(0)

    async def visit(self, tenant: str, timeout_s: float = 10.0) -> None:
        try:
            async with self.gate.admitted(tenant, Deadline.after(timeout_s)):
                self.order.append(tenant)
                await self._leave.acquire()
        except Overloaded:
            self.shed.append(tenant)

    async def come(self, *tenants: str) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self.visit(tenant)) for tenant in tenants]
        await asyncio.sleep(0)
        return tasks

    async def send_out(self, n_visitors: int = 1) -> None:
        for _ in range(n_visitors):
            self._leave.release()
            for _turn in range(5):
                await asyncio.sleep(0)


def test_a_place_goes_to_the_tenant_with_the_fewest_inside() -> None:
    async def play() -> list[str]:
        crowd = Crowd(Gate(max_running=2, max_waiting=10))
        tasks = await crowd.come("loud", "loud", "loud", "loud", "loud", "quiet", "calm")
        await crowd.send_out(7)
        await asyncio.gather(*tasks)
        return crowd.order

    assert asyncio.run(play()) == ["loud", "loud", "quiet", "calm", "loud", "loud", "loud"]


def test_a_full_line_sheds_the_last_of_the_tenant_that_fills_it() -> None:
    async def play() -> Crowd:
        crowd = Crowd(Gate(max_running=1, max_waiting=4))
        tasks = await crowd.come("loud", "loud", "loud", "loud", "loud", "quiet", "quiet", "quiet")
        await crowd.send_out(8)
        await asyncio.gather(*tasks)
        return crowd

    crowd = asyncio.run(play())

    assert sorted(crowd.shed) == ["loud", "loud", "quiet"], "two of four places each"
    assert crowd.order.count("quiet") == 2


def test_a_tenant_alone_has_every_place() -> None:
    async def play() -> Crowd:
        crowd = Crowd(Gate(max_running=3, max_waiting=5))
        tasks = await crowd.come(*["one"] * 9)
        await crowd.send_out(9)
        await asyncio.gather(*tasks)
        return crowd

    crowd = asyncio.run(play())

    assert (len(crowd.order), len(crowd.shed)) == (8, 1)


@pytest.mark.parametrize("n_gone", [1, 2, 3])
def test_who_gives_up_in_line_leaves_no_hole_and_takes_no_place(n_gone: int) -> None:
    async def play() -> list[str]:
        crowd = Crowd(Gate(max_running=1, max_waiting=10))
        first = await crowd.come("a")
        waiting = await crowd.come("b", "b", "b", "c")
        for task in waiting[:n_gone]:
            task.cancel()
        # The place comes free in the very moment in which they go.
        await crowd.send_out(1)
        await crowd.send_out(4)
        for task in (*first, *waiting):
            with suppress(asyncio.CancelledError):
                await task
        async with crowd.gate.admitted("d", Deadline.after(1)):
            crowd.order.append("d")
        return crowd.order

    assert sorted(asyncio.run(play())) == sorted(["a", *["b"] * (3 - n_gone), "c", "d"])


def test_a_turn_that_comes_as_its_visitor_goes_is_passed_on() -> None:
    async def play() -> list[str]:
        crowd = Crowd(Gate(max_running=1, max_waiting=10))
        (first,) = await crowd.come("a")
        (second,) = await crowd.come("b")
        (third,) = await crowd.come("c")
        first.cancel()  # leaves, and so calls the second
        await asyncio.sleep(0)
        second.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert crowd.order == ["a", "c"]
        await crowd.send_out(1)
        await third
        return crowd.order

    assert asyncio.run(play()) == ["a", "c"]


def test_a_deadline_in_line_is_an_overload() -> None:
    async def play() -> Crowd:
        crowd = Crowd(Gate(max_running=1, max_waiting=10))
        tasks = await crowd.come("a")
        await crowd.visit("b", timeout_s=0.02)
        await crowd.send_out(1)
        await asyncio.gather(*tasks)
        return crowd

    assert asyncio.run(play()).shed == ["b"]
