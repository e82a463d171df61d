"""Models and engine, with their bytes held before they are loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from generation.gguf import cache_nbytes, read_header
from pipeline.ledger import MAPPED, RAM, Ledger
from pipeline.machine import process_memory

Loaded = TypeVar("Loaded")


def load_model(
    ledger: Ledger, owner: str, source: Path | str, load: Callable[[], Loaded]
) -> Loaded:
    """Load a model whose weights are in files: they are mapped, and room for a copy is held
    while it loads. A hub name says its bytes to nobody.

    Raises: LedgerFull.
    """
    nbytes = file_nbytes(source) if isinstance(source, Path) else 0
    with ledger.hold(RAM, f"{owner}/loading", nbytes):
        loaded = load()
    ledger.note(MAPPED, f"{owner}/weights", nbytes)
    return loaded


def load_engine(
    ledger: Ledger, path: Path, context_tokens: int, slots: int, start: Callable[[], Loaded]
) -> Loaded:
    """Start the embedded engine: its weights are mapped, keys and values are its own.

    What it takes beside them (llama.cpp's compute buffers) is not known before and is noted
    as it is measured. Raises: LedgerFull; EngineDown.
    """
    kept = cache_nbytes(read_header(path), context_tokens, slots)
    holding = ledger.hold(RAM, "engine/kv", kept)
    before = process_memory()
    try:
        started = start()
    except BaseException:
        holding.release()
        raise
    after = process_memory()
    ledger.note(MAPPED, "engine/weights", path.stat().st_size)
    if before is not None and after is not None:
        ledger.note(RAM, "engine/scratch", max(0, after.private - before.private - kept))
    return started


def note_program(ledger: Ledger) -> None:
    """Write down what the process has now and nobody holds: interpreter, libraries, models."""
    measured = process_memory()
    if measured is not None:
        known = sum(ledger.held().get(RAM, {}).values())
        ledger.note(RAM, "program", max(0, measured.private - known))


def file_nbytes(path: Path) -> int:
    """Add up a file, or the weights in a folder: what a model maps when it is loaded."""
    files = [path] if path.is_file() else path.rglob("*.safetensors")
    return sum(each.stat().st_size for each in files)
