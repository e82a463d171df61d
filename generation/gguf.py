"""What the header of a GGUF file says of the model in it: enough to know what its cache takes.

Source: ggml, docs/gguf.md, versions 2 and 3.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from generation.errors import EngineDown

_FORMATS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_MOST_NUMBERS = 4096  # an array of more is of the tokenizer, and passed over
_CACHE_VALUE_NBYTES = 2  # f16, llama.cpp's default
_CELLS = 256  # a slot's cells are a multiple of so many

Value = int | float | str | list[int]


def read_header(path: Path) -> dict[str, Value]:
    """Give the metadata of a GGUF file, without its long lists.

    Raises: EngineDown if it is none, or is cut off.
    """
    try:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF" or _number(file, "I") not in (2, 3):
                raise EngineDown(f"{path.name} is no GGUF file of version 2 or 3")
            _number(file, "Q")
            found: dict[str, Value] = {}
            for _ in range(int(_number(file, "Q"))):
                key = _string(file)
                value = _value(file, int(_number(file, "I")))
                if value is not None:
                    found[key] = value
            return found
    except (struct.error, OSError, UnicodeDecodeError, KeyError) as failure:
        raise EngineDown(f"the header of {path.name} can't be read") from failure


def cache_nbytes(header: dict[str, Value], context_tokens: int, slots: int) -> int:
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


def _value(file: BinaryIO, kind: int) -> Value | None:
    if kind == _STRING:
        return _string(file)
    if kind != _ARRAY:
        return _number(file, _FORMATS[kind])
    of, n = int(_number(file, "I")), int(_number(file, "Q"))
    if of == _STRING:
        for _ in range(n):
            file.seek(int(_number(file, "Q")), 1)
        return None
    form = _FORMATS[of]
    if n > _MOST_NUMBERS or form in "fd?":
        file.seek(n * struct.calcsize(form), 1)
        return None
    return [int(_number(file, form)) for _ in range(n)]


def _string(file: BinaryIO) -> str:
    return file.read(int(_number(file, "Q"))).decode()


def _number(file: BinaryIO, form: str) -> int | float:
    found: int | float = struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0]
    return found
