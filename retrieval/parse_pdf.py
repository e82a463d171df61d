"""PDF to text, page by page. The only importer of pypdfium2."""

from __future__ import annotations

import pypdfium2
import pypdfium2.raw as pdfium

from retrieval.errors import ParseFailed
from retrieval.parse_text import Extract, clean
from retrieval.types import Page

# What programs write into the metadata when nobody gave a title.
_NO_TITLES = frozenset(("untitled", "(anonymous)", "anonymous", "unspecified", "(unspecified)"))
_ENCRYPTED = (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY)


def pdf(content: bytes, most_pages: int) -> Extract:
    """Give the text layer of every page that can be read, with values of forms and notes.

    Raises: ParseFailed if it needs a password, is damaged, has no text, or too many pages.
    """
    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if error.err_code in _ENCRYPTED:
            raise ParseFailed("encrypted PDF: it opens with a password only") from None
        raise ParseFailed("damaged PDF: its structure can't be read") from error
    with document:
        document.init_forms()  # so that fields without a drawn appearance get one
        n_pages = len(document)
        if n_pages > most_pages:
            raise ParseFailed(f"found {n_pages} pages, at most {most_pages} are read")
        texts: list[str] = []
        n_unread = n_pictured = 0
        for index in range(n_pages):
            try:
                text, has_objects = _page_text(document, index)
            except pypdfium2.PdfiumError:
                text, has_objects = "", False
                n_unread += 1
            texts.append(text)
            n_pictured += has_objects and not text
        if not any(texts):
            raise ParseFailed(_why_empty(n_pages, n_unread, n_pictured))
        title = clean(document.get_metadata_value("Title")).strip()
    text, pages = _join(texts)
    title = "" if title.lower() in _NO_TITLES else title.removeprefix("Microsoft Word - ")
    return Extract(title or text.lstrip().split("\n", 1)[0], text, pages)


def _page_text(document: pypdfium2.PdfDocument, index: int) -> tuple[str, bool]:
    """Give a page's text, and whether anything at all is drawn on it."""
    page = document[index]
    try:
        if pdfium.FPDFPage_GetAnnotCount(page) > 0:
            # Values of form fields and notes are no page text until drawn into the page.
            pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY)
            page.close()
            page = document[index]
        with_text = page.get_textpage()
        try:
            text = clean(with_text.get_text_range()).strip()
        finally:
            with_text.close()
        return text, pdfium.FPDFPage_CountObjects(page) > 0
    finally:
        page.close()


def _join(texts: list[str]) -> tuple[str, tuple[Page, ...]]:
    """Put pages one after the other, each with its span; blank ones have an empty span."""
    pages = []
    start = 0
    for number, text in enumerate(texts, start=1):
        pages.append(Page(number, start, start + len(text)))
        start += len(text) + 1
    return "\n".join(texts), tuple(pages)


def _why_empty(n_pages: int, n_unread: int, n_pictured: int) -> str:
    if n_unread == n_pages:
        return f"damaged PDF: none of its {n_pages} pages can be read"
    if n_pictured:
        return f"no text layer: {n_pictured} of {n_pages} pages hold only pictures and need OCR"
    return f"empty PDF: nothing is on its {n_pages} pages"
