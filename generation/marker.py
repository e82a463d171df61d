"""Keeps the secret first block out of answers."""

from __future__ import annotations

# Eight characters of the block are 40 bits: no word of an answer looks like that by chance.
_SHORTEST = 8
# Stands where an echo was, lest the text around it join to a new one.
_GAP = "…"


class Marker:
    """Replaces every stretch of the block of eight characters or more, in any case, by …

    What is given does not depend on how the text is cut into pieces.
    """

    def __init__(self, block: str) -> None:
        self._block = block.lower()
        self._run = ""

    def feed(self, text: str) -> str:
        """Give what may be delivered so far; the start of a possible echo is held."""
        if not self._block:
            return text
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
        self._run = ""
        return rest
