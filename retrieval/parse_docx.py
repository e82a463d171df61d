"""Word files (.docx) to text. The only importer of python-docx.

python-docx's own reading order leaves out text boxes, content controls, notes, alternative
chunks and tracked insertions, and refuses strict OOXML; so it opens the package, and the walk
over the parts goes by local names.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping

from docx.opc.exceptions import OpcError
from docx.opc.package import OpcPackage
from docx.opc.part import Part
from docx.opc.rel import _Relationship
from docx.oxml.parser import parse_xml
from lxml import etree  # type: ignore[import-untyped] # no stubs installed

from retrieval.errors import ParseFailed
from retrieval.parse_html import Flow, html
from retrieval.parse_text import Extract, clean

_CHUNK_NBYTES = 1 << 18
# Small files may compress as well as they like.
_RATIO_FREE_NBYTES = 10 * 2**20
# In UTF-8 and in either order of UTF-16.
_DTD_MARKS = (b"<!DOCTYPE", b"<\0!\0D\0O\0C\0T\0Y\0P\0E")
# Properties, deleted and moved text, and the older twin of what a modern reader shows.
_UNSEEN = frozenset(("del", "moveFrom", "Fallback", "instrText", "delText"))
_XML_FAULTS = (OpcError, etree.LxmlError, KeyError, ValueError, AttributeError)


def is_docx(content: bytes) -> bool:
    """Say whether a ZIP archive holds a Word document. Raises: ParseFailed if damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return any(name.startswith("word/") for name in archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise ParseFailed("damaged archive: its directory can't be read") from None


def docx(content: bytes, most_entries: int, most_nbytes: int, most_ratio: int) -> Extract:
    """Give headers, body with tables in document order, notes and footers; and the title.

    The archive is inflated once, counting, before anything is built from it.
    Raises: ParseFailed if it is damaged, inflates past a limit, or declares XML entities.
    """
    _guard(content, most_entries, most_nbytes, most_ratio)
    try:
        package = OpcPackage.open(io.BytesIO(content))
        body = next(_related(package.rels, "officeDocument"), None)
        if body is None:
            raise ParseFailed("damaged Word file: it names no main document")
        title, text = _read(body)
        return Extract(_core_title(package) or title, text)
    except _XML_FAULTS as error:
        raise ParseFailed("damaged Word file: its parts can't be read") from error


def _guard(content: bytes, most_entries: int, most_nbytes: int, most_ratio: int) -> None:
    """Refuse archive bombs. Sizes that the archive declares may lie, so bytes are counted."""
    n_inflated = 0
    most = min(most_nbytes, max(len(content) * most_ratio, _RATIO_FREE_NBYTES))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if len(entries) > most_entries:
                found = f"found {len(entries)} entries in the Word file"
                raise ParseFailed(f"{found}, at most {most_entries} are read")
            for entry in entries:
                if entry.flag_bits & 1:
                    raise ParseFailed("encrypted Word file: it opens with a password only")
                with archive.open(entry) as stream:
                    tail = b""
                    while chunk := stream.read(_CHUNK_NBYTES):
                        n_inflated += len(chunk)
                        if n_inflated > most:
                            raise ParseFailed(
                                f"Word file of {len(content)} bytes inflates to more than {most}"
                            )
                        _refuse_entities(tail + chunk, entry.filename)
                        tail = chunk[-32:]
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError):
        raise ParseFailed("damaged Word file: its archive can't be read") from None


def _refuse_entities(part: bytes, name: str) -> None:
    if name.endswith((".xml", ".rels")) and any(mark in part for mark in _DTD_MARKS):
        raise ParseFailed("refused Word file: it declares XML entities, which Word never does")


def _related(relationships: Mapping[str, _Relationship], kind: str) -> Iterator[Part]:
    """Give the parts of one kind, by the last word of the relationship's type."""
    for relationship in relationships.values():
        if relationship.reltype.endswith(f"/{kind}") and not relationship.is_external:
            yield relationship.target_part


def _core_title(package: OpcPackage) -> str:
    for part in _related(package.rels, "core-properties"):
        for element in _root(part).iter():
            if _local(element) == "title":
                return (element.text or "").strip()
    return ""


def _read(body: Part) -> tuple[str, str]:
    """Give the first heading, and the text of the body with all that belongs to it."""
    headings = _heading_styles(body)
    title, main = _walk(body, headings)
    around = {
        kind: [_walk(part, headings)[1] for part in _related(body.rels, kind)]
        for kind in ("header", "footnotes", "endnotes", "footer")
    }
    texts = [*around["header"], main, *around["footnotes"], *around["endnotes"], *around["footer"]]
    # First pages and even pages have headers of their own, which mostly say the same.
    return title, "\n\n".join(dict.fromkeys(filter(None, texts)))


def _heading_styles(body: Part) -> frozenset[str]:
    """Give the ids of title and heading styles; ids are localised, names are not."""
    ids = set()
    for part in _related(body.rels, "styles"):
        for style in _root(part):
            for child in style:
                if _local(child) == "name":
                    name = _attribute(child, "val").lower()
                    if name == "title" or name.startswith("heading "):
                        ids.add(_attribute(style, "styleId"))
    return frozenset(ids)


def _walk(part: Part, headings: frozenset[str]) -> tuple[str, str]:
    flow = Flow()
    title = ""
    walker = etree.iterwalk(_root(part), events=("start", "end"))
    for event, element in walker:
        name = _local(element)
        starts = event == "start"
        if starts and (name in _UNSEEN or name.endswith("Pr") or _is_hidden_run(name, element)):
            walker.skip_subtree()
        elif name == "p":
            heads = _style(element) in headings
            flow.gap("\n\n" if heads else "\n")
            if starts and heads and not title:
                title = "".join(t.text or "" for t in element.iter() if _local(t) == "t").strip()
        elif name == "tbl":
            if starts:
                flow.table()
            else:
                flow.gap("\n\n")
        elif not starts:
            continue
        elif name == "t":
            flow.write(element.text or "")
        elif name == "tr":
            flow.row()
        elif name == "tc":
            flow.cell()
        elif name in ("br", "cr"):
            flow.gap("\n")
        elif name == "tab":
            flow.gap("\t")
        elif name == "noBreakHyphen":
            flow.write("-")
        elif name == "altChunk":
            flow.gap("\n\n")
            if text := _alternative(part, _attribute(element, "id")):
                flow.write_raw(text)
                flow.gap("\n\n")
    return title, clean(flow.text()).strip()


def _alternative(part: Part, relationship_id: str) -> str:
    """Give the text of an embedded HTML page; other kinds of chunks are left out."""
    relationship = part.rels.get(relationship_id)
    if relationship is None or relationship.is_external:
        return ""
    target = relationship.target_part
    return html(target.blob).text if "html" in target.content_type else ""


def _root(part: Part) -> etree._Element:
    element = getattr(part, "element", None)
    return parse_xml(part.blob) if element is None else element


def _local(element: etree._Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _attribute(element: etree._Element, local: str) -> str:
    return next((v for k, v in element.attrib.items() if k.rpartition("}")[2] == local), "")


def _style(paragraph: etree._Element) -> str:
    for properties in paragraph:
        if _local(properties) == "pPr":
            return next((_attribute(c, "val") for c in properties if _local(c) == "pStyle"), "")
    return ""


def _is_hidden_run(name: str, element: etree._Element) -> bool:
    if name != "r":
        return False
    return any(
        _local(mark) == "vanish" and _attribute(mark, "val") not in ("0", "false", "off")
        for properties in element
        if _local(properties) == "rPr"
        for mark in properties
    )
