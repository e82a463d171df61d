"""Notices when a model goes round in circles, as small ones do."""

from __future__ import annotations

import re

_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
# Short ones ("Yes.", "See below.") come again without harm.
_MIN_CHARS = 16


class Loop:
    """Watches an answer for a sentence that has been said before.

    Work is linear in the answer: each sentence is looked at once.
    """

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._open = ""

    def caught(self, text: str) -> bool:
        """Take in more of the answer; True once a whole sentence of it came a second time."""
        *whole, self._open = _END.split(self._open + text)
        for sentence in whole:
            known = " ".join(sentence.split()).casefold()
            if len(known) < _MIN_CHARS:
                continue
            if known in self._said:
                return True
            self._said.add(known)
        return False
