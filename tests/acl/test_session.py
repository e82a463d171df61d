"""acl.session: one tenant for each session, and no write but through `writing`."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.orm import Session, aliased

from acl.directory import create_collection, create_tenant
from acl.errors import UnknownResource
from acl.session import Database, counters, is_changed, new_id
from acl.tables import Base, CollectionRow, GrantRow, PrincipalRow, TenantRow


@pytest.fixture
def theirs(database: Database) -> int:
    """The row id of a collection of another tenant."""
    with database.writing(create_tenant(database, "other")) as writing:
        return create_collection(writing, "secret").id


def detached(database: Database, number: int) -> CollectionRow:
    """Load a row of whatever tenant, as a bug might hand one over."""
    with database.unpinned() as session:
        return session.get_one(CollectionRow, number)


def test_rows_of_another_tenant_can_not_be_read(
    database: Database, tenant: str, theirs: int
) -> None:
    other = aliased(CollectionRow)
    with database.reading(tenant) as session:
        assert session.get(CollectionRow, theirs) is None
        assert session.scalars(select(CollectionRow)).all() == []
        assert session.scalars(select(CollectionRow.path)).all() == []
        assert session.scalars(select(other.id).where(other.id == theirs)).all() == []
        assert session.scalar(select(func.count()).select_from(CollectionRow)) == 0
        assert session.scalar(select(CollectionRow.id).union(select(other.id))) is None
        joined = select(PrincipalRow.id).join(other, other.tenant != PrincipalRow.tenant)
        assert session.scalars(joined).all() == []
        inside = select(PrincipalRow.id).where(select(other.id).exists())
        assert session.scalars(inside).all() == []


def test_rows_of_another_tenant_can_not_be_updated_or_deleted(
    database: Database, tenant: str, theirs: int
) -> None:
    with database.writing(tenant) as writing:
        writing.session.execute(update(CollectionRow).values(path="mine"))
        writing.session.execute(delete(CollectionRow).where(CollectionRow.id == theirs))

    assert detached(database, theirs).path == "secret"


def test_each_session_sees_its_own_tenant_in_turn(database: Database, tenant: str) -> None:
    other = create_tenant(database, "other")
    for each in (tenant, other, tenant):
        with database.reading(each) as session:
            assert {row.tenant for row in session.scalars(select(PrincipalRow))} == {each}


def test_a_session_without_a_tenant_is_refused(database: Database) -> None:
    with Session(database.engine) as session, pytest.raises(AssertionError, match="opened by"):
        session.scalars(select(PrincipalRow))


def test_a_new_row_belongs_to_the_tenant_of_its_session(database: Database, tenant: str) -> None:
    with database.writing(tenant) as writing:
        row = CollectionRow(public_id=new_id("col"), path="a")
        writing.session.add(row)
        writing.session.flush()

        assert row.tenant == tenant


def test_a_row_of_another_tenant_is_refused_however_it_comes(
    database: Database, tenant: str, theirs: int
) -> None:
    other = detached(database, theirs)
    fresh = CollectionRow(tenant=other.tenant, public_id=new_id("col"), path="a")
    with pytest.raises(AssertionError, match="another tenant"), database.writing(tenant) as writing:
        writing.session.add(fresh)
    with pytest.raises(AssertionError, match="another tenant"), database.writing(tenant) as writing:
        writing.session.merge(other)
    with pytest.raises(AssertionError, match="another tenant"), database.writing(tenant) as writing:
        writing.session.delete(other)
    changed = detached(database, theirs)
    changed.path = "mine"
    with pytest.raises(AssertionError, match="another tenant"), database.writing(tenant) as writing:
        writing.session.add(changed)

    assert detached(database, theirs).path == "secret"


def test_a_row_can_not_be_moved_to_another_tenant(
    database: Database, tenant: str, theirs: int
) -> None:
    with pytest.raises(AssertionError, match="another tenant"), database.writing(tenant) as writing:
        create_collection(writing, "a").tenant = detached(database, theirs).tenant


def test_nothing_is_written_through_a_reading(any_database: Database) -> None:
    tenant = create_tenant(any_database, "acme")
    with pytest.raises(AssertionError, match="must not"), any_database.reading(tenant) as session:
        session.add(CollectionRow(public_id=new_id("col"), path="a"))
    with any_database.reading(tenant) as session:
        session.execute(update(PrincipalRow).values(name="renamed"))
        session.add(CollectionRow(public_id=new_id("col"), path="a"))
        session.flush()

    with any_database.reading(tenant) as session:
        assert session.scalars(select(CollectionRow)).all() == []
        assert session.scalars(select(PrincipalRow.name)).all() == ["everyone"]


def test_a_tenant_that_is_not_there_is_said_to_be_unknown(database: Database) -> None:
    with pytest.raises(UnknownResource), database.writing("tn_none"):
        pytest.fail("a write of nobody began")
    with database.reading("tn_none") as session, pytest.raises(UnknownResource):
        counters(session)


def test_a_session_knows_whether_it_has_written(database: Database, tenant: str) -> None:
    with database.writing(tenant) as writing:
        row = writing.session.scalars(select(PrincipalRow)).one()
        assert not is_changed(writing.session)
        row.display = "All"
        assert is_changed(writing.session)
        writing.session.flush()
        assert is_changed(writing.session)
    with database.writing(tenant) as writing:
        writing.session.execute(delete(GrantRow))
        assert is_changed(writing.session)


def test_a_failed_write_leaves_no_row(any_database: Database) -> None:
    tenant = create_tenant(any_database, "acme")
    with pytest.raises(KeyError), any_database.writing(tenant) as writing:  # noqa: PT012
        create_collection(writing, "a")
        raise KeyError("after the write")

    with any_database.reading(tenant) as session:
        assert session.scalars(select(CollectionRow)).all() == []


def test_sqlite_syncs_every_commit(database: Database) -> None:
    """Law 9: with less than FULL (2), a commit that was acknowledged may be lost."""
    with database.engine.connect() as connection:
        asked = {
            name: connection.scalar(text(f"PRAGMA {name}"))
            for name in ("synchronous", "foreign_keys")
        }

        assert asked == {"synchronous": 2, "foreign_keys": 1}
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"


def test_every_table_but_three_belongs_to_a_tenant() -> None:
    outside = {
        each.class_.__name__
        for each in Base.registry.mappers
        if not issubclass(each.class_, TenantRow)
    }

    assert outside == {"IndexVersionRow", "InstanceRow", "TenantEntry"}
    for each in Base.registry.mappers:
        if issubclass(each.class_, TenantRow):
            assert not each.local_table.c["tenant"].nullable
