"""Keeps the secret first block out of answers."""

from __future__ import annotations

# Eight characters of the block are 40 bits: no word of an answer looks like that by chance.
_SHORTEST = 8
# Stands where an echo was, lest the text around it join to a new one.
_GAP = "…"
# What a block is made of, and the longest word that is held: the whole block at least.
_ALPHABET = frozenset("abcdefghijklmnopqrstuvwxyz234567")
_MOST_HELD = 32


class Marker:
    """Replaces every stretch of the block of eight characters or more, in any case, by …

    What is given in all does not depend on how the text is cut into pieces, and where it is
    cut again does not depend on the block: whole words are held until they end. Else what
    is held back would tell how the block begins.
    """

    def __init__(self, block: str) -> None:
        self._block = block.lower()
        self._run = ""
        self._decided = ""

    def feed(self, text: str) -> str:
        """Give what may be delivered so far; a word that has not ended is held."""
        if not self._block:
            return text
        decided = self._decided + self._replaced(text)
        end = len(decided)
        while end and decided[end - 1].lower() in _ALPHABET:
            end -= 1
        n_held = len(decided) - end + len(self._run)
        if n_held > _MOST_HELD:
            end += n_held - _MOST_HELD
        self._decided = decided[end:]
        return decided[:end]

    def _replaced(self, text: str) -> str:
        out: list[str] = []
        for char in text:
            if (self._run + char).lower() in self._block:
                self._run += char
                continue
            if len(self._run) >= _SHORTEST:
                out.append(_GAP)
                self._run = ""
            run = self._run + char
            start = 0
            while run[start:].lower() not in self._block:
                start += 1
            out.append(run[:start])
            self._run = run[start:]
        return "".join(out)

    def flush(self) -> str:
        """Give what was held, now that nothing follows."""
        rest = _GAP if len(self._run) >= _SHORTEST else self._run
        given, self._run, self._decided = self._decided + rest, "", ""
        return given
