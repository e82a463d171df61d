"""Documents and passages in and out of SQL, always inside somebody's transaction."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from pyroaring import FrozenBitMap
from sqlalchemy import ColumnElement, Row, Select, bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT
from sqlalchemy.orm import InstrumentedAttribute, Session

from acl.session import Database, Writing, counters
from acl.tables import ChangeRow, CollectionRow, DocumentRow
from acl.types import AccessScope
from retrieval.errors import IndexMismatch
from retrieval.tables import ContentRow, PassageRow
from retrieval.types import Changes, Ids, Page, Parsed, Passage, Piece, Rows, Vectors


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a document's bytes came from, and the recipe its passages are made by."""

    origin: str
    source: str
    sha256: str
    nbytes: int
    recipe: str
    encoder: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A document as its readers see it in a list."""

    id: str
    title: str
    collection: str
    media_type: str
    nbytes: int
    n_passages: int
    created_s: float


class Corpus:
    """The stored corpus of every tenant, as the index reads it (`retrieval.shelf.Source`)."""

    def __init__(self, database: Database, encoder: str, width: int) -> None:
        self._database = database
        self._encoder = encoder
        self._width = width

    def changes(self, tenant: str, since: int | None) -> Changes:
        """Give what happened after a content sequence, or everything; in one snapshot.

        Raises: IndexMismatch if stored vectors are of another encoder or width.
        """
        with self._database.reading(tenant) as session:
            sequence = counters(session).content_sequence
            rows = _passages_with_vectors()
            documents: Ids = np.empty(0, np.int64)
            if since is not None:
                logged = select(ChangeRow.document_id).where(ChangeRow.sequence > since).distinct()
                documents = np.asarray(sorted(session.scalars(logged)), dtype=np.int64)
                rows = rows.where(DocumentRow.id.in_(logged.scalar_subquery()))
            columns = self._columns(session.execute(rows).all())
        return Changes(sequence, np.union1d(documents, columns.documents), columns)

    def _columns(self, rows: Sequence[Row[int, int, int, bytes, str, str, str]]) -> Rows:
        for row in rows:
            width = len(row[3]) // 4
            if row[6] != self._encoder or width != self._width:
                raise IndexMismatch(
                    f"stored vectors are of {row[6]} with width {width}, the encoder is "
                    f"{self._encoder} with width {self._width}: set OSTIARY_RETRIEVAL__ENCODER to "
                    "the old one, or ingest everything again"
                )
        vectors = np.frombuffer(b"".join(row[3] for row in rows), dtype="<f4")
        return Rows(
            ids=np.asarray([row[0] for row in rows], dtype=np.int64),
            classes=np.asarray([row[1] for row in rows], dtype=np.int64),
            documents=np.asarray([row[2] for row in rows], dtype=np.int64),
            vectors=vectors.astype(np.float32).reshape(len(rows), self._width),
            texts=tuple(f"{row[4]}\n{row[5]}" for row in rows),
        )


def store(
    writing: Writing,
    document: DocumentRow,
    parsed: Parsed,
    pieces: Sequence[Piece],
    vectors: Vectors,
    origin: Origin,
) -> None:
    """Put a document's content in, in place of what it had. vectors: float32 [n pieces, d]."""
    if len(pieces) != len(vectors):
        raise ValueError(f"{len(pieces)} pieces but {len(vectors)} vectors")
    session = writing.session
    if erase(writing, document):
        writing.passages_left(document.class_id)
    content = ContentRow(
        document_id=document.id,
        origin=origin.origin,
        source=origin.source,
        sha256=origin.sha256,
        recipe=origin.recipe,
        encoder=origin.encoder,
        title=parsed.title,
        media_type=parsed.media_type,
        nbytes=origin.nbytes,
        text=parsed.text,
        pages=[(page.number, page.start, page.end) for page in parsed.pages],
        created_s=time.time(),
    )
    session.add(content)
    session.add_all(
        PassageRow(
            document_id=document.id,
            ordinal=ordinal,
            start=piece.start,
            end=piece.end,
            page=piece.page,
            text=piece.text,
            vector=vector.astype("<f4").tobytes(),
        )
        for ordinal, (piece, vector) in enumerate(zip(pieces, vectors, strict=True), start=1)
    )
    writing.document_changed(document.id)


def erase(writing: Writing, document: DocumentRow) -> bool:
    """Take a document's content out; False if it had none."""
    session = writing.session
    session.execute(delete(PassageRow).where(PassageRow.document_id == document.id))
    old = session.get(ContentRow, document.id)
    if old is None:
        return False
    session.delete(old)
    session.flush()
    return True


def find_source(session: Session, origin: str, source: str) -> DocumentRow | None:
    """Find the operator's document by its source key."""
    return session.scalar(_of_source(origin, source).order_by(DocumentRow.id))


def find_readable_source(
    session: Session, origin: str, source: str, collection_id: int, scope: AccessScope
) -> DocumentRow | None:
    """Find a caller's document by source key, only among what the caller may read.

    A document that the caller can't read does not answer to its key: the outcome of an
    upload never tells that it exists.
    """
    wanted = _of_source(origin, source).where(
        DocumentRow.collection_id == collection_id, among(session, scope.classes)
    )
    return session.scalar(wanted.order_by(DocumentRow.id))


def standing(session: Session, ids: Iterable[int], scope: AccessScope) -> dict[int, Passage]:
    """Load, of these passages, the ones that exist and are readable, in this snapshot."""
    rows = session.execute(
        select(
            PassageRow.id, DocumentRow.public_id, PassageRow.ordinal, DocumentRow.class_id,
            ContentRow.title, PassageRow.text, PassageRow.start, PassageRow.end, PassageRow.page,
        )
        .join(DocumentRow, DocumentRow.id == PassageRow.document_id)
        .join(ContentRow, ContentRow.document_id == PassageRow.document_id)
        .where(_one_of(session, PassageRow.id, list(ids)))
    )  # fmt: skip
    return {row.id: Passage(*row) for row in rows if row.class_id in scope.classes}


def passage_of(session: Session, document: DocumentRow, ordinal: int) -> Passage | None:
    """Load one passage of a document by its place in it, from 1."""
    row = session.execute(
        select(PassageRow, ContentRow.title)
        .join(ContentRow, ContentRow.document_id == PassageRow.document_id)
        .where(PassageRow.document_id == document.id, PassageRow.ordinal == ordinal)
    ).one_or_none()
    if row is None:
        return None
    at, title = row
    return Passage(
        at.id, document.public_id, ordinal, document.class_id, title, at.text, at.start, at.end,
        at.page,
    )  # fmt: skip


def content_of(session: Session, document: DocumentRow) -> tuple[Parsed, Listed]:
    """Load a document's text, and the line that a list shows of it."""
    content = session.get_one(ContentRow, document.id)
    parsed = Parsed(
        content.title, content.text, content.media_type, tuple(Page(*p) for p in content.pages)
    )
    listed = session.execute(_listing().where(DocumentRow.id == document.id)).one()
    return parsed, Listed(*listed)


def list_readable(
    session: Session, scope: AccessScope, after: str | None, n_documents: int
) -> list[Listed]:
    """List readable documents, oldest first, after the one with this public id."""
    wanted = _listing().where(among(session, scope.classes)).order_by(DocumentRow.id)
    if after is not None:
        last = select(DocumentRow.id).where(
            DocumentRow.public_id == after, among(session, scope.classes)
        )
        wanted = wanted.where(DocumentRow.id > func.coalesce(last.scalar_subquery(), 0))
    return [Listed(*row) for row in session.execute(wanted.limit(n_documents))]


def among(session: Session, classes: FrozenBitMap) -> ColumnElement[bool]:
    """Say that a document is in one of these classes, however many there are.

    One bound value, not one for each class: databases limit how many a statement may have.
    """
    return _one_of(session, DocumentRow.class_id, list(classes))


def _one_of(
    session: Session, column: InstrumentedAttribute[int], numbers: list[int]
) -> ColumnElement[bool]:
    if session.get_bind().dialect.name == "postgresql":
        return column == func.any(bindparam(None, numbers, ARRAY(BIGINT)))
    each = func.json_each(str(numbers)).table_valued("value")
    return column.in_(select(each.c.value))


def _of_source(origin: str, source: str) -> Select[DocumentRow]:
    return (
        select(DocumentRow)
        .join(ContentRow, ContentRow.document_id == DocumentRow.id)
        .where(ContentRow.origin == origin, ContentRow.source == source)
    )


def _listing() -> Select[str, str, str, str, int, int, float]:
    n_passages = (
        select(func.count(PassageRow.id))
        .where(PassageRow.document_id == DocumentRow.id)
        .correlate(DocumentRow)
        .scalar_subquery()
    )
    return (
        select(
            DocumentRow.public_id, ContentRow.title, CollectionRow.path, ContentRow.media_type,
            ContentRow.nbytes, n_passages, ContentRow.created_s,
        )
        .join(ContentRow, ContentRow.document_id == DocumentRow.id)
        .join(CollectionRow, CollectionRow.id == DocumentRow.collection_id)
    )  # fmt: skip


def _passages_with_vectors() -> Select[int, int, int, bytes, str, str, str]:
    return (
        select(
            PassageRow.id, DocumentRow.class_id, DocumentRow.id, PassageRow.vector,
            ContentRow.title, PassageRow.text, ContentRow.encoder,
        )
        .join(DocumentRow, DocumentRow.id == PassageRow.document_id)
        .join(ContentRow, ContentRow.document_id == DocumentRow.id)
        .order_by(PassageRow.id)
    )  # fmt: skip
