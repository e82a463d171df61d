"""Circles in an answer."""

from __future__ import annotations

from generation.loop import Loop


def test_a_sentence_said_twice_is_a_circle_however_it_is_cut() -> None:
    text = "You have 29 days of leave. You have 29 days of leave. You have"
    for size in (1, 3, 7, 100):
        loop = Loop()
        caught = [loop.caught(text[at : at + size]) for at in range(0, len(text), size)]

        assert any(caught), size


def test_a_list_of_different_lines_is_no_circle() -> None:
    loop = Loop()

    assert not any(loop.caught(f"Item {n} of the list is number {n}.\n") for n in range(200))


def test_short_sentences_may_come_again() -> None:
    loop = Loop()

    assert not loop.caught("Yes. Yes. Yes. It does. It does. ")
