"""Where code begins and ends."""

from __future__ import annotations

import pytest

from generation.code import CodeSense


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ("a `b` c", "a  c"),
        ("a `b\nc", "a \nc"),
        ("a\n```py\nb\n```\nc", "a\nc"),
        ("a\n  ~~~\nb ```\n```\n~~~~\nc", "a\n  ~~c"),
        ("```\nb\n``` x\nb", ""),
        ("no code at all\n", "no code at all\n"),
    ],
)
def test_prose_is_what_is_not_code(text: str, prose: str) -> None:
    sense = CodeSense()
    found = "".join(char for char in text if not sense.feed(char))
    assert found == prose
