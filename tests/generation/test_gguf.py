"""What the engine's cache will take, from the header of its model."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from generation.errors import EngineDown
from generation.gguf import Value, cache_nbytes, read_header


def text(said: str) -> bytes:
    return struct.pack("<Q", len(said.encode())) + said.encode()


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def written(path: Path, entries: list[bytes], version: int = 3) -> Path:
    head = b"GGUF" + struct.pack("<IQQ", version, 0, len(entries))
    path.write_bytes(head + b"".join(entries))
    return path


ENTRIES = [
    entry("general.architecture", 8, text("llama")),
    entry("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 2) + text("a") + text("b")),
    entry("tokenizer.ggml.scores", 9, struct.pack("<IQ2f", 6, 2, 0.5, 1.5)),
    entry("llama.block_count", 4, struct.pack("<I", 30)),
    entry("llama.embedding_length", 4, struct.pack("<I", 576)),
    entry("llama.attention.head_count", 4, struct.pack("<I", 9)),
    entry("llama.rope.freq_base", 6, struct.pack("<f", 1.0)),
    entry("llama.attention.head_count_kv", 4, struct.pack("<I", 3)),
]


def test_keys_and_values_of_all_slots_are_counted_from_the_header(tmp_path: Path) -> None:
    header = read_header(written(tmp_path / "model.gguf", ENTRIES))

    assert header["llama.block_count"] == 30
    assert "tokenizer.ggml.tokens" not in header
    # 30 layers x 3 heads x (64 + 64) x 2 bytes x 4 slots of 2,048 cells.
    assert cache_nbytes(header, 2048, 4) == 30 * 3 * 128 * 2 * 4 * 2048
    assert cache_nbytes(header, 2000, 1) == cache_nbytes(header, 2048, 1)


def test_heads_may_differ_by_layer_and_have_widths_of_their_own() -> None:
    header: dict[str, Value] = {
        "general.architecture": "x",
        "x.block_count": 3,
        "x.attention.head_count": 8,
        "x.attention.head_count_kv": [2, 0, 1],
        "x.attention.key_length": 32,
        "x.attention.value_length": 16,
        "x.embedding_length": 64,
    }
    assert cache_nbytes(header, 256, 1) == 3 * 48 * 2 * 256
    assert cache_nbytes({}, 256, 1) == 0


def test_what_is_no_model_file_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"PK..")
    with pytest.raises(EngineDown, match="can't be read"):
        read_header(other)
    with pytest.raises(EngineDown, match="can't be read"):
        read_header(written(tmp_path / "old", ENTRIES, version=1))
    cut = written(tmp_path / "cut", ENTRIES)
    cut.write_bytes(cut.read_bytes()[:60])
    with pytest.raises(EngineDown, match="can't be read"):
        read_header(cut)
