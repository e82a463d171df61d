"""Documents and passages in and out of SQL, always inside somebody's transaction."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyroaring import FrozenBitMap
from sqlalchemy import ColumnElement, Select, bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT
from sqlalchemy.orm import InstrumentedAttribute, Session

from acl.session import Writing
from acl.tables import CollectionRow, DocumentRow
from acl.types import AccessScope
from acl.versions import begin, held_versions
from retrieval.embeddings import put_vectors
from retrieval.errors import VersionsMoved
from retrieval.tables import ContentRow, EmbeddingRow, PassageRow
from retrieval.types import Page, Parsed, Passage, Piece, Vectors


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a document's bytes came from, and the recipe its passages are made by.

    encoder: the name of the encoder whose tokens passages are counted in. loaded_as: what the
    settings call it.
    """

    origin: str
    source: str
    sha256: str
    nbytes: int
    recipe: str
    encoder: str
    loaded_as: str = "default"


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


def store(
    writing: Writing,
    document: DocumentRow,
    parsed: Parsed,
    pieces: Sequence[Piece],
    vectors: Mapping[str, Vectors],
    origin: Origin,
) -> None:
    """Put a document's content in, in place of what it had.

    Args: vectors: float32 [n pieces, d] by the encoder's name, for every index version.
    Raises: VersionsMoved if there is a version for which there are no vectors.
    """
    for name, own in vectors.items():
        if len(pieces) != len(own):
            raise ValueError(f"{len(pieces)} pieces but {len(own)} vectors of {name}")
    session = writing.session
    known = held_versions(session)
    if not known:
        width = vectors[origin.encoder].shape[1]
        known = (begin(session, origin.loaded_as, origin.encoder, width),)
    if lacking := [each.name for each in known if each.name not in vectors]:
        raise VersionsMoved(f"there are no vectors of {', '.join(lacking)}")
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
    rows = [
        PassageRow(
            document_id=document.id,
            ordinal=ordinal,
            start=piece.start,
            end=piece.end,
            page=piece.page,
            text=piece.text,
        )
        for ordinal, piece in enumerate(pieces, start=1)
    ]
    session.add_all(rows)
    session.flush()
    for version in known:
        put_vectors(session, version.id, [row.id for row in rows], vectors[version.name])
    writing.document_changed(document.id)


def erase(writing: Writing, document: DocumentRow) -> bool:
    """Take a document's content out; False if it had none."""
    session = writing.session
    own = select(PassageRow.id).where(PassageRow.document_id == document.id)
    session.execute(delete(EmbeddingRow).where(EmbeddingRow.passage_id.in_(own)))
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
            CollectionRow.path,
        )
        .join(DocumentRow, DocumentRow.id == PassageRow.document_id)
        .join(CollectionRow, CollectionRow.id == DocumentRow.collection_id)
        .join(ContentRow, ContentRow.document_id == PassageRow.document_id)
        .where(_one_of(session, PassageRow.id, list(ids)))
    )  # fmt: skip
    return {row.id: Passage(*tuple(row)) for row in rows if row.class_id in scope.classes}


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
