"""Text to unit vectors: what an encoder is, and the one made of sentence-transformers.

The only importer of sentence_transformers, whose import takes seconds: it waits for the first
encoder that is made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Protocol

import numpy as np
from tokenizers import Tokenizer

from retrieval.errors import ModelMissing
from retrieval.types import Vectors

Progress = Callable[[int], None]
# Small enough that a query waits only briefly for the processor while a document is encoded.
_BATCH = 16
# Weights that can't run code when they are opened, and what stands beside them.
_HUB_FILES = ("*.safetensors", "*.json", "*.txt", "*.model")


class Encoder(Protocol):
    """What turns text into unit vectors. Real ones and the hashed one pass the same tests.

    All methods may be called from several threads at once.
    """

    @property
    def name(self) -> str:
        """The model's name and a fingerprint of its weights: equal names, equal vectors."""
        ...

    @property
    def width(self) -> int:
        """How many dimensions a vector has."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The encoder's own tokenizer, a copy for counting: it neither cuts nor pads."""
        ...

    @property
    def max_tokens(self) -> int:
        """How many tokens of a text are read, marks such as [CLS] included."""
        ...

    def encode_query(self, text: str) -> Vectors:
        """Give the vector of a question: float32 [d], unit norm, the same in any company."""
        ...

    def encode_passages(self, texts: Sequence[str], on_progress: Progress | None = None) -> Vectors:
        """Give the vectors of passages in their order: float32 [n, d], unit rows.

        `on_progress` is told how many are done so far, in the calling thread.
        """
        ...


class SentenceEncoder:
    """A sentence-transformers model from a local folder, or from the hub by name.

    A Path is never looked up anywhere; a string is a hub name, fetched (safetensors only)
    unless it is in the hub's cache already.
    """

    def __init__(
        self, source: Path | str, *, threads: int | None = None, device: str | None = None
    ) -> None:
        """Load the model on `device` (CUDA if there is one, else CPU).

        threads: how many processor threads PyTorch may use, process-wide; None leaves it.
        Raises: ModelMissing if there is no such model or its weights are not safetensors.
        """
        folder = source if isinstance(source, Path) else _hub_folder(source)
        if not (folder / "modules.json").is_file() and not (folder / "config.json").is_file():
            raise ModelMissing(f"no sentence-transformers model in {folder}")
        self.name = f"{_model_name(source)}@{_fingerprint(folder)}"

        import torch
        from sentence_transformers import SentenceTransformer

        if threads is not None:
            torch.set_num_threads(threads)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        _silence_progress_bars()
        self._model = SentenceTransformer(
            str(folder),
            device=device,
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )
        self._model.eval()
        self._torch = torch
        # The tokenizer is changed while it works; the model is not, so only the former waits.
        self._tokenizing = Lock()
        prompts = self._model.prompts
        self._query_prompt = prompts.get("query") or ""
        self._passage_prompt = prompts.get("document") or prompts.get("passage") or ""
        self.width = int(self._model.get_embedding_dimension())
        self.max_tokens = int(self._model.max_seq_length)
        self.tokenizer = Tokenizer.from_str(self._model.tokenizer.backend_tokenizer.to_str())
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()

    def encode_query(self, text: str) -> Vectors:
        """Encode one question, alone, so that no other text can touch its vector."""
        vector: Vectors = self._encode([self._query_prompt + text])[0]
        return vector

    def encode_passages(self, texts: Sequence[str], on_progress: Progress | None = None) -> Vectors:
        """Encode passages in batches of like length, which wastes least on padding."""
        vectors = np.empty((len(texts), self.width), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]), reverse=True)
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            vectors[rows] = self._encode([self._passage_prompt + texts[row] for row in rows])
            if on_progress:
                on_progress(start + len(rows))
        return vectors

    def _encode(self, texts: list[str]) -> Vectors:
        with self._tokenizing:
            features = self._model.preprocess(texts)
        device = self._model.device
        features = {
            name: value.to(device) if hasattr(value, "to") else value
            for name, value in features.items()
        }
        with self._torch.inference_mode():
            embedded = self._model(features)["sentence_embedding"]
        return unit_rows(embedded.float().cpu().numpy())


def unit_rows(vectors: Vectors) -> Vectors:
    """Scale float32 [n, d] to unit rows.

    Raises: ValueError if a row is zero or not finite: it would match everything or nothing.
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    bad = ~(np.isfinite(norms) & (norms > 1e-12)).ravel()
    if bad.any():
        raise ValueError(f"the encoder gave {int(bad.sum())} zero or non-finite vectors")
    return np.asarray(vectors / norms, dtype=np.float32)


def _hub_folder(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=list(_HUB_FILES)))
    except (HfHubHTTPError, LocalEntryNotFoundError, ValueError, OSError) as error:
        raise ModelMissing(f"model {name!r} can't be had from the hub") from error


def _model_name(source: Path | str) -> str:
    return source.resolve().name if isinstance(source, Path) else source.rsplit("/", 1)[-1]


def _fingerprint(folder: Path) -> str:
    """Give the first 8 hex digits of the SHA-256 of the weights: one file's, or of all sums."""
    files = sorted(folder.rglob("*.safetensors"))
    if not files:
        raise ModelMissing(f"no weights (*.safetensors) in {folder}")
    sums = []
    for file in files:
        with file.open("rb") as stream:
            sums.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return (sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest())[:8]


def _silence_progress_bars() -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()
