"""Minting scopes and the second check, against casbin asked for each candidate."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import casbin
import numpy as np
from casbin.model import Model
from sqlalchemy import select

from acl.authorize import Authority
from acl.directory import create_collection, create_principal, create_tenant, find_principal
from acl.documents import Access, place
from acl.grants import give
from acl.groups import add_member, closure, everyone_id, parents
from acl.session import Database
from acl.tables import DocumentRow
from acl.types import Action, Effect, Grant, Kind, Level, Principal, Resource
from benchmarks.report import Report, Row, percentile, within
from pipeline.migrate import migrate
from retrieval import corpus
from retrieval.tables import PassageRow
from retrieval.types import Parsed, Piece

N_GROUPS, N_FOLDERS, N_DOCUMENTS, N_CANDIDATES = 40, 50, 1_000, 200
N_ROUNDS, PER_ROUND = 6, 20
STAGE_MS = 20
_MODEL = Path(__file__).parents[1] / "acl/model.conf"


def run() -> None:
    """Measure and write results/rights.json."""
    report = Report.begin("rights")
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/rights.db")
        migrate(database)
        tenant = create_tenant(database, "bench")
        person = _company(database, tenant)
        rows = _minting(database, person) + _checking(database, person)
        database.close()
    report.write(rows)


def _minting(database: Database, person: Principal) -> list[Row]:
    authority = Authority(database)
    authority.mint(person)
    cold, warm = [], []
    for _ in range(50):
        cold.append(_once_ms(lambda: Authority(database).mint(person)))
        warm += [_once_ms(lambda: authority.mint(person)) for _ in range(10)]
    size = f"{N_DOCUMENTS} documents, {N_FOLDERS} folders, {N_GROUPS} nested groups"
    p50 = percentile(cold, 50)
    return [
        Row(f"scope compiled from SQL ({size}): p50", p50, "ms"),
        Row("scope compiled from SQL: p95", percentile(cold, 95), "ms"),
        Row("scope remembered, counters read in a new snapshot: p50", percentile(warm, 50), "ms",
            "compiled", percentile(warm, 50) / p50),
        Row("scope remembered: p95", percentile(warm, 95), "ms"),
    ]  # fmt: skip


def _checking(database: Database, person: Principal) -> list[Row]:
    """Time stage 3 and casbin in turns, on the same candidates under the same 1,000 rules."""
    authority = Authority(database)
    scope = authority.mint(person)
    readers = _readers(database, person.tenant)
    with database.reading(person.tenant) as session:
        groups = closure(person.id, parents(session), everyone_id(session)) - {person.id}
    allowed = [passage for passage, reader in readers.items() if reader in groups]
    denied = [passage for passage, reader in readers.items() if reader not in groups]
    candidates = allowed[:N_CANDIDATES]
    enforcer = _enforcer(person, readers, groups)

    def second_check(ids: list[int]) -> int:
        with database.reading(person.tenant) as session:
            both = authority.narrowed(scope, authority.mint_in(session, person))
            return len(corpus.standing(session, ids, both))

    def asked_each(ids: list[int]) -> int:
        subject = str(person.id)
        return sum(enforcer.enforce(subject, "t", f"document:{n}", "read") for n in ids)

    for check in (second_check, asked_each):
        said = check(candidates), check(denied[:20])
        if said != (N_CANDIDATES, 0):
            raise RuntimeError(f"{said} of {N_CANDIDATES} and 0 candidates were let through")
    ours, theirs = [], []
    for _ in range(N_ROUNDS):
        ours += [_once_ms(lambda: second_check(candidates)) for _ in range(PER_ROUND)]
        theirs.append(_once_ms(lambda: asked_each(candidates)))
    p50, peer = percentile(ours, 50), percentile(theirs, 50)
    named = f"casbin enforce for each of {N_CANDIDATES}, {len(readers):,} rules: p50"
    return [
        Row(f"stage 3 for {N_CANDIDATES} candidates with text: p50", p50, "ms", "casbin",
            p50 / peer),
        within(f"stage 3 for {N_CANDIDATES} candidates with text: p95", percentile(ours, 95), "ms",
               STAGE_MS),
        Row(named, peer, "ms", "stage 3", peer / p50),
    ]  # fmt: skip


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
            corpus.store(writing, document, parsed, [Piece(text, 0, len(text), None)], vectors,
                         origin)  # fmt: skip
    with database.reading(tenant) as session:
        row = find_principal(session, "user:anna")
        return Principal(tenant, row.id, "user:anna")


def _once_ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000
