"""Citations set by us: each sentence gets the passage whose words it has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.attribute import Attributor
from generation.cite import Mark
from generation.types import Evidence
from tests.generation.prompts import HARBOUR, TURBINE, cuts, make_evidence
from tests.generation.test_cite import shown

EVIDENCE = (
    *make_evidence(HARBOUR, TURBINE, "Dr. Ingrid Dahl runs the harbour. It costs 3.5 million."),
    Evidence(4, "日本", "東京は日本の首都です。京都は古い都です。"),
)


def passed(text: str, sizes: list[int] | None = None) -> str:
    attributor = Attributor(EVIDENCE)
    pieces = cuts(text, sizes or [len(text) + 1])
    segments = [segment for piece in pieces for segment in attributor.feed(piece)]
    return shown(segments + attributor.flush())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Aurora came from Bergen.", "The Aurora came from Bergen. <1>"),
        (
            "The vessel arrived. Blades are of carbon fibre! Then what?",
            "The vessel arrived. <1> Blades are of carbon fibre! <2> Then what?",
        ),
        ("Dr. Dahl runs the harbour, e.g. today", "Dr. Dahl runs the harbour, e.g. today <3>"),
        ("It costs 3.5 million.", "It costs 3.5 million. <3>"),
        ("The harbour costs 9 million.", "The harbour costs 9 million."),
        ("Aurora brought 999 containers.", "Aurora brought 999 containers."),
        ("Purple elephants sing loudly.", "Purple elephants sing loudly."),
        ('"Carbon fibre." So', '"Carbon fibre." <2> So'),
        (
            "1. Carbon fibre blades\n2. The vessel Aurora\n",
            "1. Carbon fibre blades <2>\n2. The vessel Aurora <1>\n",
        ),
        ("The blades:\n- carbon fibre\n", "The blades:\n- carbon fibre <2>\n"),
        ("# Carbon fibre\n| carbon | fibre |\n", "# Carbon fibre\n| carbon | fibre |\n"),
        (
            "東京は日本の首都です。京都は古い都です。",
            "東京は日本の首都です。 <4>京都は古い都です。 <4>",
        ),
        ("```\ncarbon fibre. \n```\n", "```\ncarbon fibre. \n```\n"),
        ("The Aurora came from Bergen [2].", "The Aurora came from Bergen. <1>"),
        ("", ""),
    ],
)
def test_sentences_end_where_they_end_and_get_their_passage(text: str, expected: str) -> None:
    assert passed(text) == expected
    assert passed(text, [1]) == expected


def test_ties_go_to_the_lower_number_whatever_the_order() -> None:
    twins = make_evidence(HARBOUR, HARBOUR)
    attributor = Attributor(tuple(reversed(twins)))
    assert Mark(1, attributed=True) in attributor.feed("The Aurora came from Bergen. So")


def test_text_streams_on_without_waiting_for_its_sentence() -> None:
    assert shown(Attributor(EVIDENCE).feed("The vessel Auro")) == "The vessel Auro"


PARTS = st.sampled_from(
    (
        "The vessel Aurora",
        "carbon fibre",
        ".",
        "。",
        "?",
        "!",
        " ",
        "\n",
        "`",
        "```",
        "[1]",
        "3.5",
        ")",
        "1.",
        "-",
        "e.g.",
        ":",
        "#",
        "|",
        "東京",
    )
)


@given(st.lists(PARTS, max_size=30).map("".join), st.lists(st.integers(1, 9), min_size=1))
def test_cutting_changes_nothing(text: str, sizes: list[int]) -> None:
    assert passed(text, sizes) == passed(text)
