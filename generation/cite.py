"""The marks a model sets itself: [n] of evidence stay, all others are dropped."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from generation.code import CodeSense


@dataclass(frozen=True, slots=True)
class Mark:
    """A citation between stretches of text; `attributed` says that we set it."""

    number: int
    attributed: bool


Segment = str | Mark

_INSIDE = frozenset("0123456789 ,;^–-")
_LONGEST = 48
_OPEN = frozenset("[【")
_CLOSE = frozenset("]】")
_LIST = re.compile(r"\^?\d{1,9}(?:[,;]\^?\d{1,9})*(?:†.*)?")
_RANGE = re.compile(r"(\d{1,9})[–-](\d{1,9})")
_DIGITS = re.compile(r"\d+")


class Marks:
    """Finds marks in a stream: [1], [ 1 ], [^1], [1, 2], [1-3], 【1】, 【1†page】.

    Numbers outside `valid` vanish, with the spaces before the mark if nothing is left of
    it. Code is passed through as it is. What is given does not depend on how the text is
    cut into pieces.
    """

    def __init__(self, valid: Collection[int]) -> None:
        self._valid = frozenset(valid)
        self._code = CodeSense()
        self._spaces = ""
        self._mark = ""
        self._last: int | None = None
        self._out: list[Segment] = []

    def feed(self, text: str) -> list[Segment]:
        """Give the segments that are decided; the start of a possible mark is held."""
        for char in text:
            self._step(char, self._code.feed(char))
        return self._take()

    def flush(self) -> list[Segment]:
        """Give what was held, now that nothing follows."""
        self._release()
        return self._take()

    def _step(self, char: str, in_code: bool) -> None:
        if self._mark and not in_code:
            if char in _CLOSE:
                self._decide(char)
                return
            note = "†" in self._mark or char == "†"
            if (char in _INSIDE or (note and char not in "\n[【")) and len(self._mark) < _LONGEST:
                self._mark += char
                return
        if self._mark:
            self._release()
        if char == " " and not in_code:
            self._spaces += char
        elif char in _OPEN and not in_code:
            self._mark = char
        else:
            self._emit(self._spaces + char)
            self._spaces = ""

    def _decide(self, close: str) -> None:
        body = self._mark[1:].replace(" ", "")
        span = _RANGE.fullmatch(body)
        if span:
            low, high = int(span[1]), int(span[2])
            numbers = sorted(n for n in self._valid if low <= n <= high)
        elif _LIST.fullmatch(body):
            named = (int(n) for n in _DIGITS.findall(body.partition("†")[0]))
            numbers = [n for n in dict.fromkeys(named) if n in self._valid]
        else:
            self._mark += close
            self._release()
            return
        new = [n for n in numbers if n != self._last]
        if new:
            self._emit(self._spaces)
            self._out += [Mark(n, attributed=False) for n in new]
            self._last = new[-1]
        self._spaces, self._mark = "", ""

    def _release(self) -> None:
        self._emit(self._spaces + self._mark)
        self._spaces, self._mark = "", ""

    def _emit(self, text: str) -> None:
        if text:
            self._out.append(text)
            self._last = None

    def _take(self) -> list[Segment]:
        given = joined(self._out)
        self._out = []
        return given


def joined(segments: list[Segment]) -> list[Segment]:
    """Join neighbouring texts."""
    given: list[Segment] = []
    run: list[str] = []
    for segment in segments:
        if isinstance(segment, str):
            run.append(segment)
            continue
        if run:
            given.append("".join(run))
            run = []
        given.append(segment)
    if run:
        given.append("".join(run))
    return given
