"""Every way to take a right away, as another process would: over a database of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import select

from acl.directory import create_collection, find_collection, find_principal
from acl.documents import Access, access_of, document_by_public_id, remove, settle
from acl.grants import give, revoke
from acl.groups import delete_principal, remove_member
from acl.keys import revoke_key
from acl.session import Database, Writing
from acl.tables import ApiKeyRow, DocumentRow
from acl.types import Action, Effect, Grant, Level, Resource
from generation.scripted import ScriptedEngine
from retrieval.corpus import erase
from tests.api.houses import Home, open_home

# A word that no id and no score can hold by chance, as digits would.
SECRET_WORD = "quibblewick"
SECRET = f"code is {SECRET_WORD}"
QUESTION = "heron code"
SECRET_TEXT = f"The heron code is {SECRET_WORD} and nobody else may know it."
OTHER_TEXT = "Herons stand by the weir, and everybody knows it."


@contextmanager
def elsewhere(home: Home) -> Iterator[Writing]:
    """Open a write through connections of its own, as another process would."""
    url = home.house.database.engine.url.render_as_string(hide_password=False)
    database = Database(url)
    try:
        with database.writing(home.tenants["acme"]) as writing:
            yield writing
    finally:
        database.close()


@contextmanager
def told_house(folder: Path, engine: ScriptedEngine, timeout_s: float = 100) -> Iterator[Home]:
    """Open a house with the secret in it, where all that is found is evidence.

    The fake encoder's scores mean nothing: no passage is too far away.
    """
    with open_home(
        folder, engine, refuse_below=-1.0, evidence_margin=2.0, timeout_s=timeout_s
    ) as opened:
        cast(opened)
        yield opened


def cast(home: Home) -> str:
    """Put a secret into a folder that ana reads through a group; gives the document's id."""
    home.document("open", "Birds", OTHER_TEXT)
    return home.document("closed", "Code", SECRET_TEXT)


def _closed(writing: Writing) -> Resource:
    return Resource(Level.COLLECTION, find_collection(writing.session, "closed").id)


def _document(writing: Writing) -> DocumentRow:
    closed = find_collection(writing.session, "closed").id
    return writing.session.scalars(
        select(DocumentRow).where(DocumentRow.collection_id == closed)
    ).one()


def _principal(writing: Writing, name: str) -> int:
    return find_principal(writing.session, name).id


def _grant_revoked(writing: Writing) -> None:
    inner = _principal(writing, "group:inner")
    assert revoke(writing, _closed(writing), Grant(inner, Action.READ, Effect.ALLOW))


def _member_removed(writing: Writing) -> None:
    group = find_principal(writing.session, "group:inner")
    assert remove_member(writing, group, find_principal(writing.session, "user:ana"))


def _deny_given(writing: Writing) -> None:
    grant = Grant(_principal(writing, "user:ana"), Action.READ, Effect.DENY)
    assert give(writing, _closed(writing), grant)


def _document_deleted(writing: Writing) -> None:
    row = _document(writing)
    erase(writing, row)
    remove(writing, row)


def _document_moved(writing: Writing) -> None:
    row, apart = _document(writing), create_collection(writing, "apart")
    assert settle(writing, row, access_of(writing.session, row), apart.id)


def _document_cut(writing: Writing) -> None:
    row = _document(writing)
    assert settle(writing, row, Access(access_of(writing.session, row).grants, cut=True))


def _document_denied(writing: Writing) -> None:
    grant = Grant(_principal(writing, "user:ana"), Action.READ, Effect.DENY)
    assert give(writing, Resource(Level.DOCUMENT, _document(writing).id), grant)


def _folder_cut(writing: Writing) -> None:
    collection = find_collection(writing.session, "closed")
    inner = _principal(writing, "group:inner")
    revoke(writing, _closed(writing), Grant(inner, Action.READ, Effect.ALLOW))
    give(writing, Resource(Level.TENANT), Grant(inner, Action.READ, Effect.ALLOW))
    collection.cut = True
    writing.rights_changed()


CONTENT: dict[str, Callable[[Writing], None]] = {
    "a grant is revoked": _grant_revoked,
    "a member leaves the group": _member_removed,
    "a deny is given": _deny_given,
    "the document is deleted": _document_deleted,
    "the document is moved": _document_moved,
    "the document is cut off": _document_cut,
    "the document denies": _document_denied,
    "the folder is cut off": _folder_cut,
}


def _key_revoked(writing: Writing) -> None:
    ana = _principal(writing, "user:ana")
    row = writing.session.scalars(select(ApiKeyRow).where(ApiKeyRow.principal_id == ana)).one()
    assert revoke_key(writing, row.prefix)


def _person_deleted(writing: Writing) -> None:
    delete_principal(writing, find_principal(writing.session, "user:ana"))


PERSON: dict[str, Callable[[Writing], None]] = {
    "the key is revoked": _key_revoked,
    "the person is deleted": _person_deleted,
}


def exists(home: Home, public_id: str) -> bool:
    """Say whether a document is in the database, whoever may read it."""
    with home.house.database.reading(home.tenants["acme"]) as session:
        return document_by_public_id(session, public_id) is not None
