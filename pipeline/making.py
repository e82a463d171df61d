"""Bytes to passages with vectors: the costly part of ingestion, outside any transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from retrieval.chunk import Chunker
from retrieval.corpus import Origin
from retrieval.encode import Encoder
from retrieval.errors import ParseFailed
from retrieval.sandbox import Sandbox
from retrieval.settings import RetrievalSettings
from retrieval.types import Parsed, Piece, Vectors

# Raise when a parser's or the chunker's output changes: what is stored then counts as stale.
_MAKING = 1


@dataclass(frozen=True, slots=True)
class Made:
    """A document ready to be stored. vectors: float32 [n pieces, d], by encoder name."""

    parsed: Parsed
    pieces: tuple[Piece, ...]
    vectors: Mapping[str, Vectors]
    sha256: str
    nbytes: int


class Maker:
    """Parses, cuts and encodes; one for each process, usable from several threads.

    Args: encoder: the one whose tokens passages are counted in. others: gives the encoders of
        all index versions, asked for each document: a new version may have come.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        chunker: Chunker,
        encoder: Encoder,
        settings: RetrievalSettings,
        others: Callable[[], Sequence[Encoder]] = tuple,
    ) -> None:
        self._sandbox = sandbox
        self._chunker = chunker
        self._encoder = encoder
        self._others = others
        self._loaded_as = settings.encoder
        self.recipe = (
            f"{_MAKING}/{encoder.name}/{settings.passage_tokens}/{settings.overlap_tokens}"
        )

    def make(
        self,
        name: str,
        content: bytes,
        on_progress: Callable[[int], None] | None = None,
        title: str = "",
    ) -> Made:
        """Make a file's passages; `title` stands in for the file's own. Raises: ParseFailed."""
        parsed = self._sandbox.parse(name, content)
        if title:
            parsed = replace(parsed, title=title)
        return self._finish(parsed, fingerprint(content), len(content), on_progress)

    def make_text(
        self, title: str, text: str, on_progress: Callable[[int], None] | None = None
    ) -> Made:
        """Make the passages of a text that needs no parser. Raises: ParseFailed if empty."""
        if not text.strip():
            raise ParseFailed("the text is empty: nothing can be found in it")
        content = text_bytes(title, text)
        parsed = Parsed(title, text, "text/plain")
        return self._finish(parsed, fingerprint(content), len(content), on_progress)

    def origin(self, made: Made, origin: str, source: str) -> Origin:
        """Say where made passages came from and how they were made."""
        return Origin(
            origin, source, made.sha256, made.nbytes, self.recipe, self._encoder.name,
            self._loaded_as,
        )  # fmt: skip

    def _finish(
        self,
        parsed: Parsed,
        digest: str,
        nbytes: int,
        on_progress: Callable[[int], None] | None,
    ) -> Made:
        pieces = self._chunker.split(parsed)
        texts = [self._chunker.encoded(parsed.title, piece.text) for piece in pieces]
        vectors = {self._encoder.name: self._encoder.encode_passages(texts, on_progress)}
        for each in self._others():
            if each.name not in vectors:
                vectors[each.name] = each.encode_passages(texts)
        held = {name: np.asarray(rows, np.float32) for name, rows in vectors.items()}
        return Made(parsed, pieces, held, digest, nbytes)


def fingerprint(content: bytes) -> str:
    """Give the SHA-256 of a document's bytes: it decides what is unchanged, nothing else."""
    return sha256(content).hexdigest()


def text_bytes(title: str, text: str) -> bytes:
    """Give the bytes that stand for a text without a file."""
    return f"{title}\0{text}".encode()
