"""Tells code in Markdown from prose, one character at a time."""

from __future__ import annotations


class CodeSense:
    """Follows fenced blocks (``` and ~~~) and inline code, which ends with its line."""

    def __init__(self) -> None:
        self._fence = ""
        self._line = ""
        self._inline = False
        self._bare = True

    def feed(self, char: str) -> bool:
        """Take the next character and say whether it stands in code."""
        if char == "\n":
            return self._end_line()
        if len(self._line) < 3:
            self._line = (self._line + char).lstrip(" ")
        elif char != self._line[0] and char != " ":
            self._bare = False
        if self._fence or self._line in {"```", "~~~"}:
            return True
        if char == "`":
            self._inline = not self._inline
            return True
        return self._inline

    def _end_line(self) -> bool:
        inside = bool(self._fence)
        if self._line in {"```", "~~~"}:
            if not self._fence:
                self._fence = self._line
            elif self._fence == self._line and self._bare:
                self._fence = ""
            inside = True
        self._line, self._inline, self._bare = "", False, True
        return inside
