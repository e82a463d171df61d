"""HTML to the text a reader of the page would see, in reading order."""

from __future__ import annotations

import re
import warnings

from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning
from bs4.dammit import EncodingDetector
from bs4.element import NavigableString, PageElement, PreformattedString, Tag

from retrieval.parse_text import Extract, clean, decode

_UNSEEN = frozenset(
    ("head", "script", "style", "template", "noscript", "object", "iframe", "audio", "video")
)
_PARAGRAPHS = frozenset(
    (
        *("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "pre", "hr"),
        *("section", "article", "aside", "header", "footer", "main", "nav", "figure", "address"),
        *("blockquote", "form", "fieldset", "details"),
    )
)
_LINES = frozenset(
    ("div", "li", "dt", "dd", "caption", "figcaption", "option", "legend", "summary", "center")
)
_HIDING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)"
    r"|(?:font-size|opacity)\s*:\s*0*\.?0+(?:[a-z%]*)\s*(?:!|;|$)",
    re.IGNORECASE,
)
_BLANK = re.compile(r"\s+")
_BREAKS = ("", " ", "\t", "\n", "\n\n")


class Flow:
    """Text as it is laid out: runs of words, with the strongest break asked for between them."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._pending = 0
        self._in_cell_start = False
        self._in_row = False

    def gap(self, mark: str) -> None:
        """Ask for at least this break (space, tab, newline or blank line) before what follows."""
        if not self._in_cell_start:
            self._pending = max(self._pending, _BREAKS.index(mark))

    def table(self) -> None:
        """Begin a table."""
        self.gap("\n\n")
        self._in_row = False

    def row(self) -> None:
        """Begin a table's row, next to the one before, whatever its last cell asked for."""
        if self._in_row and not self._in_cell_start:
            self._pending = 0
        self.gap("\n")
        self._in_row = False

    def cell(self) -> None:
        """Begin a table's cell: paragraphs inside it do not tear the row apart."""
        if self._in_row:
            self._pending = _BREAKS.index("\t")
        self._in_row = self._in_cell_start = True

    def write(self, text: str) -> None:
        """Add words, with white space collapsed as a browser does."""
        words = _BLANK.sub(" ", text)
        if words.startswith(" "):
            self.gap(" ")
        if bare := words.strip(" "):
            self.write_raw(bare)
            if words.endswith(" "):
                self.gap(" ")

    def write_raw(self, text: str) -> None:
        """Add text whose white space stands."""
        if self._parts:
            self._parts.append(_BREAKS[self._pending])
        self._parts.append(text)
        self._pending = 0
        self._in_cell_start = False

    def text(self) -> str:
        """Give everything written so far."""
        return "".join(self._parts)


def html(content: bytes) -> Extract:
    """Give a page's visible text and its title.

    Left out: scripts, styles, comments, and what the `hidden` attribute or an inline style
    hides. What only a style sheet hides can't be seen from here and stays.
    """
    declared = EncodingDetector.find_declared_encoding(content, is_html=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)  # XHTML is HTML to us
        soup = BeautifulSoup(clean(decode(content, declared)), "lxml")
    named = soup.find("title") or soup.find("h1")
    return Extract(named.get_text(" ") if named else "", clean(_visible(soup)).strip())


def _visible(soup: BeautifulSoup) -> str:
    flow = Flow()
    # A stack, not recursion: hostile pages nest deeper than Python's limit. A string of our
    # own on the stack is the break that an element leaves behind when it ends.
    stack: list[tuple[PageElement | str, bool]] = [(soup, False)]
    while stack:
        node, is_raw = stack.pop()
        if isinstance(node, Tag):
            if node.name in _UNSEEN or _is_hidden(node):
                continue
            is_raw = is_raw or node.name == "pre"
            stack.append((_enter(node, flow), is_raw))
            stack.extend((child, is_raw) for child in reversed(node.contents))
        elif isinstance(node, PreformattedString):  # comments, doctypes, CDATA
            continue
        elif not isinstance(node, NavigableString):
            flow.gap(str(node))
        elif is_raw:
            flow.write_raw(str(node))
        else:
            flow.write(str(node))
    return flow.text()


def _enter(tag: Tag, flow: Flow) -> str:
    """Ask for the break before an element; give the one after it."""
    if tag.name == "br":
        flow.gap("\n")
    elif tag.name == "table":
        flow.table()
        return "\n\n"
    elif tag.name == "tr":
        flow.row()
        return "\n"
    elif tag.name in ("td", "th"):
        flow.cell()
    elif tag.name in _PARAGRAPHS:
        flow.gap("\n\n")
        return "\n\n"
    elif tag.name in _LINES:
        flow.gap("\n")
        return "\n"
    return ""


def _is_hidden(tag: Tag) -> bool:
    if tag.has_attr("hidden"):
        return True
    return bool(_HIDING.search(str(tag.get("style") or "")))
