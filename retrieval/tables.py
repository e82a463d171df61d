"""What documents hold: their text and passages. The vectors' truth is here (law 9)."""

from __future__ import annotations

from sqlalchemy import JSON, ForeignKey, Index, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from acl.tables import RowId, TenantRow


class ContentRow(TenantRow):
    """The text of a document, where it came from, and how its passages were made.

    `source` is the stable key of where it came from, within `origin` ("files" for what the
    operator ingests, "upload" for what callers send). `sha256` is of the bytes as they came.
    `recipe` names parser, chunking and encoder: another recipe means the passages are stale.
    `pages` lists [number, start, end].
    """

    __tablename__ = "content"
    __table_args__ = (Index("content_by_source", "tenant", "origin", "source"),)
    document_id: Mapped[int] = mapped_column(
        ForeignKey("document.id"), primary_key=True, autoincrement=False
    )
    origin: Mapped[str] = mapped_column(String(10))
    source: Mapped[str] = mapped_column(String(2000))
    sha256: Mapped[str] = mapped_column(String(64))
    recipe: Mapped[str] = mapped_column(String(200))
    encoder: Mapped[str] = mapped_column(String(100))
    title: Mapped[str] = mapped_column(String(300))
    media_type: Mapped[str] = mapped_column(String(100))
    nbytes: Mapped[int]
    text: Mapped[str] = mapped_column(Text)
    pages: Mapped[list[tuple[int, int, int]]] = mapped_column(JSON)
    created_s: Mapped[float]


class PassageRow(TenantRow):
    """A passage. Its access class is that of its document, its vectors are `EmbeddingRow`s."""

    __tablename__ = "passage"
    __table_args__ = (
        Index("passage_by_document", "tenant", "document_id", "ordinal"),
        {"sqlite_autoincrement": True},
    )
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    document_id: Mapped[int] = mapped_column(ForeignKey("document.id"))
    ordinal: Mapped[int]
    start: Mapped[int]
    end: Mapped[int]
    page: Mapped[int | None]
    text: Mapped[str] = mapped_column(Text)


class EmbeddingRow(TenantRow):
    """The vector of a passage in one index version: d little-endian float32, a unit row."""

    __tablename__ = "embedding"
    passage_id: Mapped[int] = mapped_column(
        ForeignKey("passage.id"), primary_key=True, autoincrement=False
    )
    version_id: Mapped[int] = mapped_column(RowId, primary_key=True, autoincrement=False)
    vector: Mapped[bytes] = mapped_column(LargeBinary)
