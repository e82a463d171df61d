"""Vectors in SQL, one for each passage and index version: what an index is built from (law 9)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlalchemy import ColumnElement, Row, Select, delete, func, select
from sqlalchemy.orm import Session

from acl.session import Database, counters
from acl.tables import ChangeRow, DocumentRow, IndexVersionRow
from retrieval.errors import IndexMismatch
from retrieval.tables import ContentRow, EmbeddingRow, PassageRow
from retrieval.types import Changes, Ids, Rows, Vectors


class Corpus:
    """The stored corpus of every tenant in one index version (`retrieval.shelf.Source`)."""

    def __init__(self, database: Database, encoder: str, width: int) -> None:
        self._database = database
        self._encoder = encoder
        self._width = width

    def changes(self, tenant: str, since: int | None) -> Changes:
        """Give what happened after a content sequence, or everything; in one snapshot.

        Raises: IndexMismatch if a passage has no vector of this encoder and width.
        """
        with self._database.reading(tenant) as session:
            sequence = counters(session).content_sequence
            version = session.scalars(
                select(IndexVersionRow.id).where(IndexVersionRow.name == self._encoder)
            ).one_or_none()
            rows = _passages_with_vectors(version or 0)
            documents: Ids = np.empty(0, np.int64)
            if since is not None:
                logged = select(ChangeRow.document_id).where(ChangeRow.sequence > since).distinct()
                documents = np.asarray(sorted(session.scalars(logged)), dtype=np.int64)
                rows = rows.where(DocumentRow.id.in_(logged.scalar_subquery()))
            columns = self._columns(session.execute(rows).all())
        return Changes(sequence, np.union1d(documents, columns.documents), columns)

    def volume(self, tenant: str) -> tuple[int, int]:
        """Count a tenant's passages, and the letters of them and of their titles."""
        letters = func.length(PassageRow.text) + func.length(ContentRow.title)
        wanted = select(func.count(), func.coalesce(func.sum(letters), 0)).join(
            ContentRow, ContentRow.document_id == PassageRow.document_id
        )
        with self._database.reading(tenant) as session:
            n_passages, n_letters = session.execute(wanted.select_from(PassageRow)).one()
        return int(n_passages), int(n_letters)

    def _columns(self, rows: Sequence[Row[int, int, int, bytes | None, str, str]]) -> Rows:
        held = [row[3] or b"" for row in rows]
        n_unfit = sum(len(each) != 4 * self._width for each in held)
        if n_unfit:
            raise IndexMismatch(
                f"{n_unfit} of {len(rows)} passages have no vector of {self._encoder} with width "
                f"{self._width}; see: ostiary index list"
            )
        vectors = np.frombuffer(b"".join(held), dtype="<f4")
        return Rows(
            ids=np.asarray([row[0] for row in rows], dtype=np.int64),
            classes=np.asarray([row[1] for row in rows], dtype=np.int64),
            documents=np.asarray([row[2] for row in rows], dtype=np.int64),
            vectors=vectors.astype(np.float32).reshape(len(rows), self._width),
            texts=tuple(f"{row[4]}\n{row[5]}" for row in rows),
        )


def put_vectors(session: Session, version: int, passages: Sequence[int], vectors: Vectors) -> None:
    """Store vectors of passages. vectors: float32 [n, d]."""
    session.add_all(
        EmbeddingRow(passage_id=passage, version_id=version, vector=vector.astype("<f4").tobytes())
        for passage, vector in zip(passages, vectors, strict=True)
    )
    session.flush()


def lacking(session: Session, version: int, n_most: int) -> list[tuple[int, str, str]]:
    """Find passages that have no vector of a version: id, title and text, at most so many."""
    wanted = (
        select(PassageRow.id, ContentRow.title, PassageRow.text)
        .join(ContentRow, ContentRow.document_id == PassageRow.document_id)
        .where(~_has_vector(version))
        .order_by(PassageRow.id)
        .limit(n_most)
    )
    return [(row[0], row[1], row[2]) for row in session.execute(wanted)]


def passages_after(session: Session, last: int, n_most: int) -> list[tuple[int, str, str]]:
    """Read passages with higher ids than the last: id, title and text, at most so many."""
    wanted = (
        select(PassageRow.id, ContentRow.title, PassageRow.text)
        .join(ContentRow, ContentRow.document_id == PassageRow.document_id)
        .where(PassageRow.id > last)
        .order_by(PassageRow.id)
        .limit(n_most)
    )
    return [(row[0], row[1], row[2]) for row in session.execute(wanted)]


def documents_of(session: Session, passages: Sequence[int]) -> list[int]:
    """Name the documents of some passages."""
    wanted = select(PassageRow.document_id).where(PassageRow.id.in_(passages)).distinct()
    return list(session.scalars(wanted))


def n_lacking(session: Session, version: int) -> int:
    """Count the passages that have no vector of a version."""
    wanted = select(func.count()).select_from(PassageRow).where(~_has_vector(version))
    return session.scalars(wanted).one()


def still_lacking(session: Session, version: int, passages: Sequence[int]) -> set[int]:
    """Say which of some passages exist and have no vector of a version."""
    wanted = select(PassageRow.id).where(PassageRow.id.in_(passages), ~_has_vector(version))
    return set(session.scalars(wanted))


def remove_vectors(
    session: Session, version: int, n_most: int, among: Sequence[int] | None = None
) -> int:
    """Delete vectors of a version, at most so many; gives how many.

    Args: among: of these passages only.
    """
    some = select(EmbeddingRow.passage_id).where(EmbeddingRow.version_id == version).limit(n_most)
    if among is not None:
        some = some.where(EmbeddingRow.passage_id.in_(among))
    gone = session.scalars(some).all()
    session.execute(
        delete(EmbeddingRow).where(
            EmbeddingRow.version_id == version, EmbeddingRow.passage_id.in_(gone)
        )
    )
    return len(gone)


def _has_vector(version: int) -> ColumnElement[bool]:
    return (
        select(EmbeddingRow.passage_id)
        .where(EmbeddingRow.passage_id == PassageRow.id, EmbeddingRow.version_id == version)
        .exists()
    )


def _passages_with_vectors(version: int) -> Select[int, int, int, bytes | None, str, str]:
    return (
        select(
            PassageRow.id, DocumentRow.class_id, DocumentRow.id, EmbeddingRow.vector,
            ContentRow.title, PassageRow.text,
        )
        .join(DocumentRow, DocumentRow.id == PassageRow.document_id)
        .join(ContentRow, ContentRow.document_id == DocumentRow.id)
        .outerjoin(
            EmbeddingRow,
            (EmbeddingRow.passage_id == PassageRow.id) & (EmbeddingRow.version_id == version),
        )
        .order_by(PassageRow.id)
    )  # fmt: skip
