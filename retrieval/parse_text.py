"""Bytes to clean text, for every format that is text underneath; titles of Markdown."""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass

import charset_normalizer

from retrieval.errors import ParseFailed
from retrieval.types import Page

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark begins with the same two bytes
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Most likely first: the order breaks ties between encodings that read a file equally well.
_LEGACY = (
    *("cp1252", "gb18030", "big5", "cp932", "euc_jp", "cp949", "cp1251", "koi8_r", "cp866"),
    *("cp1250", "iso8859_2", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
    *("iso8859_5", "iso8859_6", "iso8859_7", "cp874", "cp500", "cp037"),
)
# What browsers read when a page declares the narrower name (WHATWG Encoding, section 4.2).
_WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
_DETECT_NBYTES = 1 << 17
_NEWLINES = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Controls, lone surrogates, non-characters, soft hyphens and byte-order marks: nobody sees
# them, databases refuse some, and they break words for search. PDFium marks a hyphen at the
# end of a line as U+FFFE or U+0002.
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\ud800-\udfff\ufeff\ufffe\uffff]")
_CONTROLS = re.compile("[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n(?:---|\.\.\.)(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:[ \t]*(\S.*)$", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")


@dataclass(frozen=True, slots=True)
class Extract:
    """What a format's reader found: clean text, and a title that may be empty."""

    title: str
    text: str
    pages: tuple[Page, ...] = ()


def clean(text: str) -> str:
    """Give the text as it is stored: NFC, newlines as \\n, nothing invisible."""
    text = _UNSEEN.sub("", _NEWLINES.sub("\n", text))
    return unicodedata.normalize("NFC", text)


def decode(content: bytes, declared: str | None = None) -> str:
    """Read bytes as text: byte-order mark, UTF-8, what is declared, or the likeliest encoding.

    A few damaged bytes become U+FFFD. Raises: ParseFailed if the bytes are not text.
    """
    text = _decode(content, declared)
    sample = text[:_DETECT_NBYTES]
    n_controls, n_damaged = len(_CONTROLS.findall(sample)), sample.count("\ufffd")
    if n_controls * 20 > len(sample) or n_damaged * 3 > len(sample):
        n_bad = n_controls + n_damaged
        raise ParseFailed(f"found binary content ({n_bad} of {len(sample)} characters unreadable)")
    return text


def markdown(content: bytes) -> Extract:
    """Keep Markdown as it is written; its title is the front matter's or the first heading."""
    text = clean(decode(content)).strip()
    front = _FRONT_MATTER.match(text)
    if front and (titled := _FRONT_TITLE.search(front.group(1))):
        return Extract(titled.group(1).strip().strip("\"'"), text)
    return Extract(_first_heading(text[front.end() :] if front else text), text)


def _decode(content: bytes, declared: str | None) -> str:
    for bom, encoding in _BOMS:
        if content.startswith(bom):
            return content.decode(encoding, "replace")
    if wide := _utf16_without_bom(content):
        return content.decode(wide, "replace")
    if b"\x1b$B" in content or b"\x1b$@" in content:
        return content.decode("iso2022_jp", "replace")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        pass
    damaged = content.decode("utf-8", "replace")
    n_replaced = damaged.count("\ufffd")
    n_multibyte = sum(map(str.isprintable, re.findall(r"[^\x00-\x7f\ufffd]", damaged)))
    if n_multibyte > n_replaced:
        return damaged
    if declared and (read := _decode_declared(content, declared)) is not None:
        return read
    encoding, coherence = _likeliest(content)
    # Valid UTF-8 sequences don't happen by chance in Western text that makes no sense anyway.
    if not encoding or (encoding == "cp1252" and coherence == 0 and n_multibyte):
        return damaged
    return content.decode(encoding, "replace")


def _utf16_without_bom(content: bytes) -> str:
    """Name the byte order, if every second byte is mostly NUL as in Latin text; else ''."""
    sample = content[: _DETECT_NBYTES & ~1]
    n_pairs = len(sample) // 2
    n_even, n_odd = sample[0::2].count(0), sample[1::2].count(0)
    if n_odd > n_pairs * 0.4 and n_even < n_pairs * 0.05:
        return "utf-16-le"
    if n_even > n_pairs * 0.4 and n_odd < n_pairs * 0.05:
        return "utf-16-be"
    return ""


def _decode_declared(content: bytes, declared: str) -> str | None:
    """Decode as declared, or None if the declaration is unknown or plainly wrong."""
    try:
        encoding = codecs.lookup(declared).name
        text = content.decode(_WIDER.get(encoding, encoding), "replace")
    except (LookupError, ValueError):
        return None
    return None if text.count("\ufffd") * 100 > len(text) else text


def _likeliest(content: bytes) -> tuple[str, float]:
    """Name the legacy encoding that reads best and how well it reads as a language, 0 to 1."""
    best, best_score, best_coherence = "", float("-inf"), 0.0
    matches = charset_normalizer.from_bytes(content[:_DETECT_NBYTES], cp_isolation=list(_LEGACY))
    found = {name: m for m in matches for name in (m.encoding, *m.could_be_from_charset)}
    for name in _LEGACY:
        if name not in found:
            continue
        match = found[name]
        # The Western code page is by far the commonest, and its neighbours read it as well.
        score = match.coherence - 4 * match.chaos + (0.05 if name == "cp1252" else 0.0)
        if score > best_score:
            best, best_score, best_coherence = name, score, match.coherence
    return best, best_coherence


def _first_heading(text: str) -> str:
    fence = ""
    previous = ""
    for line in text.split("\n"):
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark.group(1)
            elif mark.group(1).startswith(fence):
                fence = ""
            previous = ""
        elif not fence:
            if (atx := _ATX.match(line)) and atx.group(1):
                return _plain(atx.group(1))
            if previous.strip() and _SETEXT.match(line):
                return _plain(previous)
            previous = line
    return ""


def _plain(heading: str) -> str:
    """Drop Markdown's marks from a heading: emphasis, code, and the targets of links."""
    return re.sub(r"[*`]|!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip()
