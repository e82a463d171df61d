"""Files to text: what a file is, which reader takes it, and what its title is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from retrieval.errors import ParseFailed
from retrieval.parse_docx import docx, is_docx
from retrieval.parse_html import html
from retrieval.parse_pdf import pdf
from retrieval.parse_text import Extract, clean, decode, markdown
from retrieval.types import Parsed

TEXT = "text/plain"
MARKDOWN = "text/markdown"
HTML = "text/html"
PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

SUPPORTED = "PDF, Word (.docx), HTML, Markdown and plain text"
_BY_ENDING = {
    "txt": TEXT,
    "text": TEXT,
    "log": TEXT,
    "md": MARKDOWN,
    "markdown": MARKDOWN,
    "html": HTML,
    "htm": HTML,
    "xhtml": HTML,
    "pdf": PDF,
    "docx": DOCX,
}
# Content that no reader takes, whatever the file is called.
_FOREIGN = (
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"II*\x00", "a TIFF picture"),
    (b"MM\x00*", "a TIFF picture"),
    (b"{\\rtf", "a Rich Text file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "a program"),
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_TITLE_LENGTH = 300


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """What reading one file may cost.

    time_s and memory_nbytes are enforced by the sandbox, the rest by the readers:
    inflated_nbytes, entries and ratio bound the archive inside a Word file.
    """

    file_nbytes: int = 50 * 2**20
    text_chars: int = 20_000_000
    pages: int = 5_000
    entries: int = 2_000
    inflated_nbytes: int = 200 * 2**20
    ratio: int = 200
    time_s: float = 60.0
    memory_nbytes: int = 2 * 2**30


def parse(name: str, content: bytes, limits: ParseLimits) -> Parsed:
    """Turn a file into clean text with a title, and page spans where the format has pages.

    What the file is, its content decides before its name. The title is one line of 1 to 300
    characters, NFC: the document's own, or the file's name without its ending.
    Raises: ParseFailed, saying what was found and what was needed.
    """
    if not content:
        raise ParseFailed("empty file: it has 0 bytes")
    if len(content) > limits.file_nbytes:
        raise ParseFailed(f"found {len(content)} bytes, at most {limits.file_nbytes} are read")
    media_type = detect(name, content)
    readers: dict[str, Callable[[], Extract]] = {
        TEXT: lambda: Extract("", clean(decode(content)).strip()),
        MARKDOWN: lambda: markdown(content),
        HTML: lambda: html(content),
        PDF: lambda: pdf(content, limits.pages),
        DOCX: lambda: docx(content, limits.entries, limits.inflated_nbytes, limits.ratio),
    }
    extract = readers[media_type]()
    if not extract.text:
        raise ParseFailed("empty document: there is no text in it")
    if len(extract.text) > limits.text_chars:
        raise ParseFailed(
            f"found {len(extract.text)} characters, at most {limits.text_chars} are read"
        )
    title = _one_line(extract.title) or _one_line(_stem(name)) or "untitled"
    return Parsed(title, extract.text, media_type, extract.pages)


def detect(name: str, content: bytes) -> str:
    """Say which media type a file is. Raises: ParseFailed if none of ours."""
    ending = _ending(name)
    head = content[:1024]
    if head.lstrip().startswith(b"%PDF-") or (ending == "pdf" and b"%PDF-" in head):
        return PDF
    if content.startswith(b"PK\x03\x04"):
        if is_docx(content):
            return DOCX
        raise _unknown("a ZIP archive that is no Word file")
    if content.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in content:
            raise ParseFailed("encrypted Office file: it opens with a password only")
        raise _unknown("an Office file of the old binary kind")
    for magic, kind in _FOREIGN:
        if content.startswith(magic):
            raise _unknown(kind)
    if ending in ("pdf", "docx"):
        raise ParseFailed(f"damaged or misnamed: called .{ending}, but its content is not")
    if ending in _BY_ENDING:
        return _BY_ENDING[ending]
    if ending:
        raise _unknown(f"a .{_one_line(ending)[:20]} file")
    opening = head.lstrip().lower()
    return HTML if opening.startswith((b"<!doctype html", b"<html")) else TEXT


def _unknown(kind: str) -> ParseFailed:
    return ParseFailed(f"found {kind}; supported are {SUPPORTED}")


def _last(name: str) -> str:
    return name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def _ending(name: str) -> str:
    stem, dot, ending = _last(name).rpartition(".")
    return ending.strip().lower() if dot and stem else ""


def _stem(name: str) -> str:
    last = _last(name)
    return last.rpartition(".")[0] or last


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())[:_TITLE_LENGTH].strip()
