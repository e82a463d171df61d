"""acl.directory: names are plain, exact, and of one tenant."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from acl.directory import (
    as_operator,
    create_collection,
    create_principal,
    create_tenant,
    find_collection,
    find_principal,
    find_tenant,
    reference,
    tenants,
)
from acl.errors import AclRefused, UnknownPrincipal, UnknownResource
from acl.session import Database
from acl.tables import CollectionRow, PrincipalRow
from acl.types import Kind, Principal

NO_NAMES = [
    "", "*", "group:staff", "user:ana", " staff", "staff ", "staff\n", "a/b", "a b", "-a", ".a",
    "a\0b", "a,b", "a*", "../a", "a\u200b", "x" * 201,
]  # fmt: skip


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_looks_like_a_kind_a_pattern_or_a_path_is_no_name(
    database: Database, tenant: str, name: str
) -> None:
    with database.writing(tenant) as writing:
        for kind in Kind:
            with pytest.raises(AclRefused, match="is no name"):
                create_principal(writing, kind, name)
    with pytest.raises(AclRefused, match="is no name"):
        create_tenant(database, name)


def test_names_are_compared_exactly(database: Database, tenant: str) -> None:
    with database.writing(tenant) as writing:
        made = [create_principal(writing, Kind.GROUP, name) for name in ("staff", "Staff", "STAFF")]
        again, fresh = create_principal(writing, Kind.GROUP, "Staff")

        assert len({row.id for row, _ in made}) == 3
        assert (again.id, fresh) == (made[1][0].id, False)
        assert find_principal(writing.session, "group:staff").id == made[0][0].id
        for wrong in ("group:sta", "group:staff ", "group:*", "group:sta%", "group:s_aff"):
            with pytest.raises(UnknownPrincipal):
                find_principal(writing.session, wrong)


def test_kinds_have_names_of_their_own(database: Database, tenant: str) -> None:
    with database.writing(tenant) as writing:
        rows = [create_principal(writing, kind, "x")[0] for kind in Kind]

        assert [find_principal(writing.session, reference(row)).id for row in rows] == [
            row.id for row in rows
        ]
        assert len({row.id for row in rows}) == 3
        assert as_operator(writing.session, rows[0]) == Principal(tenant, rows[0].id, "user:x")


@pytest.mark.parametrize("wrong", ["ana", ":ana", "robot:ana", "USER:ana", "user", ""])
def test_a_reference_without_a_kind_names_nobody(
    database: Database, tenant: str, wrong: str
) -> None:
    with database.reading(tenant) as session, pytest.raises(UnknownPrincipal, match="write user:"):
        find_principal(session, wrong)


def test_a_name_in_one_tenant_is_unknown_in_another(database: Database, tenant: str) -> None:
    other = create_tenant(database, "other")
    with database.writing(tenant) as writing:
        create_principal(writing, Kind.USER, "ana")
        create_collection(writing, "hr")

    with database.reading(other) as session:
        with pytest.raises(UnknownPrincipal):
            find_principal(session, "user:ana")
        with pytest.raises(UnknownResource):
            find_collection(session, "hr")
    with database.writing(other) as writing:
        assert create_principal(writing, Kind.USER, "ana")[1]


def test_a_new_principal_moves_the_epoch_and_a_new_display_does_not(
    database: Database, tenant: str
) -> None:
    with database.writing(tenant) as first:
        create_principal(first, Kind.USER, "ana", "Ana")
    with database.writing(tenant) as second:
        row, _ = create_principal(second, Kind.USER, "ana", "Ana B.")
        assert row.display == "Ana B."
        assert create_principal(second, Kind.USER, "ana")[0].display == "Ana B."

    assert first.counters is not None
    assert second.counters == first.counters
    assert first.counters.rights_epoch == 1


def test_tenants_are_found_by_name_and_named_once(database: Database, tenant: str) -> None:
    other = create_tenant(database, "other")

    assert find_tenant(database, "acme") == tenant
    assert tenants(database) == {"acme": tenant, "other": other}
    with pytest.raises(AclRefused, match="exists"):
        create_tenant(database, "acme")
    with pytest.raises(UnknownResource, match="ostiary tenant add"):
        find_tenant(database, "third")
    with database.reading(other) as session:
        assert session.scalars(select(PrincipalRow.name)).all() == ["everyone"]


def test_a_collection_is_made_with_those_above_it(database: Database, tenant: str) -> None:
    with database.writing(tenant) as writing:
        deep = create_collection(writing, "a/b/c")

        assert create_collection(writing, "a/./b//c/").id == deep.id
        assert find_collection(writing.session, "a/b/c/").id == deep.id
        paths = select(CollectionRow.path).order_by(CollectionRow.path)
        assert writing.session.scalars(paths).all() == ["a", "a/b", "a/b/c"]
        assert deep.parent_id == find_collection(writing.session, "a/b").id
        assert find_collection(writing.session, "a").parent_id is None


@pytest.mark.parametrize("path", ["", ".", "/", "/a", "//a", "..", "a/../b", "x" * 1001])
def test_a_path_that_is_absolute_empty_or_climbs_is_no_collection(
    database: Database, tenant: str, path: str
) -> None:
    with database.writing(tenant) as writing, pytest.raises(AclRefused, match="no collection path"):
        create_collection(writing, path)


def test_a_collection_can_be_very_deep(database: Database, tenant: str) -> None:
    path = "/".join(["f"] * 200)
    with database.writing(tenant) as writing:
        assert create_collection(writing, path).path == path
