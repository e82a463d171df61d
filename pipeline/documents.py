"""Documents as callers see and change them; each call decides in its own transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from acl.audit import AuditLog, record
from acl.authorize import Authority
from acl.documents import Access, access_of, place, remove, settle
from acl.errors import UnknownResource
from acl.resources import own_grants
from acl.session import Database, Writing
from acl.tables import CollectionRow, DocumentRow
from acl.types import Action, Level, Principal, Resource
from pipeline.access import Rule
from pipeline.decide import Door, Visit
from pipeline.ingest import Result
from pipeline.making import Made, Maker, fingerprint
from pipeline.naming import Where, access_wanted, document_at, resource_at, rule_of
from retrieval.corpus import (
    Listed,
    content_of,
    erase,
    find_readable_source,
    list_readable,
    passage_of,
    store,
)
from retrieval.errors import VersionsMoved
from retrieval.tables import ContentRow
from retrieval.types import Passage

UPLOAD = "upload"
_CONTEXT_CHARS = 300


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that a caller sends into a collection; its name there is its source key.

    `rule` is None where the caller says nothing of readers: a new document then has those of
    its collection, a known one keeps its own.
    """

    collection: str
    name: str
    content: bytes
    title: str = ""
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of an upload."""

    id: str
    result: Result


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a document's text: [start, end) of n_chars."""

    document: Listed
    text: str
    start: int
    end: int
    n_chars: int


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A cited passage with the text right before and after it."""

    passage: Passage
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class _Plan:
    collection: Resource
    document: DocumentRow | None
    access: Access | None


class Documents:
    """Lists, opens, takes in and removes documents on behalf of callers. Calls block."""

    def __init__(
        self,
        database: Database,
        authority: Authority,
        maker: Maker,
        log: AuditLog,
        now_s: Callable[[], float] = time.time,
        hold: Callable[[str, Made], AbstractContextManager[None]] | None = None,
    ) -> None:
        self._door = Door(database, authority, log, now_s)
        self._log = log
        self._maker = maker
        self._hold = hold or (lambda *_: nullcontext())

    def list(
        self, principal: Principal, after: str | None, n_documents: int
    ) -> tuple[Listed, ...]:  # fmt: skip
        """List readable documents, oldest first, after the one with this id.

        Raises: UnknownResource if `after` is none that the caller may read.
        """
        with self._door.reading(principal, "document.list", f"document:{after}") as visit:
            if after is not None:
                _readable(visit, after)
            return tuple(list_readable(visit.session, visit.scope, after, n_documents))

    def get(self, principal: Principal, public_id: str) -> Listed:
        """Give what is told of a document. Raises: UnknownResource."""
        with self._door.reading(principal, "document.get", f"document:{public_id}") as visit:
            return content_of(visit.session, _readable(visit, public_id))[1]

    def text(
        self, principal: Principal, public_id: str, start: int = 0, end: int | None = None
    ) -> Stretch:
        """Give a stretch of a document's text, all of it by default. Raises: UnknownResource."""
        with self._door.reading(principal, "document.text", f"document:{public_id}") as visit:
            parsed, listed = content_of(visit.session, _readable(visit, public_id))
        self._log.note(principal, "document.text", "", documents=[public_id])
        n_chars = len(parsed.text)
        last = n_chars if end is None else min(end, n_chars)
        first = min(start, last)
        return Stretch(listed, parsed.text[first:last], first, last, n_chars)

    def passage(self, principal: Principal, public_id: str, ordinal: int) -> Excerpt:
        """Open what a citation points at. Raises: UnknownResource."""
        with self._door.reading(principal, "document.passage", f"document:{public_id}") as visit:
            document = _readable(visit, public_id)
            passage = passage_of(visit.session, document, ordinal)
            if passage is None:
                raise UnknownResource("the document has no such passage")
            text = content_of(visit.session, document)[0].text
        self._log.note(principal, "document.passage", "", documents=[public_id])
        before = text[max(0, passage.start - _CONTEXT_CHARS) : passage.start]
        return Excerpt(passage, before, text[passage.end : passage.end + _CONTEXT_CHARS])

    def upload(self, principal: Principal, upload: Upload) -> Stored:
        """Take in a file: needs write on the collection, manage where readers are named.

        A file of the same name becomes a new version of the caller's document if the caller
        may read and write that one; one that can't be read is neither found nor told of.
        Decided before the costly part, so that it is done for nobody without rights, and
        again in the write.
        Raises: UnknownResource; NotAllowed; RulesRefused; ParseFailed; LedgerFull if the index
            has no room for it: then nothing is stored.
        """
        made: Made | None = None
        about = "document.upload", f"collection:{upload.collection}"
        digest = fingerprint(upload.content)
        while True:
            with self._door.reading(principal, *about) as visit:
                plan = self._plan(visit, upload)
                current = self._is_current(visit, plan.document, upload, digest)
            if not current and made is None:
                made = self._maker.make(upload.name, upload.content, title=upload.title)
            room = nullcontext() if made is None else self._hold(principal.tenant, made)
            try:
                with room, self._door.writing(principal, *about) as (writing, visit):
                    plan = self._plan(visit, upload)
                    current = self._is_current(visit, plan.document, upload, digest)
                    if current or made is not None:
                        return self._put(writing, visit, plan, upload, None if current else made)
            except VersionsMoved:
                made = None
            # It was there and current, and went before the write, or an index version was
            # begun: now it must be made.

    def access(self, principal: Principal, public_id: str) -> Rule:
        """Give a document's own access; needs manage. Raises: UnknownResource; NotAllowed."""
        with self._door.reading(principal, "document.access", f"document:{public_id}") as visit:
            at = visit.require(Action.MANAGE, *_found(visit, public_id))
            row = visit.session.get_one(DocumentRow, at.id)
            return rule_of(visit.session, access_of(visit.session, row))

    def set_access(self, principal: Principal, public_id: str, rule: Rule) -> Rule:
        """Set a document's own access; needs manage. Gives what stands then.

        Raises: UnknownResource; NotAllowed; RulesRefused.
        """
        named = f"document:{public_id}"
        with self._door.writing(principal, "document.set_access", named) as (writing, visit):
            at = visit.require(Action.MANAGE, *_found(visit, public_id))
            row = visit.session.get_one(DocumentRow, at.id)
            access = access_wanted(visit, rule, at, access_of(visit.session, row))
            settle(writing, row, access)
            record(visit.session, principal, "document.set_access", named)
            return rule_of(visit.session, access)

    def delete(self, principal: Principal, public_id: str) -> None:
        """Delete a document: needs write, or manage if it has access of its own.

        Raises: UnknownResource; NotAllowed.
        """
        named = f"document:{public_id}"
        with self._door.writing(principal, "document.delete", named) as (writing, visit):
            needed = _needed_to_delete(visit, public_id)
            at = visit.require(needed, *_found(visit, public_id))
            row = visit.session.get_one(DocumentRow, at.id)
            erase(writing, row)
            remove(writing, row)
            record(visit.session, principal, "document.delete", named)

    def _plan(self, visit: Visit, upload: Upload) -> _Plan:
        session = visit.session
        where = Where(Level.COLLECTION, upload.collection)
        at = here = visit.require(Action.WRITE, resource_at(session, where), where.n_levels)
        document = find_readable_source(session, UPLOAD, upload.name, here.id, visit.scope)
        old = Access()
        if document is not None:
            at = visit.require(Action.WRITE, Resource(Level.DOCUMENT, document.id))
            old = access_of(session, document)
        if upload.rule is None:
            return _Plan(here, document, None)
        visit.require(Action.MANAGE, at)
        return _Plan(here, document, access_wanted(visit, upload.rule, at, old))

    def _is_current(
        self, visit: Visit, document: DocumentRow | None, upload: Upload, digest: str
    ) -> bool:
        if document is None:
            return False
        content = visit.session.get_one(ContentRow, document.id)
        same = (content.sha256, content.recipe) == (digest, self._maker.recipe)
        return same and upload.title in ("", content.title)

    def _put(
        self, writing: Writing, visit: Visit, plan: _Plan, upload: Upload, made: Made | None
    ) -> Stored:
        session, document = visit.session, plan.document
        if document is None:
            collection = session.get_one(CollectionRow, plan.collection.id)
            document = place(writing, collection, plan.access or Access())
            result = Result.CREATED
        else:
            moved = plan.access is not None and settle(writing, document, plan.access)
            result = Result.UPDATED if moved or made else Result.UNCHANGED
        if made is not None:
            origin = self._maker.origin(made, UPLOAD, upload.name)
            store(writing, document, made.parsed, made.pieces, made.vectors, origin)
        named = f"document:{document.public_id}"
        record(session, visit.principal, "document.upload", named, reason=result.value)
        return Stored(document.public_id, result)


def _readable(visit: Visit, public_id: str) -> DocumentRow:
    document = document_at(visit.session, public_id)
    if document is None or document.class_id not in visit.scope.classes:
        raise UnknownResource("there is no such document that the caller may read")
    return document


def _needed_to_delete(visit: Visit, public_id: str) -> Action:
    row = document_at(visit.session, public_id)
    own = own_grants(visit.session, Resource(Level.DOCUMENT, row.id if row else 0))
    return Action.MANAGE if own or (row is not None and row.cut) else Action.WRITE


def _found(visit: Visit, public_id: str) -> tuple[Resource | None, int]:
    where = Where(Level.DOCUMENT, public_id)
    return resource_at(visit.session, where), where.n_levels
