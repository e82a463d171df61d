"""The generate stage, from deltas to words and citations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from generation.answer import answer
from generation.errors import EngineDown
from generation.scripted import ScriptedEngine
from generation.template import first_block
from generation.types import Citation, Ended, Finish, Sampling, Usage, Words
from tests.generation.prompts import SALT, gather, make_prompt


def answered(engine: ScriptedEngine, hosts: Sequence[str] = ()) -> tuple[str, Ended]:
    items = asyncio.run(gather(answer(engine, make_prompt(), Sampling(), 5.0, hosts)))
    ended = items[-1]
    assert isinstance(ended, Ended)
    return "".join(item.text for item in items if isinstance(item, Words)), ended


def test_valid_marks_stay_with_their_position_and_forged_ones_go() -> None:
    text, ended = answered(ScriptedEngine(["From Ber", "gen [", "1] [7", "]. And [2", "]"]))
    assert text == "From Bergen [1]. And [2]"
    assert ended.citations == (Citation(1, 12, False), Citation(2, 21, False))
    assert all(text[c.position :].startswith(f"[{c.number}]") for c in ended.citations)
    assert ended.finish is Finish.STOP
    assert isinstance(ended.usage, Usage)


def test_an_engine_that_cannot_cite_gets_marks_set_by_us() -> None:
    engine = ScriptedEngine(["The Aurora came from ", "Bergen [2]. ", "Bye."], cites=False)
    text, ended = answered(engine)
    assert text == "The Aurora came from Bergen. [1] Bye."
    assert ended.citations == (Citation(1, 29, True),)


def test_positions_count_what_neutralising_adds() -> None:
    text, ended = answered(ScriptedEngine(["See https://evil.example/x [1](http://e.example)"]))
    assert text == "See https[:]//evil[.]example/x [1] (http[:]//e[.]example)"
    assert text[ended.citations[0].position :].startswith("[1]")


def test_dropping_a_mark_cannot_make_a_link() -> None:
    attacks = [
        "[a][9](//evil.example/x)",
        "ht[9]tps://evil.example/",
        "<[9]img src=//evil.example>",
    ]
    for attack in attacks:
        text, _ = answered(ScriptedEngine(list(attack)))
        assert "](" not in text
        assert "://" not in text
        assert "<img" not in text


def test_listed_hosts_survive() -> None:
    text, _ = answered(ScriptedEngine(["[a](https://ok.example/)"]), ["ok.example"])
    assert text == "[a](https://ok.example/)"


def test_the_secret_block_is_not_delivered() -> None:
    block = first_block(SALT)
    text, _ = answered(ScriptedEngine(["Key: ", block[:9], block[9:], "."]))
    assert text == "Key: …."


def test_words_come_before_the_answer_is_complete() -> None:
    async def work() -> object:
        stream = answer(ScriptedEngine(["One two "] * 3), make_prompt(), Sampling(), 5.0, ())
        first = await anext(stream)
        await stream.aclose()
        return first

    assert asyncio.run(work()) == Words("One ")


@pytest.mark.parametrize(
    "engine",
    [ScriptedEngine(["So"], drops_finish=True), ScriptedEngine(["So", "it"], fail_after=1)],
)
def test_an_engine_that_breaks_off_gives_no_end(engine: ScriptedEngine) -> None:
    with pytest.raises(EngineDown):
        answered(engine)
    assert engine.n_open == 0


def test_every_way_out_closes_the_engine() -> None:
    async def work() -> None:
        engine = ScriptedEngine(["a "] * 50, delay_s=0.001)
        stream = answer(engine, make_prompt(), Sampling(), 5.0, ())
        await anext(stream)
        assert engine.n_open == 1
        await stream.aclose()
        assert (engine.n_open, engine.n_closed) == (0, 1)

        async def read() -> None:
            async for _ in answer(engine, make_prompt(), Sampling(), 5.0, ()):
                pass

        task = asyncio.create_task(read())
        await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (engine.n_open, engine.n_closed) == (0, 2)

    asyncio.run(work())
