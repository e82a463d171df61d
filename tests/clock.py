"""A clock for tests: it stands still until it is told to move."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Clock:
    """Unix seconds, moved by hand."""

    at_s: float = 1_000.0

    def now_s(self) -> float:
        """Give the moment the clock shows."""
        return self.at_s

    def advance(self, seconds: float) -> None:
        """Move the clock on."""
        self.at_s += seconds
