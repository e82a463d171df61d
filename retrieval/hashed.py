"""An encoder without a model: deterministic, instant, good enough to test everything else."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from retrieval.encode import Progress, unit_rows
from retrieval.types import Vectors

_WORD = re.compile(r"\w+")


class HashedEncoder:
    """Encodes a text as the sum of its words, each a fixed random vector of signs.

    Texts that share words are near, others nearly orthogonal (more so with more width).
    Source: Achlioptas, "Database-friendly random projections" (2003), section 1.
    """

    def __init__(self, width: int = 64) -> None:
        """Raises: ValueError if width is not a positive multiple of 8."""
        if width < 8 or width % 8:
            raise ValueError(f"width {width} is not a positive multiple of 8")
        self.name = f"hashed-{width}"
        self.width = width
        self.max_tokens = 512
        self.tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))  # noqa: S106
        self.tokenizer.pre_tokenizer = Whitespace()

    def encode_query(self, text: str) -> Vectors:
        """Give float32 [d], unit norm."""
        vector: Vectors = self.encode_passages([text])[0]
        return vector

    def encode_passages(self, texts: Sequence[str], on_progress: Progress | None = None) -> Vectors:
        """Give float32 [n, d], unit rows."""
        if not texts:
            return np.empty((0, self.width), dtype=np.float32)
        vectors = unit_rows(np.stack([self._sum(text) for text in texts]))
        if on_progress:
            on_progress(len(texts))
        return vectors

    def _sum(self, text: str) -> Vectors:
        # Without any word the text itself is the word: even "" has a vector of its own.
        words = _WORD.findall(text.casefold()) or [text]
        total: Vectors = np.stack([self._signs(word) for word in words]).sum(axis=0)
        return total

    def _signs(self, word: str) -> Vectors:
        digest = hashlib.shake_128(word.encode("utf-8", "surrogatepass")).digest(self.width // 8)
        return np.unpackbits(np.frombuffer(digest, dtype=np.uint8)).astype(np.float32) * 2 - 1
