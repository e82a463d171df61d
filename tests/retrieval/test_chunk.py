"""Passages are exact slices, fit the encoder, and leave no word out."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing

from retrieval.chunk import Chunker
from retrieval.types import Page, Parsed

TOKENS = 40
OVERLAP = 8


@cache
def wordpiece() -> Tokenizer:
    """A tokenizer like BERT's over a small alphabet, set to truncate as those come from the hub."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,:;!?()-漢字仮名กขฃ"
    marks = ["[UNK]", "[CLS]", "[SEP]"]
    words = [*marks, *letters, *(f"##{letter}" for letter in letters), "word", "the"]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=16)
    return tokenizer


def n_tokens(text: str, *, marks: bool = True) -> int:
    counting = Tokenizer.from_str(wordpiece().to_str())
    counting.no_truncation()
    counting.no_padding()
    return len(counting.encode(text, add_special_tokens=marks).ids)


def make_parsed(text: str, title: str = "the word", kind: str = "text/plain") -> Parsed:
    return Parsed(title, text, kind)


@pytest.fixture
def chunker() -> Chunker:
    return Chunker(wordpiece(), TOKENS, OVERLAP)


WORDS = st.text(alphabet="abcde .,\n\t#*`-漢字仮名กขé👨‍👩e\u0301", min_size=1, max_size=900)
KINDS = st.sampled_from(["text/plain", "text/markdown"])


@settings(max_examples=60, deadline=None)
@given(text=WORDS, title=st.text(alphabet="ab 漢é", max_size=200), kind=KINDS)
def test_pieces_are_slices_that_fit_and_cover_every_word(text: str, title: str, kind: str) -> None:
    chunker = Chunker(wordpiece(), TOKENS, OVERLAP)
    pieces = chunker.split(make_parsed(text, title, kind))
    heading = chunker.heading(title)
    covered = set[int]()
    for piece in pieces:
        assert piece.text == text[piece.start : piece.end]
        assert piece.text.strip()
        assert n_tokens(f"{heading}\n{piece.text}") <= TOKENS
        covered.update(range(piece.start, piece.end))
    assert all(text[place].isspace() for place in set(range(len(text))) - covered)
    assert [piece.start for piece in pieces] == sorted(piece.start for piece in pieces)


def test_neighbours_share_at_most_the_overlap(chunker: Chunker) -> None:
    text = "the word is a. " * 60
    pieces = chunker.split(make_parsed(text))
    shared = [text[b.start : a.end] for a, b in pairwise(pieces)]
    assert max(n_tokens(part, marks=False) for part in shared) in range(1, OVERLAP + 1)


@pytest.mark.parametrize("unit", ["漢字仮名", "กขฃ", "👨‍👩‍👧", "x", "e\u0301"])
def test_long_texts_without_spaces_give_many_bounded_pieces(chunker: Chunker, unit: str) -> None:
    text = unit * (10_000 // len(unit))
    pieces = chunker.split(make_parsed(text))
    assert max(len(piece.text) for piece in pieces) <= TOKENS * 8
    assert max(n_tokens(f"the word\n{piece.text}") for piece in pieces) <= TOKENS
    assert len(text) <= sum(len(piece.text) for piece in pieces)


def test_a_very_long_title_leaves_most_of_the_room_to_the_text(chunker: Chunker) -> None:
    heading = chunker.heading("word " * 500)
    assert n_tokens(heading, marks=False) == TOKENS // 4
    assert len(chunker.heading("x" * 5_000)) <= TOKENS // 4 * 8
    longest = max(chunker.split(make_parsed("word " * 500, "word " * 500)), key=lambda p: p.end)
    assert longest.end == 500 * 5 - 1


def test_the_tokenizer_that_was_given_keeps_its_settings() -> None:
    Chunker(wordpiece(), TOKENS, OVERLAP)
    assert len(wordpiece().encode("word").ids) == len(wordpiece().encode("word " * 99).ids) == 16


def test_a_piece_is_on_the_page_it_starts_on(chunker: Chunker) -> None:
    texts = ["word " * 100, "", "the " * 100]
    pages, start = [], 0
    for number, text in enumerate(texts, start=1):
        pages.append(Page(number, start, start + len(text)))
        start += len(text) + 1
    parsed = Parsed("t", "\n".join(texts), "application/pdf", tuple(pages))
    by_page = {page.number: page for page in pages}
    pieces = chunker.split(parsed)
    assert {piece.page for piece in pieces} == {1, 3}
    for piece in pieces:
        assert piece.page is not None
        assert by_page[piece.page].start <= piece.start < by_page[piece.page].end


def test_a_text_without_pages_has_pieces_without_pages(chunker: Chunker) -> None:
    assert [piece.page for piece in chunker.split(make_parsed("word"))] == [None]


def test_markdown_is_cut_at_its_headings(chunker: Chunker) -> None:
    text = "# a\n\n" + "word " * 20 + "\n\n# b\n\n" + "the " * 20
    starts = [piece.text[:3] for piece in chunker.split(make_parsed(text, kind="text/markdown"))]
    assert starts == ["# a", "# b"]


@pytest.mark.parametrize(("tokens", "overlap"), [(10, 0), (40, -1)])
def test_passages_too_small_for_any_text_are_refused(tokens: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="at least 8"):
        Chunker(wordpiece(), tokens, overlap)
