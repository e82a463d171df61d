"""Minting scopes and the second check, against casbin asked for each candidate."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import casbin
import numpy as np
import pytest
from casbin.model import Model
from sqlalchemy import select, text

from acl.authorize import Authority
from acl.directory import create_collection, create_principal, create_tenant, find_principal
from acl.documents import Access, place
from acl.grants import give
from acl.groups import add_member, closure, everyone_id, parents
from acl.session import Database
from acl.tables import DocumentRow
from acl.types import Action, Effect, Grant, Kind, Level, Principal, Resource
from benchmarks import large_rights
from benchmarks.large_tenant import build
from benchmarks.report import Report, Row, at_least, percentile, within
from pipeline.migrate import migrate
from retrieval import corpus
from retrieval.tables import PassageRow
from retrieval.types import Parsed, Piece
from tests.databases import running_postgres

N_GROUPS, N_FOLDERS, N_DOCUMENTS, N_CANDIDATES = 40, 50, 1_000, 200
N_ROUNDS, PER_ROUND = 6, 20
STAGE_MS, TIMES_CASBIN = 5, 1_000
_CLASSES = select(PassageRow.id, DocumentRow.class_id).join(
    DocumentRow, DocumentRow.id == PassageRow.document_id
)
_MODEL = Path(__file__).parents[1] / "acl/model.conf"


def run() -> None:
    """Measure and write results/rights.json; PostgreSQL too where its binaries are."""
    report, left_out = Report.begin("rights"), []
    with tempfile.TemporaryDirectory() as folder:
        rows = _measured(Database(f"sqlite:///{folder}/rights.db"), "SQLite", with_casbin=True)
    try:
        with running_postgres() as server:
            server.run("CREATE DATABASE rights")
            rows += _measured(Database(server.url("rights")), "PostgreSQL", with_casbin=False)
    except pytest.skip.Exception as reason:
        left_out.append(f"PostgreSQL: {reason}")
    report.write(rows, left_out)


def _measured(database: Database, named: str, *, with_casbin: bool) -> list[Row]:
    migrate(database)
    person, large = _company(database, create_tenant(database, "bench")), build(database)
    if database.dialect == "postgresql":
        # As its autovacuum would within a minute; SQLite plans without statistics.
        with database.engine.begin() as connection:
            connection.execute(text("ANALYZE"))
    rows = _checking(database, person, with_casbin=with_casbin)
    rows += large_rights.measured(database, large)
    database.close()
    return [replace(row, measure=f"{named}: {row.measure}") for row in rows]


def _checking(database: Database, person: Principal, *, with_casbin: bool) -> list[Row]:
    """Time stage 3 and casbin in turns, on the same candidates under the same 1,000 rules."""
    authority = Authority(database)
    scope = authority.mint(person)
    readers = _readers(database, person.tenant)
    with database.reading(person.tenant) as session:
        groups = closure(person.id, parents(session), everyone_id(session)) - {person.id}
        classes = dict(session.execute(_CLASSES).all())
    allowed = [passage for passage, reader in readers.items() if reader in groups]
    denied = [passage for passage, reader in readers.items() if reader not in groups]
    candidates = allowed[:N_CANDIDATES]
    enforcer = _enforcer(person, readers, groups)

    def second_check(ids: list[int]) -> int:
        with database.reading(person.tenant) as session:
            both = authority.narrowed(scope, authority.mint_in(session, person))
            return len(corpus.standing(session, ids, both))

    def check_alone(ids: list[int]) -> int:
        with database.reading(person.tenant) as session:
            both = authority.narrowed(scope, authority.mint_in(session, person))
            return sum(classes[each] in both.classes for each in ids)

    def asked_each(ids: list[int]) -> int:
        subject = str(person.id)
        return sum(enforcer.enforce(subject, "t", f"document:{n}", "read") for n in ids)

    for check in (second_check, check_alone, *([asked_each] if with_casbin else [])):
        said = check(candidates), check(denied[:20])
        if said != (N_CANDIDATES, 0):
            raise RuntimeError(f"{said} of {N_CANDIDATES} and 0 candidates were let through")
    ours, alone, theirs = [], [], []
    for _ in range(N_ROUNDS):
        ours += [_once_ms(lambda: second_check(candidates)) for _ in range(PER_ROUND)]
        alone += [_once_ms(lambda: check_alone(candidates)) for _ in range(PER_ROUND)]
        theirs += [_once_ms(lambda: asked_each(candidates))] if with_casbin else []
    stage = f"stage 3 for {N_CANDIDATES} candidates, new snapshot, re-check and text"
    rows = [
        Row(f"{stage}: p50", percentile(ours, 50), "ms"),
        within(f"{stage}: p95", percentile(ours, 95), "ms", STAGE_MS),
        Row("of it the re-check alone, in a new snapshot, without rows: p50",
            percentile(alone, 50), "ms"),
    ]  # fmt: skip
    if with_casbin:
        peer = percentile(theirs, 50)
        rows += [
            Row(f"casbin enforce for each of {N_CANDIDATES}, {len(readers):,} rules: p50", peer,
                "ms", "stage 3", peer / percentile(ours, 50)),
            at_least("the re-check alone is so many times faster than casbin: p50",
                     peer / percentile(alone, 50), "x", TIMES_CASBIN),
        ]  # fmt: skip
    return rows


def _enforcer(
    person: Principal, readers: dict[int, int], groups: frozenset[int] | set[int]
) -> casbin.Enforcer:
    model = Model()
    model.load_model_from_text(_MODEL.read_text())
    enforcer = casbin.Enforcer(model)
    enforcer.add_policies(
        [[str(reader), "t", f"document:{passage}", "read", "allow"]
         for passage, reader in readers.items()]
    )  # fmt: skip
    # The closure is handed over flattened, as acl/policy.py does.
    enforcer.add_grouping_policies([[str(person.id), str(group), "t"] for group in groups])
    return enforcer


def _readers(database: Database, tenant: str) -> dict[int, int]:
    """Give for each passage, one a document, the group that reads it; `_company` says which."""
    with database.reading(tenant) as session:
        groups = [find_principal(session, f"group:g{n}").id for n in range(N_GROUPS)]
        ids = session.scalars(
            select(PassageRow.id)
            .join(DocumentRow, DocumentRow.id == PassageRow.document_id)
            .order_by(DocumentRow.id)
        ).all()
    return {passage: groups[_reader(number)] for number, passage in enumerate(ids)}


def _reader(number: int) -> int:
    """Say which group reads a document: by its own grant if odd, by its folder's if even."""
    return number % 7 if number % 2 else number % N_FOLDERS % N_GROUPS


def _company(database: Database, tenant: str) -> Principal:
    chance = np.random.default_rng(3)
    with database.writing(tenant) as writing:
        groups = [create_principal(writing, Kind.GROUP, f"g{n}")[0] for n in range(N_GROUPS)]
        anna = create_principal(writing, Kind.USER, "anna")[0]
        for number in range(1, N_GROUPS):
            add_member(writing, groups[number // 2], groups[number])
        for number in range(0, N_GROUPS, 3):
            add_member(writing, groups[number], anna)
        folders = [create_collection(writing, f"top/f{n}") for n in range(N_FOLDERS)]
        for number in range(0, N_FOLDERS, 2):
            grant = Grant(groups[number % N_GROUPS].id, Action.READ, Effect.ALLOW)
            give(writing, Resource(Level.COLLECTION, folders[number].id), grant)
        vectors = chance.standard_normal((1, 64)).astype(np.float32)
        for number in range(N_DOCUMENTS):
            own = Grant(groups[_reader(number)].id, Action.READ, Effect.ALLOW)
            folder = folders[number % N_FOLDERS]
            document = place(writing, folder, Access((own,) if number % 2 else ()))
            text = f"document {number} " * 40
            parsed = Parsed(f"Document {number}", text, "text/plain")
            origin = corpus.Origin("files", str(number), "", len(text), "", "bench")
            pieces = [Piece(text, 0, len(text), None)]
            corpus.store(writing, document, parsed, pieces, {"bench": vectors}, origin)
    with database.reading(tenant) as session:
        row = find_principal(session, "user:anna")
        return Principal(tenant, row.id, "user:anna")


def _once_ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000
