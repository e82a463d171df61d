"""What the header of a GGUF file says of the model in it: enough to know what its cache takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from generation.errors import EngineDown

_CACHE_VALUE_NBYTES = 2  # f16, llama.cpp's default
_CELLS = 256  # a slot's cells are a multiple of so many
# What the cache rests on; the rest of a header is mostly the tokenizer's.
_NAMES = ("block_count", "embedding_length", "attention.head_count", "attention.head_count_kv",
          "attention.key_length", "attention.value_length")  # fmt: skip

Value = int | str | list[int]


def read_header(path: Path) -> dict[str, Value]:
    """Give what a GGUF file says of its architecture, by key.

    Raises: EngineDown if it is none, or is cut off.
    """
    from gguf import GGUFReader  # a fifth of a second that only the embedded engine should cost

    try:
        reader = GGUFReader(path)
    except (OSError, ValueError, KeyError, IndexError) as failure:
        raise EngineDown(f"the header of {path.name} can't be read") from failure
    kind = reader.get_field("general.architecture")
    if kind is None:
        return {}
    architecture = str(kind.contents())
    found: dict[str, Value] = {"general.architecture": architecture}
    for name in _NAMES:
        field = reader.get_field(f"{architecture}.{name}")
        if field is not None:
            found[f"{architecture}.{name}"] = field.contents()
    return found


def cache_nbytes(header: Mapping[str, Value], context_tokens: int, slots: int) -> int:
    """Give the bytes of keys and values of all slots: layers x KV heads x (k + v) x 2 x tokens.

    0 if the header does not say. Layers with a window are counted whole: at most so much.
    """
    kind = header.get("general.architecture", "")

    def number(name: str, default: int = 0) -> int:
        value = header.get(f"{kind}.{name}", default)
        return value if isinstance(value, int) else default

    n_layers, n_heads = number("block_count"), number("attention.head_count")
    by_layer = header.get(f"{kind}.attention.head_count_kv", n_heads)
    n_kv = sum(by_layer) if isinstance(by_layer, list) else n_layers * int(by_layer)
    width = number("embedding_length") // n_heads if n_heads else 0
    both = number("attention.key_length", width) + number("attention.value_length", width)
    cells = -(-context_tokens // _CELLS) * _CELLS * slots
    return n_kv * both * _CACHE_VALUE_NBYTES * cells
