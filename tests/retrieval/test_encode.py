"""The promises of an encoder, kept by the hashed one and by the real one."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from pipeline.models import find, models_folder
from retrieval.encode import Encoder, SentenceEncoder, unit_rows
from retrieval.errors import ModelMissing
from retrieval.hashed import HashedEncoder
from retrieval.types import Vectors

TEXTS = (
    "The ferry to the island leaves at nine.",
    "Ferries for the island depart each morning.",
    "Quarterly revenue rose by four percent. " * 12,
    "",
    "!?",
    "所有的人生而自由",
)


@pytest.fixture(scope="module")
def sentence_encoder() -> SentenceEncoder:
    return SentenceEncoder(find("encoder", models_folder()), threads=2, device="cpu")


@pytest.fixture(params=["hashed", pytest.param("real", marks=pytest.mark.real)])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    if request.param == "hashed":
        return HashedEncoder()
    real: SentenceEncoder = request.getfixturevalue("sentence_encoder")
    return real


def test_vectors_are_unit_rows_in_the_order_of_the_texts(encoder: Encoder) -> None:
    vectors = encoder.encode_passages(TEXTS)
    assert vectors.shape == (len(TEXTS), encoder.width)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(encoder.encode_passages([text])[0], vector, atol=1e-5)


def test_no_texts_give_no_vectors(encoder: Encoder) -> None:
    assert encoder.encode_passages([]).shape == (0, encoder.width)


def test_a_query_has_the_same_vector_every_time(encoder: Encoder) -> None:
    first = encoder.encode_query(TEXTS[0])
    encoder.encode_passages(TEXTS)
    assert first.shape == (encoder.width,)
    assert np.array_equal(first, encoder.encode_query(TEXTS[0]))


def test_texts_that_say_alike_are_nearer_than_others(encoder: Encoder) -> None:
    query = encoder.encode_query("When does the ferry to the island leave?")
    scores = encoder.encode_passages(TEXTS[:3]) @ query
    assert scores[0] > scores[2]


def test_progress_counts_up_to_the_number_of_texts(encoder: Encoder) -> None:
    seen: list[int] = []
    encoder.encode_passages(TEXTS * 3, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == len(TEXTS) * 3


def test_several_threads_get_what_one_gets(encoder: Encoder) -> None:
    def encode(text: str) -> Vectors:
        return encoder.encode_query(text)

    alone = [encode(text) for text in TEXTS]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(encode, TEXTS))
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_the_tokenizer_counts_what_the_encoder_reads(encoder: Encoder) -> None:
    assert len(encoder.tokenizer.encode("two words").ids) in range(2, 5)
    assert encoder.max_tokens >= 256


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_vector_that_can_not_be_compared_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="1 zero or non-finite"):
        unit_rows(np.array([[3, 4], [bad, bad]], dtype=np.float32))


def test_hashed_vectors_never_change_between_versions() -> None:
    """Stored indexes of tests rest on them."""
    signs = np.sign(HashedEncoder(8).encode_query("ferry"))
    assert signs.tolist() == [1, 1, -1, -1, 1, -1, -1, -1]
    assert HashedEncoder(8).name == "hashed-8"


@pytest.mark.parametrize("width", [0, 12, -8])
def test_a_width_that_is_no_multiple_of_eight_is_refused(width: int) -> None:
    with pytest.raises(ValueError, match=f"width {width}"):
        HashedEncoder(width)


def test_a_folder_without_a_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="no sentence-transformers model"):
        SentenceEncoder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelMissing, match="no weights"):
        SentenceEncoder(tmp_path)


@pytest.mark.real
def test_the_real_encoder_is_known_by_its_weights(sentence_encoder: SentenceEncoder) -> None:
    assert sentence_encoder.name == "all-MiniLM-L6-v2@53aa5117"
    assert (sentence_encoder.width, sentence_encoder.max_tokens) == (384, 256)


@pytest.mark.real
def test_loading_from_a_folder_asks_nobody_on_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    encoder = SentenceEncoder(find("encoder", models_folder()), device="cpu")
    assert encoder.encode_query("words").shape == (384,)
