"""Small PDF and Word files, made in the test that reads them."""

from __future__ import annotations

import io
import zipfile

import docx


def make_pdf(*pages: str, title: str = "") -> bytes:
    """Give a PDF with one line of ASCII on each page, written out by hand."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b""]
    kids = []
    for line in pages:
        stream = f"BT /F1 24 Tf 72 700 Td ({line}) Tj ET".encode() if line else b""
        n = len(objects) + 1
        kids.append(f"{n} 0 R")
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents {n + 1} 0 R"
            "/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>".encode()
        )
        objects.append(b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream))
    objects[1] = f"<</Type/Pages/Count {len(kids)}/Kids[{' '.join(kids)}]>>".encode()
    objects.append(f"<</Title({title})>>".encode())
    out = io.BytesIO()
    out.write(b"%PDF-1.4\n")
    offsets = []
    for number, content in enumerate(objects, start=1):
        offsets.append(out.tell())
        out.write(b"%d 0 obj%b\nendobj\n" % (number, content))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.writelines(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = f"trailer<</Size {len(objects) + 1}/Root 1 0 R/Info {len(objects)} 0 R>>"
    out.write(f"{trailer}\nstartxref\n{start}\n%%EOF".encode())
    return out.getvalue()


def make_docx(**changes: bytes) -> bytes:
    """Give a Word file with a heading, a table in a table, header and footer."""
    document = docx.Document()
    document.add_heading("Annual report", level=1)
    document.add_paragraph("Before the table.")
    table = document.add_table(rows=1, cols=2)
    table.cell(0, 0).text = "a<b & c>d"
    inner = table.cell(0, 1).add_table(rows=1, cols=2)
    inner.cell(0, 0).text = "inner one"
    inner.cell(0, 1).text = "inner two"
    document.add_paragraph("After the table.")
    document.sections[0].header.paragraphs[0].text = "House style"
    document.sections[0].footer.paragraphs[0].text = "Page foot"
    out = io.BytesIO()
    document.save(out)
    return rezip(out.getvalue(), changes) if changes else out.getvalue()


def rezip(archive: bytes, changes: dict[str, bytes]) -> bytes:
    """Give a copy of a ZIP archive with the text of some entries replaced or added."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(archive)) as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in {**dict.fromkeys(old.namelist()), **changes}:
            new.writestr(name, changes[name] if name in changes else old.read(name))
    return out.getvalue()


def body_xml(inner: str, prolog: str = "") -> bytes:
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    return f'{prolog}<w:document xmlns:w="{word}"><w:body>{inner}</w:body></w:document>'.encode()
