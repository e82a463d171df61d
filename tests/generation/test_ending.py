"""Where an answer ends."""

from __future__ import annotations

import pytest

from generation.ending import Ending


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_a_sentence_said_twice_ends_an_answer_however_it_is_cut(size: int) -> None:
    text = "You have 29 days of leave. You have 29 days of leave. You have"
    ending = Ending()

    assert any(ending.reached(text[at : at + size]) for at in range(0, len(text), size))


def test_a_list_of_different_lines_goes_on() -> None:
    ending = Ending()

    assert not any(ending.reached(f"Item {n} of the list is number {n}.\n") for n in range(200))


def test_short_sentences_may_come_again() -> None:
    assert not Ending().reached("Yes. Yes. Yes. It does. It does. ")


def test_a_limit_ends_the_answer_when_one_sentence_more_begins() -> None:
    ending = Ending(max_sentences=2)

    assert not ending.reached("The first sentence is here. The second one is, too.")
    assert not ending.reached(" ")
    assert ending.reached("And")
