"""A house with the secret in it, and the engine that answers there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from generation.scripted import ScriptedEngine
from tests.api.houses import Home
from tests.laws.changes import told_house


@pytest.fixture
def engine() -> ScriptedEngine:
    """An engine whose answer is known."""
    return ScriptedEngine(["The code ", "is here [1]."])


@pytest.fixture
def home(tmp_path: Path, engine: ScriptedEngine) -> Iterator[Home]:
    """A house where ana reads a secret through a group."""
    with told_house(tmp_path, engine) as opened:
        yield opened
