"""Law 9: killed at any commit, fsync, rename, folder or removal, nothing acknowledged is lost."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from pyroaring import FrozenBitMap
from sqlalchemy import event

from acl.authorize import Authority
from acl.directory import (
    create_collection,
    create_principal,
    create_tenant,
    find_collection,
    find_principal,
    find_tenant,
)
from acl.documents import Access, place
from acl.grants import give, revoke
from acl.session import Database, counters
from acl.types import Action, Effect, Grant, Kind, Level, Principal, Resource
from pipeline.migrate import migrate
from retrieval.corpus import Origin, store
from retrieval.embeddings import Corpus
from retrieval.hashed import HashedEncoder
from retrieval.shelf import Shelf
from retrieval.snapshot import IndexVersion, SnapshotFolder
from retrieval.tenant_index import TenantIndex
from retrieval.types import Parsed, Piece
from retrieval.words import Lexicon

ENCODER = HashedEncoder()
LEXICON = Lexicon()
N_DOCUMENTS, MERGE_ROWS = 5, 2
KILLED = 9


class Fuse:
    """Kills the process at the n-th point it passes: no handler, no flush, no unwinding."""

    def __init__(self, n_points: int) -> None:
        self._left = n_points

    def pass_by(self, *_: object, **__: object) -> None:
        """Count a point, and die at the last."""
        self._left -= 1
        if self._left == 0:
            os._exit(KILLED)

    def around(self, call: Callable[..., object]) -> Callable[..., object]:
        """Put a point before and one after a call."""

        def passed(*arguments: object, **named: object) -> object:
            self.pass_by()
            result = call(*arguments, **named)
            self.pass_by()
            return result

        return passed


def shelf_over(database: Database, folder: Path | None) -> Shelf:
    version = IndexVersion(ENCODER.name, ENCODER.width, "english")
    return Shelf(
        Corpus(database, ENCODER.name, ENCODER.width),
        LEXICON,
        width=ENCODER.width,
        merge_rows=MERGE_ROWS,
        folder=None if folder is None else SnapshotFolder(folder / "index", version),
    )


def index_of(database: Database, tenant: str, folder: Path | None) -> TenantIndex:
    shelf = shelf_over(database, folder)
    with database.reading(tenant) as session:
        now = counters(session)
    index = shelf.at(tenant, now.content_sequence, now.incarnation)
    shelf.close()
    return index


def work(folder: Path, told: int, *, n_points: int) -> None:
    """Ingest, give and take rights, merge and save; tell what is done as it is done."""
    database = Database(f"sqlite:///{folder / 'ostiary.db'}")
    tenant = find_tenant(database, "acme")
    fuse = Fuse(n_points)
    event.listen(database.engine, "commit", fuse.pass_by)
    os.fsync = fuse.around(os.fsync)  # type: ignore[assignment]
    for name in ("replace", "mkdir", "unlink"):
        setattr(Path, name, fuse.around(getattr(Path, name)))
    shelf = shelf_over(database, folder)
    for number in range(N_DOCUMENTS):
        with database.writing(tenant) as writing:
            document = place(writing, create_collection(writing, "open"), Access(()))
            text = f"heron number {number}"
            origin = Origin("files", str(number), "0" * 64, 1, "recipe", ENCODER.name)
            parsed = Parsed(f"Note {number}", text, "text/plain")
            vectors = {ENCODER.name: ENCODER.encode_passages([text])}
            store(writing, document, parsed, [Piece(text, 0, len(text), None)], vectors, origin)
        fuse.pass_by()
        os.write(told, f"stored {number}\n".encode())
        with database.writing(tenant) as writing:
            at = Resource(Level.COLLECTION, find_collection(writing.session, "open").id)
            ana = find_principal(writing.session, "user:ana")
            change = give if number % 2 else revoke
            change(writing, at, Grant(ana.id, Action.READ, Effect.ALLOW))
        fuse.pass_by()
        os.write(told, f"{'given' if number % 2 else 'taken'}\n".encode())
        with database.reading(tenant) as session:
            now = counters(session)
        shelf.at(tenant, now.content_sequence, now.incarnation)
        shelf.settle()
    shelf.close()


def in_a_child(call: Callable[[int], None]) -> tuple[int, list[str]]:
    """Run a call in a forked process; gives its exit code and the lines it told."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            call(writes)
            os._exit(0)
        except BaseException:
            # A child of a test must never come back.
            os._exit(1)
    os.close(writes)
    with os.fdopen(reads) as told:
        lines = told.read().split("\n")[:-1]
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), lines


def prepared(folder: Path) -> Path:
    folder.mkdir()
    database = Database(f"sqlite:///{folder / 'ostiary.db'}")
    migrate(database)
    tenant = create_tenant(database, "acme")
    with database.writing(tenant) as writing:
        ana, _ = create_principal(writing, Kind.USER, "ana")
        at = Resource(Level.COLLECTION, create_collection(writing, "open").id)
        give(writing, at, Grant(ana.id, Action.READ, Effect.ALLOW))
    database.close()
    return folder


def check(folder: Path, lines: list[str]) -> None:
    """Nothing told is undone, nothing half done is seen, and the files are the database's."""
    with sqlite3.connect(folder / "ostiary.db") as plain:
        assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    plain.close()
    database = Database(f"sqlite:///{folder / 'ostiary.db'}")
    tenant = find_tenant(database, "acme")
    truth, opened = (index_of(database, tenant, each) for each in (None, folder))
    n_stored = sum(line.startswith("stored") for line in lines)
    assert n_stored <= truth.n_rows <= n_stored + 1
    assert opened.n_rows == truth.n_rows
    held, wanted = opened.held(), truth.held()
    by_id, right = np.argsort(held.ids), np.argsort(wanted.ids)
    for column in ("ids", "classes", "documents", "vectors"):
        assert np.array_equal(getattr(held, column)[by_id], getattr(wanted, column)[right])
    vector = ENCODER.encode_query("heron number 3")
    every = FrozenBitMap(range(100))
    found = [index.dense(vector, index.reach(every), 5) for index in (opened, truth)]
    assert found[0][0].tobytes() == found[1][0].tobytes()
    words = [i.lexical(["heron", "3"], i.reach(every)).best(5) for i in (opened, truth)]
    assert words[0][1].tobytes() == words[1][1].tobytes()
    with database.reading(tenant) as session:
        ana = Principal(tenant, find_principal(session, "user:ana").id, "user:ana")
    reads = bool(len(Authority(database).mint(ana)))
    rights = [line for line in lines if line in ("given", "taken")]
    # When as many changes were told as documents, none can be under way. (Without a document
    # there is no class to read.)
    if len(rights) == n_stored and truth.n_rows:
        assert reads == (not rights or rights[-1] == "given")
    database.close()


@pytest.mark.slow
def test_a_kill_at_every_point_loses_nothing_told(tmp_path: Path) -> None:
    n_points, code = 0, KILLED
    lines: list[str] = []
    while code == KILLED:
        n_points += 1
        folder = prepared(tmp_path / f"at{n_points}")
        code, lines = in_a_child(partial(work, folder, n_points=n_points))
        assert code in (0, KILLED), n_points
        check(folder, lines)
    assert len(lines) == 2 * N_DOCUMENTS, "the last run went through"
    assert n_points > 100, "commits, syncs, renames, folders and removals are points"


@pytest.mark.slow
def test_kills_one_after_another_on_one_database(tmp_path: Path) -> None:
    """As a server that can't stay up: each start meets what the last kill left."""
    folder = prepared(tmp_path / "one")
    n_stored = 0
    for n_points in range(3, 90, 6):
        _, lines = in_a_child(partial(work, folder, n_points=n_points))
        n_stored += sum(line.startswith("stored") for line in lines)
        database = Database(f"sqlite:///{folder / 'ostiary.db'}")
        tenant = find_tenant(database, "acme")
        truth, opened = (index_of(database, tenant, each) for each in (None, folder))
        assert n_stored <= truth.n_rows
        assert np.array_equal(np.sort(opened.held().ids), np.sort(truth.held().ids))
        database.close()
