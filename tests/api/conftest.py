"""A house for the tests of its doors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.houses import Home, open_home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A house with people in it and no documents."""
    with open_home(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def still_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A house for tests that are turned away at its doors and change nothing."""
    with open_home(tmp_path_factory.mktemp("home")) as opened:
        yield opened
