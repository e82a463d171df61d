"""The audit log: what was written can't be changed or taken out unseen."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text

from acl.audit import AuditLog, record
from acl.chain import Anchor, anchor, chain_key, check, prune, seal
from acl.directory import create_tenant
from acl.errors import AclRefused, UnknownResource
from acl.session import Database
from acl.types import Principal

KEY = chain_key(b"s" * 32)
PER_SEAL, N_SEALS = 3, 4


def fill(database: Database, tenant: str) -> None:
    for number in range(N_SEALS):
        with database.writing(tenant) as writing:
            for each in range(PER_SEAL):
                record(writing.session, None, "grant.give", f"r{number}.{each}", reason="why")
            assert seal(writing, KEY, float(number)) is not None


def fault(database: Database, tenant: str, held: Anchor | None = None) -> str:
    with database.reading(tenant) as session:
        return check(session, KEY, held).fault


def now_at(database: Database, tenant: str) -> Anchor:
    with database.reading(tenant) as session:
        found = anchor(session)
    assert found is not None
    return found


def test_an_untouched_log_is_as_it_was_written(any_database: Database) -> None:
    tenant = create_tenant(any_database, "acme")
    with any_database.reading(tenant) as session:
        assert anchor(session) is None
        assert check(session, KEY).fault == ""
    fill(any_database, tenant)
    with any_database.writing(tenant) as writing:
        assert seal(writing, KEY, 9.0) is None
        record(writing.session, None, "grant.give", "later")
    with any_database.reading(tenant) as session:
        found = check(session, KEY, now_at(any_database, tenant))
    assert (found.n_seals, found.n_records, found.n_unsealed) == (4, 12, 1)
    assert found.fault == ""


TAMPERINGS: dict[str, str] = {
    "a field is changed": "UPDATE audit SET reason = 'else' WHERE id = 5",
    "a time is changed": "UPDATE audit SET at_s = at_s + 1 WHERE id = 5",
    "documents are changed": "UPDATE audit SET documents = '[\"doc_1\"]' WHERE id = 5",
    "a record is removed": "DELETE FROM audit WHERE id = 5",
    "the last record is removed": "DELETE FROM audit WHERE id = 12",
    "a record is put in": (
        "INSERT INTO audit (tenant, at_s, principal_id, event, resource, outcome, reason, "
        "documents, seal) SELECT tenant, 1, 0, 'x', 'x', 'done', '', '[]', 2 FROM audit "
        "WHERE id = 1"
    ),
    "two records change places": (
        "UPDATE audit SET id = CASE id WHEN 4 THEN -5 WHEN 5 THEN -4 END WHERE id IN (4, 5);"
        "UPDATE audit SET id = -id WHERE id < 0"
    ),
    "a record goes under another seal": "UPDATE audit SET seal = 3 WHERE id = 5",
    "a record is made unsealed": "UPDATE audit SET seal = NULL WHERE id = 5",
    "a seal is removed": "DELETE FROM audit_seal WHERE number = 2",
    "a seal and its records are removed": (
        "DELETE FROM audit WHERE seal = 2; DELETE FROM audit_seal WHERE number = 2"
    ),
    "the gap is closed": (
        "DELETE FROM audit WHERE seal = 2; DELETE FROM audit_seal WHERE number = 2;"
        "UPDATE audit SET seal = seal - 1 WHERE seal > 2;"
        "UPDATE audit_seal SET number = number - 1 WHERE number > 2"
    ),
    "the beginning is cut off": (
        "DELETE FROM audit WHERE seal = 1; DELETE FROM audit_seal WHERE number = 1"
    ),
    "the beginning is called pruned": (
        "DELETE FROM audit WHERE seal <= 2; DELETE FROM audit_seal WHERE number < 2;"
        "UPDATE audit_seal SET pruned = 1 WHERE number = 2"
    ),
    "the beginning is called pruned, and a record that nobody sealed says so": (
        "DELETE FROM audit WHERE seal <= 2; DELETE FROM audit_seal WHERE number < 2;"
        "UPDATE audit_seal SET pruned = 1 WHERE number = 2;"
        "INSERT INTO audit (tenant, at_s, principal_id, event, resource, outcome, reason, "
        "documents) SELECT tenant, 1, 0, 'audit.prune', 'seal:2', 'done', '', '[]' FROM audit "
        "WHERE id = 9"
    ),
    "all is called pruned, and a record that nobody sealed says so": (
        "DELETE FROM audit WHERE id < 12; DELETE FROM audit_seal WHERE number < 4;"
        "UPDATE audit_seal SET pruned = 1;"
        "UPDATE audit SET event = 'audit.prune', resource = 'seal:4', seal = NULL"
    ),
    "the middle is called pruned": (
        "DELETE FROM audit WHERE seal = 2; UPDATE audit_seal SET pruned = 1 WHERE number = 2"
    ),
    "the last seal is removed": "DELETE FROM audit_seal WHERE number = 4",
    "a digest is changed": "UPDATE audit_seal SET digest = upper(digest) WHERE number = 3",
}


def tamper(database: Database, statements: str) -> None:
    def run(connection: Connection) -> None:
        for statement in statements.split(";"):
            connection.execute(text(statement))

    with database.engine.begin() as connection:
        run(connection)


@pytest.mark.parametrize("statements", TAMPERINGS.values(), ids=TAMPERINGS.keys())
def test_each_tampering_is_seen(database: Database, tenant: str, statements: str) -> None:
    fill(database, tenant)
    tamper(database, statements)
    assert fault(database, tenant) != ""


def test_an_end_that_was_cut_off_is_seen_with_an_anchor_and_only_then(
    database: Database, tenant: str
) -> None:
    fill(database, tenant)
    held = now_at(database, tenant)
    tamper(database, "DELETE FROM audit WHERE seal = 4; DELETE FROM audit_seal WHERE number = 4")
    assert fault(database, tenant) == ""
    assert "cut off" in fault(database, tenant, held)
    fill(database, tenant)
    assert "cut off" in fault(database, tenant, held), "also once others are in their place"


def test_who_has_another_key_can_make_no_seal(database: Database, tenant: str) -> None:
    with database.writing(tenant) as writing:
        record(writing.session, None, "grant.give", "r")
        seal(writing, chain_key(b"t" * 32), 1.0)
    assert "seal 1" in fault(database, tenant)
    with pytest.raises(ValueError, match="31 bytes"):
        chain_key(b"s" * 31)


def test_a_pruned_log_can_be_checked_from_where_it_begins(database: Database, tenant: str) -> None:
    fill(database, tenant)
    old = now_at(database, tenant)
    with database.writing(tenant) as writing:
        assert prune(writing, KEY, 2.5, 9.0) == 3 * PER_SEAL
    assert fault(database, tenant, old) == ""
    with database.writing(tenant) as writing:
        assert prune(writing, KEY, -1.0, 9.0) == 0
    with database.writing(tenant) as writing:
        assert prune(writing, KEY, 99.0, 10.0) == PER_SEAL + 1, "all, the record of before too"
    assert fault(database, tenant, old) == ""
    tamper(database, "DELETE FROM audit WHERE event = 'audit.prune'")
    assert fault(database, tenant) != ""


@pytest.mark.parametrize("line", ["", "x", "3", "3:abc", f"-1:{'0' * 64}"])
def test_what_is_no_anchor_is_refused(line: str) -> None:
    with pytest.raises(AclRefused, match="an anchor is"):
        Anchor.of(line)
    good = Anchor(3, "0" * 64)
    assert Anchor.of(str(good)) == good


def log_of(database: Database) -> AuditLog:
    return AuditLog(database, KEY, lambda: 5.0)


def test_notes_wait_for_their_batch_and_are_sealed_with_it(database: Database, tenant: str) -> None:
    log, ana = log_of(database), Principal(tenant, 7, "user:ana")
    for number in range(5):
        log.note(ana, "document.text", "a\0b", documents=[f"doc_{number}"])
    with database.reading(tenant) as session:
        assert check(session, KEY).n_records == 0
    log.flush()
    with database.reading(tenant) as session:
        found = check(session, KEY)
    assert (found.n_seals, found.n_records, found.fault) == (1, 5, "")
    log.close()


def test_a_full_queue_is_written_by_who_fills_it_and_none_is_dropped(
    database: Database, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acl.audit._MOST", 10)
    log, ana = log_of(database), Principal(tenant, 7, "user:ana")

    def work() -> None:
        for _ in range(25):
            log.note(ana, "search", "")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading(tenant) as session:
        assert check(session, KEY).n_records >= 90
    log.close()
    with database.reading(tenant) as session:
        assert check(session, KEY).n_records == 100


def test_two_processes_extend_one_chain(database: Database, tenant: str) -> None:
    logs = [log_of(database), log_of(Database(str(database.engine.url)))]
    ana = Principal(tenant, 7, "user:ana")

    def work(log: AuditLog) -> Callable[[], None]:
        def run() -> None:
            for _ in range(20):
                log.note(ana, "search", "")
                log.flush()

        return run

    threads = [threading.Thread(target=work(log)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading(tenant) as session:
        found = check(session, KEY)
    assert (found.n_records, found.n_unsealed, found.fault) == (40, 0, "")


def test_what_another_process_left_unsealed_is_sealed(database: Database, tenant: str) -> None:
    with database.writing(tenant) as writing:
        record(writing.session, None, "grant.give", "r")
    log_of(database).seal_all()
    with database.reading(tenant) as session:
        assert check(session, KEY).n_unsealed == 0


def test_a_note_that_can_not_be_written_waits(database: Database, tenant: str) -> None:
    log = log_of(database)
    log.note(Principal(tenant, 7, "user:ana"), "search", "")
    held = database.writing

    def full(_: str) -> object:
        raise OSError(28, "no space")

    database.writing = full  # type: ignore[method-assign, assignment]  # the full disk
    with pytest.raises(OSError, match="no space"):
        log.flush()
    database.writing = held  # type: ignore[method-assign]
    log.flush()
    with database.reading(tenant) as session:
        assert check(session, KEY).n_records == 1


def test_one_tenants_failure_loses_no_other_tenants_notes(database: Database, tenant: str) -> None:
    """What waited for tenants after the one that failed was once dropped."""
    log, gone = log_of(database), Principal("tn_gone", 7, "user:ana")
    others = [create_tenant(database, f"other{number}") for number in range(3)]
    for each in (gone, *(Principal(other, 7, "user:bo") for other in others)):
        log.note(each, "search", "")
    with pytest.raises(UnknownResource):
        log.flush()
    for other in others:
        with database.reading(other) as session:
            assert check(session, KEY).n_records == 1
