"""Two index versions: built beside each other, switched, gone back from, dropped, verified."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select

from acl.errors import AclRefused, UnknownResource
from acl.session import Database
from acl.tables import DocumentRow
from acl.versions import Version, add, all_versions
from pipeline.build import build_chunker, build_encoder, build_encoders
from pipeline.encoders import Encoders
from pipeline.reindex import Reindex, differences, find_version
from retrieval.embeddings import Corpus
from retrieval.errors import IndexMismatch
from retrieval.hashed import HashedEncoder
from retrieval.tables import EmbeddingRow
from retrieval.tenant_index import TenantIndex
from retrieval.words import Lexicon
from tests.api.houses import Home, open_home
from tests.laws.changes import CONTENT, SECRET_WORD, cast, elsewhere

OTHER = "hashed:96"


@dataclass(slots=True)
class Told:
    """Progress that is written down, and where an error can be raised."""

    seen: list[int]
    stop_at: int | None = None

    def __call__(self, n_done: int) -> None:
        self.seen.append(n_done)
        if self.stop_at is not None and n_done >= self.stop_at:
            raise KeyboardInterrupt


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A house whose maker knows of versions that come later."""
    with open_home(tmp_path) as opened:
        others = build_encoders(opened.house.database, 1, HashedEncoder())
        opened.maker._others = others.for_all
        cast(opened)
        for number in range(70):
            opened.document("open", f"Note {number}", f"heron number {number} by the weir")
        yield opened


def work_on(home: Home) -> Reindex:
    database, settings = home.house.database, home.house.settings
    encoders = build_encoders(database, 1, HashedEncoder())
    return Reindex(database, encoders, lambda: build_chunker(settings, encoders.opening("hashed")))


def build(work: Reindex, told: Told | None = None) -> Version:
    return work.build(OTHER, build_encoder(OTHER, 1), told or Told([]))


def found(home: Home, who: str = "ana") -> list[str]:
    reply = home.ask(who, "POST", "/v1/search", json={"query": "heron code", "top_k": 5})
    assert reply.status_code == 200, reply.text
    return [each["text"] for each in reply.json()["results"]]


def widths(home: Home) -> int:
    return home.house.pipeline.stages.lines.current.encoder.width


def test_the_first_document_makes_a_version_that_is_live(home: Home) -> None:
    (only,) = all_versions(home.house.database)
    assert (only.name, only.width, only.live, only.complete) == ("hashed-64", 64, True, True)
    assert widths(home) == 64


def test_a_version_is_built_switched_to_and_gone_back_from(home: Home) -> None:
    work = work_on(home)
    told = Told([])
    version = build(work, told)
    assert told.seen[-1] == 72
    assert work.n_left(version.id) == 0
    assert SECRET_WORD in str(found(home))
    lines = home.house.pipeline.stages.lines
    for number, width in ((version.id, 96), (1, 64), (version.id, 96)):
        work.switch(number)
        found(home)  # answered at once, by the version before if the new one is not ready
        lines.settle()
        assert SECRET_WORD in str(found(home))
        assert widths(home) == width


def test_documents_that_come_meanwhile_have_a_vector_of_each_version(home: Home) -> None:
    work = work_on(home)
    version = add(home.house.database, OTHER, "hashed-96", 96)
    home.document("open", "Late", "a heron that came late")
    with home.house.database.reading(home.tenants["acme"]) as session:
        rows = session.scalars(select(EmbeddingRow).order_by(EmbeddingRow.passage_id)).all()
        assert [len(row.vector) // 4 for row in rows[-2:]] == [64, 96]
    assert work.n_left(version.id) == 72
    build(work)
    work.switch(version.id)
    found(home)
    home.house.pipeline.stages.lines.settle()
    home.document("open", "Later", "an heron code of later")
    assert any("later" in each for each in found(home, "bo"))


def test_a_build_that_was_killed_goes_on_where_it_was(home: Home) -> None:
    work = work_on(home)
    with pytest.raises(KeyboardInterrupt):
        build(work, Told([], stop_at=64))
    (_, half) = all_versions(home.house.database)
    assert not half.complete
    assert work.n_left(half.id) == 72 - 64
    with pytest.raises(AclRefused, match="not complete"):
        work.switch(half.id)
    told = Told([])
    assert build(work, told).id == half.id
    assert told.seen == [8]
    work.switch(half.id)


@pytest.mark.parametrize("name", CONTENT)
def test_rights_are_as_fresh_in_either_version(home: Home, name: str) -> None:
    """Law 4, while the version is switched to, and after it was gone back from."""
    work = work_on(home)
    version = build(work)
    lines = home.house.pipeline.stages.lines
    work.switch(version.id)
    assert SECRET_WORD in str(found(home))
    lines.settle()
    assert SECRET_WORD in str(found(home))
    with elsewhere(home) as writing:
        CONTENT[name](writing)
    for number in (version.id, 1, version.id):
        work.switch(number)
        assert SECRET_WORD not in str(found(home))


def test_every_answer_is_of_one_version_while_it_is_switched(home: Home) -> None:
    """A question's vector never meets vectors of another width: that would be an error."""
    work = work_on(home)
    version = build(work)
    stop = threading.Event()
    failed: list[str] = []

    def ask() -> None:
        while not stop.is_set():
            try:
                if len(found(home, "bo")) != 5:
                    failed.append("short")
            except AssertionError as failure:
                failed.append(str(failure))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        for number in (version.id, 1):
            work.switch(number)
            home.document("open", "More", "more of the heron")
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_version_is_dropped_with_its_vectors_unless_it_is_live(home: Home) -> None:
    work = work_on(home)
    version = build(work)
    with pytest.raises(AclRefused, match="is live"):
        work.drop(1, Told([]))
    assert work.drop(version.id, Told([])) == 72
    assert len(all_versions(home.house.database)) == 1
    home.document("open", "After", "a heron after all")
    for call in (lambda: work.drop(version.id, Told([])), lambda: work.switch(9)):
        with pytest.raises(UnknownResource, match="no index version"):
            call()
    with pytest.raises(UnknownResource, match="no index version 9"):
        find_version(home.house.database, 9)


def test_a_damaged_vector_is_told_and_embedded_anew(home: Home) -> None:
    work, database = work_on(home), home.house.database
    with database.writing(home.tenants["acme"]) as writing:
        row = writing.session.scalars(select(EmbeddingRow)).first()
        assert row is not None
        row.vector = row.vector[:-4]
    with pytest.raises(IndexMismatch, match="1 of 72 passages"):
        Corpus(database, "hashed-64", 64).changes(home.tenants["acme"], None)
    assert work.reembed(all_versions(database)[0], Told([])) == 72
    assert list(work.verify(Lexicon(), None, 2048)) == []
    assert SECRET_WORD in str(found(home))


def test_verify_names_each_kind_of_difference(home: Home) -> None:
    database, tenant = home.house.database, home.tenants["acme"]
    assert list(work_on(home).verify(Lexicon(), None, 2048)) == []
    everything = Corpus(database, "hashed-64", 64).changes(tenant, None)
    index = TenantIndex.empty(64).apply(everything, Lexicon(), 2048)
    rows = everything.rows

    def told(**changed: object) -> set[str]:
        truth = replace(rows, **changed)  # type: ignore[arg-type]
        return {each.what for each in differences(tenant, index, truth, Lexicon())}

    other = rows.classes.copy()
    other[3] += 1
    turned = rows.vectors.copy()
    turned[4] = -turned[4]
    assert told() == set()
    assert told(classes=other) == {"is under another access class"}
    assert told(documents=rows.documents + 1) == {"is of another document"}
    assert told(vectors=turned) == {"has another vector"}
    assert told(texts=("else", *rows.texts[1:])) == {"has other terms"}
    moved = rows.ids.copy()
    moved[0] = 10**6
    assert told(ids=moved) == {"is missing", "should not be there"}


def test_an_encoder_that_is_not_the_versions_is_refused_by_both_names(home: Home) -> None:
    database = home.house.database

    def opening(setting: str, loads: str) -> int:
        encoders = Encoders(database, lambda _: build_encoder(loads, 1))
        return encoders.opening(setting).width

    assert opening("default", "hashed") == 64
    with pytest.raises(IndexMismatch, match=r"hashed-64.*hashed-96"):
        opening("default", OTHER)
    with pytest.raises(IndexMismatch, match=r"names new.*hashed-64.*index build new"):
        opening("new", "hashed")
    work = work_on(home)
    version = build(work)
    work.switch(version.id)
    assert opening("default", OTHER) == 96, "the setting before a switch is told, not refused"


def test_deleting_a_document_deletes_its_vectors_of_all_versions(home: Home) -> None:
    build(work_on(home))
    with home.house.database.reading(home.tenants["acme"]) as session:
        document = session.scalars(select(DocumentRow)).first()
        assert document is not None
        public_id = document.public_id
    home.grant("user:tess", "write")
    assert home.ask("tess", "DELETE", f"/v1/documents/{public_id}").status_code == 204
    with home.house.database.reading(home.tenants["acme"]) as session:
        ids = np.array(session.scalars(select(EmbeddingRow.passage_id)).all())
    assert len(ids) == 2 * 71


def test_a_database_of_the_schema_before_keeps_its_vectors(tmp_path: Path) -> None:
    from alembic import command

    from pipeline.migrate import _config, migrate

    database = Database(f"sqlite:///{tmp_path / 'old.db'}")
    with database.engine.begin() as connection:
        command.upgrade(_config(connection), "0004_audit")
        for statement in (
            "INSERT INTO instance (id, incarnation) VALUES (1, 'x')",
            "INSERT INTO tenant (id, name, rights_epoch, content_sequence, departures, horizon) "
            "VALUES ('tn_1', 'acme', 0, 0, 0, 0)",
            "INSERT INTO collection (id, public_id, path, cut, tenant) "
            "VALUES (1, 'c', 'c', 0, 'tn_1')",
            "INSERT INTO access_class (id, key, collection_id, cut, own, generation, tenant) "
            "VALUES (1, 'k', 1, 0, '[]', 0, 'tn_1')",
            "INSERT INTO document (id, public_id, collection_id, cut, class_id, tenant) "
            "VALUES (1, 'doc_1', 1, 0, 1, 'tn_1')",
            "INSERT INTO content (document_id, origin, source, sha256, recipe, encoder, title, "
            "media_type, nbytes, text, pages, created_s, tenant) VALUES (1, 'files', 's', 'h', "
            "'r', 'hashed-64', 't', 'text/plain', 1, 'x', '[]', 0, 'tn_1')",
            'INSERT INTO passage (id, document_id, ordinal, start, "end", text, vector, tenant) '
            "VALUES (1, 1, 1, 0, 1, 'x', zeroblob(256), 'tn_1')",
        ):
            connection.exec_driver_sql(statement)
    assert migrate(database)
    (version,) = all_versions(database)
    assert (version.name, version.encoder, version.width, version.live) == (
        "hashed-64", "hashed:64", 64, True,
    )  # fmt: skip
    with database.reading("tn_1") as session:
        assert session.scalars(select(EmbeddingRow)).one().vector == bytes(256)
    database.close()
