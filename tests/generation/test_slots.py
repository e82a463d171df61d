"""Slots and the salts they are pinned to."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from generation.errors import EngineBusy
from generation.slots import SlotBook


def run(work: Coroutine[None, None, None]) -> None:
    asyncio.run(work)


async def use(book: SlotBook, salt: str, text: str) -> int:
    slot = await book.take(salt, text, 0.1)
    book.give_back(slot)
    return slot


def test_the_same_salt_finds_its_slot_again() -> None:
    async def work() -> None:
        book = SlotBook(3)
        first = await use(book, "a", "one two three")
        assert await use(book, "b", "one two three") != first
        assert await use(book, "a", "one two three four") == first

    run(work())


def test_within_a_salt_the_longest_common_prefix_wins() -> None:
    async def work() -> None:
        book = SlotBook(3)
        cats = await use(book, "a", "cats are animals")
        dogs = await use(book, "a", "dogs are animals")
        assert cats != dogs
        assert await use(book, "a", "cats are animals, and so on") == cats
        assert await use(book, "a", "dogs are animals, and so on") == dogs

    run(work())


def test_a_new_salt_takes_the_slot_unused_for_longest() -> None:
    async def work() -> None:
        book = SlotBook(2)
        oldest = await use(book, "a", "x")
        await use(book, "b", "x")
        assert await use(book, "c", "x") == oldest

    run(work())


def test_one_salt_with_many_topics_does_not_push_the_others_out() -> None:
    async def work() -> None:
        book = SlotBook(2)
        mine = await use(book, "a", "alpha")
        theirs = await use(book, "b", "beta")
        for text in ("gamma", "delta", "epsilon"):
            assert await use(book, "b", text) == theirs
        assert await use(book, "a", "alpha") == mine

    run(work())


def test_a_busy_slot_is_not_waited_for_while_another_is_idle() -> None:
    async def work() -> None:
        book = SlotBook(2)
        busy = await book.take("a", "x", 0.1)
        assert await book.take("a", "x", 0.1) != busy

    run(work())


def test_when_all_are_busy_a_request_waits_and_then_is_refused() -> None:
    async def work() -> None:
        book = SlotBook(1)
        slot = await book.take("a", "x", 0.1)
        with pytest.raises(EngineBusy, match="all 1 slots"):
            await book.take("b", "x", 0.01)
        waiting = asyncio.create_task(book.take("b", "x", 5))
        await asyncio.sleep(0)
        book.give_back(slot)
        assert await waiting == slot

    run(work())


def test_a_refused_or_cancelled_wait_costs_no_slot() -> None:
    async def work() -> None:
        book = SlotBook(1)
        slot = await book.take("a", "x", 0.1)
        waiting = asyncio.create_task(book.take("b", "x", 5))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        book.give_back(slot)
        assert await book.take("c", "x", 0.01) == slot

    run(work())


def test_after_a_restart_nothing_is_remembered() -> None:
    async def work() -> None:
        book = SlotBook(2)
        await use(book, "a", "x")
        second = await use(book, "b", "x")
        book.forget()
        assert await use(book, "b", "x") != second

    run(work())
