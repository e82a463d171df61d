"""Where an answer ends when the model does not see it: small ones go on, or round in circles."""

from __future__ import annotations

import re

_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
# Short ones ("Yes.", "See below.", an abbreviation) come again without harm.
_MIN_CHARS = 16


class Ending:
    """Watches an answer for a sentence said twice, or one more than were asked for.

    max_sentences: 0 sets no limit. Work is linear in the answer: each sentence is looked at
    once.
    """

    def __init__(self, max_sentences: int = 0) -> None:
        self._max_sentences = max_sentences
        self._said: set[str] = set()
        self._open = ""

    def reached(self, text: str) -> bool:
        """Take in the next text; True if the answer should have ended before it."""
        *whole, self._open = _END.split(self._open + text)
        for sentence in whole:
            known = " ".join(sentence.split()).casefold()
            if len(known) < _MIN_CHARS:
                continue
            if known in self._said:
                return True
            self._said.add(known)
        full = 0 < self._max_sentences <= len(self._said)
        return full and bool(self._open.strip())
