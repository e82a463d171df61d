"""Models and engine hold their bytes before they are loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from generation.errors import EngineDown
from pipeline.errors import LedgerFull
from pipeline.ledger import MAPPED, RAM, Ledger
from pipeline.loading import load_engine, load_model, note_program
from tests.generation.test_gguf import ENTRIES, written

KV_NBYTES = 30 * 3 * 128 * 2 * 256


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.safetensors").write_bytes(b"w" * 700)
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def test_room_for_a_copy_is_held_while_a_model_loads_and_then_it_is_mapped(folder: Path) -> None:
    ledger = Ledger({RAM: 1000})

    def load() -> str:
        assert ledger.held()[RAM] == {"encoder/loading": 700}
        return "loaded"

    assert load_model(ledger, "encoder", folder, load) == "loaded"
    assert ledger.held() == {RAM: {}, MAPPED: {"encoder/weights": 700}}


def test_a_model_without_room_is_not_loaded(folder: Path) -> None:
    def load() -> str:
        raise AssertionError("must not be asked")

    with pytest.raises(LedgerFull):
        load_model(Ledger({RAM: 699}), "encoder", folder, load)


def test_the_engine_s_keys_and_values_are_held_before_it_starts(tmp_path: Path) -> None:
    path = written(tmp_path / "model.gguf", ENTRIES)
    ledger = Ledger({RAM: 1 << 40})

    def start() -> str:
        assert ledger.held()[RAM] == {"engine/kv": KV_NBYTES}
        return "started"

    assert load_engine(ledger, path, 256, 1, start) == "started"
    assert ledger.held()[RAM]["engine/kv"] == KV_NBYTES
    assert ledger.held()[MAPPED] == {"engine/weights": path.stat().st_size}


def test_an_engine_that_does_not_fit_or_start_holds_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "model.gguf", ENTRIES)
    small, large = Ledger({RAM: KV_NBYTES - 1}), Ledger({RAM: 1 << 40})

    def start() -> str:
        raise EngineDown("can't")

    with pytest.raises(LedgerFull, match="engine/kv"):
        load_engine(small, path, 256, 1, start)
    with pytest.raises(EngineDown):
        load_engine(large, path, 256, 1, start)
    assert large.held() == {RAM: {}}


def test_what_the_process_has_already_is_the_program_s() -> None:
    ledger = Ledger({RAM: 1 << 40})
    note_program(ledger)

    assert ledger.held().get(RAM, {}).get("program", 1 << 20) >= 1 << 20
