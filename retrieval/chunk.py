"""Documents to passages: where a text is cut, and what of its title goes with each piece."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from semantic_text_splitter import MarkdownSplitter, TextSplitter
from tokenizers import Tokenizer

from retrieval.types import Parsed, Piece

# Search for the best cut is quadratic in a text without any place to cut at.
_WINDOW_CHARS = 8_192
# English has 4 to 5 characters a token. A vocabulary that counts an unknown word of any
# length as one token would otherwise make a megabyte of it one passage.
_CHARS_PER_TOKEN = 8
_TITLE_SHARE = 4
_HEADING_STEP = 8


class Chunker:
    """Cuts documents at their own seams into passages that an encoder can read whole.

    A passage's tokens are those of its heading, a line break, its text, and the marks that
    the encoder adds (such as [CLS]); together at most `passage_tokens`.
    """

    def __init__(self, tokenizer: Tokenizer, passage_tokens: int, overlap_tokens: int) -> None:
        """Take the encoder's tokenizer; the one given is not changed.

        Raises: ValueError if passage_tokens leaves less than 8 tokens of text beside the
        longest heading, or overlap_tokens is negative.
        """
        # A tokenizer set to truncate counts every text as short.
        self._tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._n_marks = self._tokenizer.num_special_tokens_to_add(False)
        self._passage_tokens = passage_tokens
        self._overlap_tokens = overlap_tokens
        self._heading_tokens = passage_tokens // _TITLE_SHARE
        self._splitters: dict[tuple[bool, int], TextSplitter | MarkdownSplitter] = {}
        # A line break may be a token, and the whole is rounded up.
        least = passage_tokens - self._n_marks - self._heading_tokens - _HEADING_STEP
        if least < 8 or overlap_tokens < 0:
            raise ValueError(
                f"passages of {passage_tokens} tokens with {overlap_tokens} shared leave {least} "
                "tokens of text beside a long title, at least 8 are needed"
            )

    def heading(self, title: str) -> str:
        """Give as much of a title as is encoded with each passage: a quarter of its tokens."""
        encoding = self._tokenizer.encode(title, add_special_tokens=False)
        kept = encoding.offsets[: self._heading_tokens]
        # One unknown word may be as long as the title itself.
        end = min(kept[-1][1] if kept else 0, self._heading_tokens * _CHARS_PER_TOKEN)
        return title[:end].rstrip()

    def encoded(self, title: str, text: str) -> str:
        """Give what is encoded of a passage.

        The title is encoded with every passage: a passage alone often does not say of what.
        """
        return f"{self.heading(title)}\n{text}"

    def split(self, parsed: Parsed) -> tuple[Piece, ...]:
        """Cut a document into pieces, in order, each text[start:end] and not blank.

        Neighbours share at most `overlap_tokens`. A piece may run over the end of a page; its
        page is the one it starts on.
        """
        text = parsed.text
        heading = self._count(f"{self.heading(parsed.title)}\n")
        # Rounded up, so that a few splitters serve all titles.
        room = self._passage_tokens - self._n_marks - -(-heading // _HEADING_STEP) * _HEADING_STEP
        by_tokens = self._splitter(parsed.media_type == "text/markdown", room)
        by_chars = TextSplitter(room * _CHARS_PER_TOKEN)
        starts = [page.start for page in parsed.pages]
        pieces = []
        for window_start, window in _windows(text):
            for offset, piece in _cut(window, by_tokens, by_chars, room * _CHARS_PER_TOKEN):
                start = window_start + offset
                page = parsed.pages[bisect_right(starts, start) - 1].number if starts else None
                pieces.append(Piece(piece, start, start + len(piece), page))
        return tuple(pieces)

    def _splitter(self, markdown: bool, room: int) -> TextSplitter | MarkdownSplitter:
        made = self._splitters.get((markdown, room))
        if made is None:
            # Costs 20 ms, more than most documents: each copies the tokenizer.
            kind = MarkdownSplitter if markdown else TextSplitter
            overlap = min(self._overlap_tokens, room // 2)
            made = kind.from_huggingface_tokenizer(self._tokenizer, room, overlap)
            self._splitters[markdown, room] = made
        return made

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _cut(
    text: str, by_tokens: TextSplitter | MarkdownSplitter, by_chars: TextSplitter, most_chars: int
) -> Iterator[tuple[int, str]]:
    """Give pieces, with their offsets, that fit in tokens and in characters."""
    for offset, piece in by_tokens.chunk_indices(text):
        if len(piece) <= most_chars:
            yield offset, piece
            continue
        for inner, part in by_chars.chunk_indices(piece):
            # Part of an unknown word may be a known one, of more tokens than the whole.
            for innermost, fitting in by_tokens.chunk_indices(part):
                yield offset + inner + innermost, fitting


def _windows(text: str) -> Iterator[tuple[int, str]]:
    """Cut a text into stretches of bounded length, at the widest break in their last half."""
    start = 0
    while len(text) - start > _WINDOW_CHARS:
        limit = start + _WINDOW_CHARS
        end = limit
        for mark in ("\n\n", "\n", " "):
            found = text.rfind(mark, start + _WINDOW_CHARS // 2, limit)
            if found >= 0:
                end = found + len(mark)
                break
        yield start, text[start:end]
        start = end
    yield start, text[start:]
