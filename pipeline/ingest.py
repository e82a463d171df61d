"""The offline flow: each document is read, made, and stored with its rights, on its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy.orm import Session

from acl.audit import record
from acl.directory import create_collection, find_collection, find_principal
from acl.documents import Access, access_of, place, settle
from acl.errors import UnknownPrincipal
from acl.session import Database, Writing
from acl.tables import DocumentRow
from pipeline.access import AccessSheet, access_of_rule, apply_sheet, check_references
from pipeline.errors import RulesRefused
from pipeline.making import Made, Maker, fingerprint, text_bytes
from pipeline.sources import Item, Text
from retrieval.corpus import find_source, store
from retrieval.errors import ParseFailed, VersionsMoved
from retrieval.tables import ContentRow

FILES = "files"


class Result(StrEnum):
    """What became of one document."""

    CREATED = "created"
    UPDATED = "updated"
    ACCESS_CHANGED = "access changed"
    UNCHANGED = "unchanged"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the report: which document, what became of it, and why it failed."""

    shown: str
    result: Result
    n_passages: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ingest:
    """Brings documents in on behalf of the operator."""

    database: Database
    maker: Maker

    def prepare(self, tenant: str, items: Sequence[Item], sheet: AccessSheet | None = None) -> None:
        """Check every name before anything is stored, then put the sheet's rules in force.

        Raises: RulesRefused naming all unknown principals; nothing was written then.
        """
        with self.database.writing(tenant) as writing:
            if sheet is not None:
                check_references(writing.session, sheet)
                apply_sheet(writing, sheet)
            _check_rules(writing.session, items)
            for path in sorted({item.collection for item in items}):
                create_collection(writing, path)

    def run(self, tenant: str, items: Iterable[Item]) -> Iterator[Outcome]:
        """Ingest each item in a transaction of its own; a bad one fails alone.

        An outcome is given after its commit: what was reported is durable.
        Raises: StorageFull if the disk is full; what was reported stays.
        """
        for item in items:
            try:
                yield self._one(tenant, item)
            except ParseFailed as failure:
                yield Outcome(item.shown, Result.FAILED, reason=str(failure))

    def _one(self, tenant: str, item: Item) -> Outcome:
        content = item.load()
        digest = fingerprint(
            text_bytes(content.title, content.text) if isinstance(content, Text) else content
        )
        with self.database.reading(tenant) as session:
            current = _is_current(session, item, digest, self.maker.recipe)
        while True:
            made = None if current else self._make(item.shown, content)
            try:
                with self.database.writing(tenant) as writing:
                    return self._put(writing, item, made)
            except VersionsMoved:
                continue  # A version was begun since: encoded again, it is among the others.

    def _make(self, shown: str, content: bytes | Text) -> Made:
        if isinstance(content, Text):
            return self.maker.make_text(content.title, content.text)
        return self.maker.make(shown, content)

    def _put(self, writing: Writing, item: Item, made: Made | None) -> Outcome:
        session = writing.session
        collection = find_collection(session, item.collection)
        document = find_source(session, FILES, item.source)
        if document is None and made is None:
            # Deleted by somebody since it was found unchanged: what was asked for is that it is in.
            return self._put(writing, item, self._make(item.shown, item.load()))
        access = None if item.rule is None else access_of_rule(session, item.rule)
        if document is None:
            document = place(writing, collection, access or Access())
            result = Result.CREATED
        else:
            kept = access or access_of(session, document)
            moved = settle(writing, document, kept, collection.id)
            result = Result.ACCESS_CHANGED if moved else Result.UNCHANGED
        if made is not None and result is not Result.CREATED:
            result = Result.UPDATED
        if result is not Result.UNCHANGED:
            named = f"document:{document.public_id}"
            record(session, None, "document.ingest", named, reason=result.value)
        if made is None:
            return Outcome(item.shown, result)
        origin = self.maker.origin(made, FILES, item.source)
        store(writing, document, made.parsed, made.pieces, made.vectors, origin)
        return Outcome(item.shown, result, len(made.pieces))


def _is_current(session: Session, item: Item, digest: str, recipe: str) -> bool:
    document: DocumentRow | None = find_source(session, FILES, item.source)
    if document is None:
        return False
    content = session.get_one(ContentRow, document.id)
    return content.sha256 == digest and content.recipe == recipe


def _check_rules(session: Session, items: Iterable[Item]) -> None:
    named: dict[str, str] = {}
    for item in items:
        for reference in item.rule.references() if item.rule else ():
            named.setdefault(reference, item.shown)
    unknown = []
    for reference, shown in sorted(named.items()):
        try:
            find_principal(session, reference)
        except UnknownPrincipal as failure:
            unknown.append(f"{shown}: {failure}")
    if unknown:
        more = f" (and {len(unknown) - 10} more)" if len(unknown) > 10 else ""
        raise RulesRefused("nothing was ingested: " + "; ".join(unknown[:10]) + more)
