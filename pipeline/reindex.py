"""A second index version beside the live one: filled, checked, switched to, dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from acl.directory import tenants
from acl.errors import UnknownResource
from acl.session import Database, counters
from acl.versions import Version, add, all_versions, complete, forget, switch
from pipeline.encoders import Encoders
from retrieval.chunk import Chunker
from retrieval.embeddings import (
    Corpus,
    documents_of,
    lacking,
    n_lacking,
    passages_after,
    put_vectors,
    remove_vectors,
    still_lacking,
)
from retrieval.encode import Encoder
from retrieval.shelf import Shelf
from retrieval.snapshot import SnapshotFolder
from retrieval.tenant_index import TenantIndex
from retrieval.types import Rows
from retrieval.words import Lexicon

_BATCH = 64

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an index is not what the database says."""

    tenant: str
    passage: int
    what: str


@dataclass(frozen=True, slots=True)
class Reindex:
    """Works on index versions for the operator, beside running servers and ingests.

    chunker: gives the one that passages are cut with, when it is first needed.
    """

    database: Database
    encoders: Encoders
    chunker: Callable[[], Chunker]

    def n_left(self, version: int) -> int:
        """Count the passages of all tenants that lack a vector of a version."""
        n_left = 0
        for tenant in tenants(self.database).values():
            with self.database.reading(tenant) as session:
                n_left += n_lacking(session, version)
        return n_left

    def build(self, setting: str, encoder: Encoder, on_progress: Progress) -> Version:
        """Make a version of an encoder, or go on with it, and fill in what it lacks.

        From its beginning on, whoever stores a passage stores its vector of this version too;
        so the filling ends. Each batch is committed: after a kill, run it again.
        `on_progress` is told how many passages were encoded so far.
        """
        version = add(self.database, setting, encoder.name, encoder.width)
        chunker, n_done = self.chunker(), 0
        while True:
            n_before = n_done
            for tenant in tenants(self.database).values():
                for n_batch in self._fill(tenant, version, encoder, chunker):
                    n_done += n_batch
                    on_progress(n_done)
            if n_done == n_before:
                break
        complete(self.database, version.id)
        return version

    def reembed(self, version: Version, on_progress: Progress) -> int:
        """Encode every passage of a version anew, in place; gives how many."""
        encoder, chunker, n_done = self.encoders.of(version), self.chunker(), 0
        for tenant in tenants(self.database).values():
            last = 0
            while True:
                with self.database.reading(tenant) as session:
                    batch = passages_after(session, last, _BATCH)
                if not batch:
                    break
                vectors = encoder.encode_passages(_texts(chunker, batch))
                ids = [each[0] for each in batch]
                with self.database.writing(tenant) as writing:
                    remove_vectors(writing.session, version.id, _BATCH, among=ids)
                    there = still_lacking(writing.session, version.id, ids)
                    kept = [place for place, each in enumerate(ids) if each in there]
                    chosen = [ids[place] for place in kept]
                    put_vectors(writing.session, version.id, chosen, vectors[kept])
                    for document in documents_of(writing.session, chosen):
                        writing.document_changed(document)
                last, n_done = ids[-1], n_done + len(ids)
                on_progress(n_done)
        return n_done

    def switch(self, version: int) -> Version:
        """Search another version from the next request on; gives the one before it.

        Raises: UnknownResource; AclRefused if it is not complete.
        """
        return switch(self.database, version)

    def drop(self, version: int, on_progress: Progress) -> int:
        """Delete a version that is not live, with its vectors; gives how many those were.

        Raises: UnknownResource; AclRefused if it is live.
        """
        forget(self.database, version)
        n_gone = 0
        for tenant in tenants(self.database).values():
            while True:
                with self.database.writing(tenant) as writing:
                    n_batch = remove_vectors(writing.session, version, 1_000)
                if not n_batch:
                    break
                n_gone += n_batch
                on_progress(n_gone)
        return n_gone

    def verify(
        self, lexicon: Lexicon, folder: SnapshotFolder | None, merge_rows: int
    ) -> Iterator[Difference]:
        """Compare the live version's index of each tenant with the database, row by row.

        The index is opened as a server opens it: from its files, caught up.
        Raises: IndexMismatch if a stored vector does not fit its version.
        """
        live = next((each for each in all_versions(self.database) if each.live), None)
        if live is None:
            return
        source = Corpus(self.database, live.name, live.width)
        shelf = Shelf(source, lexicon, width=live.width, merge_rows=merge_rows, folder=folder)
        try:
            for tenant in tenants(self.database).values():
                with self.database.reading(tenant) as session:
                    now = counters(session)
                index = shelf.at(tenant, now.content_sequence, now.incarnation)
                yield from differences(tenant, index, source.changes(tenant, None).rows, lexicon)
        finally:
            shelf.close()

    def _fill(
        self, tenant: str, version: Version, encoder: Encoder, chunker: Chunker
    ) -> Iterator[int]:
        while True:
            with self.database.reading(tenant) as session:
                batch = lacking(session, version.id, _BATCH)
            if not batch:
                return
            vectors = encoder.encode_passages(_texts(chunker, batch))
            with self.database.writing(tenant) as writing:
                # What went or was stored meanwhile is not ours to write.
                there = still_lacking(writing.session, version.id, [each[0] for each in batch])
                kept = [place for place, each in enumerate(batch) if each[0] in there]
                chosen = [batch[place][0] for place in kept]
                put_vectors(writing.session, version.id, chosen, vectors[kept])
            yield len(batch)


def _texts(chunker: Chunker, batch: list[tuple[int, str, str]]) -> list[str]:
    return [chunker.encoded(title, text) for _, title, text in batch]


def find_version(database: Database, number: int) -> Version:
    """Give a version by its number. Raises: UnknownResource."""
    for each in all_versions(database):
        if each.id == number:
            return each
    raise UnknownResource(f"no index version {number}; see: ostiary index list")


def differences(
    tenant: str, index: TenantIndex, truth: Rows, lexicon: Lexicon
) -> Iterator[Difference]:
    """Compare an index with what it should hold: ids, classes, documents, vectors, terms."""
    held = index.held()
    place = {number: at for at, number in enumerate(held.ids.tolist())}
    for at, number in enumerate(truth.ids.tolist()):
        found = place.pop(number, None)
        if found is None:
            yield Difference(tenant, number, "is missing")
        elif held.classes[found] != truth.classes[at]:
            yield Difference(tenant, number, "is under another access class")
        elif held.documents[found] != truth.documents[at]:
            yield Difference(tenant, number, "is of another document")
        elif not np.array_equal(held.vectors[found], truth.vectors[at]):
            yield Difference(tenant, number, "has another vector")
        elif held.terms[found] != Counter(lexicon.terms(truth.texts[at])):
            yield Difference(tenant, number, "has other terms")
    for number in place:
        yield Difference(tenant, number, "should not be there")
