"""One event loop and one real engine for all tests that need them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from generation.embedded import EmbeddedEngine
from pipeline.models import find, models_folder


@pytest.fixture(scope="package")
def loop() -> Iterator[asyncio.Runner]:
    """The loop that the real engine's connections belong to."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="package")
def real_engine(loop: asyncio.Runner) -> Iterator[EmbeddedEngine]:
    """The embedded engine with the default model, two slots of 1,024 tokens."""
    engine = EmbeddedEngine(find("generator", models_folder()), context_tokens=1024, slots=2)
    yield engine
    loop.run(engine.close())
