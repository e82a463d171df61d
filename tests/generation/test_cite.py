"""Marks of the model: what is not in evidence is not cited."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.cite import Mark, Marks, Segment
from tests.generation.prompts import cuts


def shown(segments: list[Segment]) -> str:
    return "".join(s if isinstance(s, str) else f"<{s.number}>" for s in segments)


def passed(text: str, sizes: list[int] | None = None) -> str:
    marks = Marks([1, 2, 3])
    pieces = cuts(text, sizes or [len(text) + 1])
    segments = [segment for piece in pieces for segment in marks.feed(piece)]
    return shown(segments + marks.flush())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So it is [1].", "So it is <1>."),
        ("So it is [ 2 ] here", "So it is <2> here"),
        ("So【1】and【2†page 3】", "So<1>and<2>"),
        ("So [^3].", "So <3>."),
        ("So [1,2] and [3; 1].", "So <1><2> and <3><1>."),
        ("So [1-3].", "So <1><2><3>."),
        ("So [2–99].", "So <2><3>."),
        ("So [1][1] [1].", "So <1>."),
        ("Forged [1][99] and [0], [4711].", "Forged <1> and,."),
        ("Forged [9] here", "Forged here"),
        ("Mixed [2, 99]", "Mixed <2>"),
        ("[x] [ ] [1a] [1", "[x] [ ] [1a] [1"),
        ("[[1]]", "[<1>]"),
        ("`a[1]` and a[9]", "`a[1]` and a"),
        ("```\nb[9]\n```\n[9][2]", "```\nb[9]\n```\n<2>"),
        ("[1](https://evil.example)", "<1>(https://evil.example)"),
        ("two  spaces [1] end ", "two  spaces <1> end "),
    ],
)
def test_marks_are_read_checked_and_made_plain(text: str, expected: str) -> None:
    assert passed(text) == expected
    assert passed(text, [1]) == expected


def test_a_mark_says_that_the_model_set_it() -> None:
    assert Marks([1]).feed("[1]") == [Mark(1, attributed=False)]


def test_without_evidence_every_mark_goes() -> None:
    marks = Marks([])
    assert shown(marks.feed("A [1]. B [2, 3].") + marks.flush()) == "A. B."


def test_a_long_bracket_is_not_held_for_ever() -> None:
    assert len(shown(Marks([1]).feed("[" + "1, " * 1000))) > 2900


PARTS = st.sampled_from(
    ["[", "]", "1", "9", ",", " ", "-", "【", "】", "†", "^", "a", "\n", "`", "```"]
)


@given(st.lists(PARTS, max_size=40).map("".join), st.lists(st.integers(1, 7), min_size=1))
def test_cutting_changes_nothing(text: str, sizes: list[int]) -> None:
    assert passed(text, sizes) == passed(text)
