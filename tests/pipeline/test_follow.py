"""Open indexes follow what other processes write, and survive a lost hint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acl.directory import create_collection, create_tenant
from acl.documents import Access, place
from acl.hints import Hints, hints_of
from acl.session import Database, counters
from pipeline.follow import Follower
from retrieval.corpus import Origin, store
from retrieval.embeddings import Corpus
from retrieval.hashed import HashedEncoder
from retrieval.shelf import Shelf
from retrieval.types import Parsed, Piece
from retrieval.words import Lexicon

ENCODER = HashedEncoder()


class Deaf:
    """Hints that never come, or whose connection is lost."""

    def __init__(self, broken: bool) -> None:
        self._broken = broken

    def wait(self, timeout_s: float) -> bool:
        time.sleep(min(timeout_s, 0.02))
        if self._broken:
            raise ConnectionResetError
        return False

    def close(self) -> None:
        """Nothing is held."""


def add(database: Database, tenant: str) -> None:
    """Write one document, as another process would."""
    with database.writing(tenant) as writing:
        document = place(writing, create_collection(writing, "open"), Access(()))
        origin = Origin("files", "a", "0" * 64, 1, "recipe", ENCODER.name)
        parsed = Parsed("Heron", "A heron.", "text/plain")
        vectors = ENCODER.encode_passages(["A heron."])
        store(
            writing,
            document,
            parsed,
            [Piece("A heron.", 0, 8, None)],
            {ENCODER.name: vectors},
            origin,
        )


def _write_and_fail(database: Database, tenant: str) -> None:
    with database.writing(tenant) as writing:
        create_collection(writing, "open")
        writing.stamp()
        raise ZeroDivisionError


def eventually(true: Callable[[], bool], within_s: float = 20) -> bool:
    end = time.monotonic() + within_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def shelf(any_database: Database) -> Iterator[Shelf]:
    corpus = Corpus(any_database, ENCODER.name, ENCODER.width)
    opened = Shelf(corpus, Lexicon(), width=ENCODER.width, merge_rows=100)
    yield opened
    opened.close()


@pytest.mark.parametrize("hints", [None, lambda: Deaf(False), lambda: Deaf(True)])
def test_an_addition_is_found_without_anybody_asking(
    any_database: Database, shelf: Shelf, hints: Callable[[], Hints] | None
) -> None:
    """Also when every hint is lost, or the connection that would bring it."""
    tenant = create_tenant(any_database, "acme")
    follower = Follower(any_database, shelf, hints)
    follower.open(tenant)
    empty = shelf.held()[tenant]
    follower.start()
    try:
        add(any_database, tenant)
        assert eventually(lambda: shelf.held()[tenant] > empty)
    finally:
        follower.close()


def test_a_hint_comes_after_a_write_and_only_then(any_database: Database) -> None:
    tenant = create_tenant(any_database, "acme")
    hints = hints_of(any_database.engine)
    try:
        assert not hints.wait(0.05)
        add(any_database, tenant)
        assert hints.wait(10)
        while hints.wait(0.05):
            pass
        with any_database.reading(tenant) as session:
            counters(session)
        assert not hints.wait(0.05)
    finally:
        hints.close()


def test_what_is_rolled_back_gives_no_hint(any_database: Database) -> None:
    tenant = create_tenant(any_database, "acme")
    hints = hints_of(any_database.engine)
    try:
        with pytest.raises(ZeroDivisionError):
            _write_and_fail(any_database, tenant)
        assert not hints.wait(0.1)
    finally:
        hints.close()


def test_the_thread_ends_when_told(any_database: Database, shelf: Shelf, tmp_path: Path) -> None:
    follower = Follower(any_database, shelf)
    follower.start()
    began = time.monotonic()
    follower.close()
    assert time.monotonic() - began < 10
