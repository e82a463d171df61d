"""Cutting prompts to the engine's context."""

from __future__ import annotations

import asyncio

import pytest

from generation.budget import Fitted, fit
from generation.errors import PromptTooLong
from generation.scripted import ScriptedEngine
from generation.template import messages
from generation.types import Message, Prompt, Role, Sampling
from tests.generation.prompts import gather, make_evidence, make_prompt


def fitted(prompt: Prompt, context_tokens: int, max_tokens: int = 20) -> Fitted:
    engine = ScriptedEngine([], context_tokens=context_tokens)
    return asyncio.run(fit(prompt, engine, Sampling(max_tokens=max_tokens)))


def long_prompt() -> Prompt:
    evidence = make_evidence(*("word " * 50 for _ in range(4)))
    order = (evidence[2], evidence[0], evidence[3], evidence[1])
    turns = [Message(Role.USER, f"turn {i} " * 20) for i in range(3)]
    return make_prompt(evidence=order, history=turns)


def test_what_fits_is_left_as_it_is() -> None:
    prompt = long_prompt()
    found = fitted(prompt, 2000)
    assert found.prompt == prompt
    assert (found.dropped, found.n_history_dropped) == ((), 0)


def test_the_lowest_ranked_evidence_goes_first_and_the_order_stays() -> None:
    found = fitted(long_prompt(), 420)
    assert found.dropped == (4, 3)
    assert [e.number for e in found.prompt.evidence] == [1, 2]
    assert found.n_history_dropped == 0


def test_history_goes_oldest_first_before_the_best_passage_does() -> None:
    found = fitted(long_prompt(), 270)
    assert found.dropped == (4, 3, 2)
    assert found.n_history_dropped > 0
    assert found.prompt.history == long_prompt().history[found.n_history_dropped :]
    assert [e.number for e in found.prompt.evidence] == [1]


def test_the_best_passage_goes_when_nothing_else_is_left() -> None:
    found = fitted(long_prompt(), 155)
    assert found.dropped == (4, 3, 2, 1)
    assert found.n_history_dropped == 3


def test_a_question_that_does_not_fit_alone_is_refused_with_both_numbers() -> None:
    with pytest.raises(PromptTooLong, match=r"about \d+ tokens, the context has room for 80 "):
        fitted(make_prompt("why " * 400), 100)


@pytest.mark.parametrize("n_words", [10, 300, 400, 450, 500, 600])
def test_what_is_fitted_is_taken_by_an_engine_of_that_context(n_words: int) -> None:
    """A field case: prompt and answer together exceed the window, and the engine says 400."""
    engine = ScriptedEngine(["ok"], context_tokens=512)
    prompt = make_prompt("why " * n_words)

    async def ask() -> int:
        found = await fit(prompt, engine, Sampling(max_tokens=40))
        await gather(engine.stream(found.prompt, found.sampling, 1.0))
        laid = messages(found.prompt, block=False, cites=True)
        text = " ".join(m["content"] for m in laid)
        return await engine.count_tokens(text) + found.sampling.max_tokens

    if n_words <= 400:
        assert asyncio.run(ask()) <= 512
    else:
        with pytest.raises(PromptTooLong):
            asyncio.run(ask())


def test_an_answer_may_take_half_of_the_context_at_most() -> None:
    found = fitted(make_prompt(), 1000, max_tokens=100_000)
    assert found.sampling.max_tokens == 500
    assert found.prompt_tokens <= 500
