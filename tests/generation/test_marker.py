"""The secret block never leaves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from generation.marker import Marker
from generation.template import first_block
from tests.generation.prompts import cuts

BLOCK = first_block("salt")


def passed(text: str, sizes: list[int]) -> str:
    marker = Marker(BLOCK)
    return "".join(marker.feed(piece) for piece in cuts(text, sizes)) + marker.flush()


def test_an_echo_is_dropped_whole_in_part_and_in_capitals() -> None:
    for echo in (BLOCK, BLOCK[3:15], BLOCK[:8], BLOCK[-9:], BLOCK.upper()):
        assert passed(f"It is {echo}, yes.", [3]) == "It is …, yes."
        assert passed(f"It is {echo}", [1]) == "It is …"


def test_ordinary_text_passes_unchanged() -> None:
    text = "The level is 3.5 m. " + BLOCK[:7] + " " + BLOCK[2:5] * 4
    assert passed(text, [2, 5]) == text


def test_without_a_block_nothing_is_held() -> None:
    assert Marker("").feed(BLOCK) == BLOCK


PARTS = st.lists(st.sampled_from([BLOCK, BLOCK[:9], BLOCK[5:], BLOCK[:4], BLOCK[3], " ", "word"]))


@given(PARTS.map("".join), st.lists(st.integers(1, 30), min_size=1))
def test_cutting_changes_nothing_and_no_long_piece_of_the_block_remains(
    text: str, sizes: list[int]
) -> None:
    given_text = passed(text, sizes)
    assert given_text == passed(text, [len(text) + 1])
    assert passed(given_text, [1]) == given_text


@given(
    st.text("abcdefgxyz237 .,é", max_size=120),
    st.lists(st.integers(1, 9), min_size=1),
    st.text("abcdefgxyz237", min_size=26, max_size=26),
)
def test_where_an_answer_is_cut_tells_nothing_of_the_block(
    text: str, sizes: list[int], other: str
) -> None:
    def pieces(block: str) -> list[str]:
        marker = Marker(block)
        return [marker.feed(piece) for piece in cuts(text, sizes)]

    assert pieces(BLOCK) == pieces(other) or "…" in "".join(pieces(BLOCK) + pieces(other))
