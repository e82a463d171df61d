"""acl.keys: a key vouches for its principal until it ends, and is never stored."""

from __future__ import annotations

import pytest
from sqlalchemy import select, text

from acl.authorize import Authority
from acl.directory import create_principal, create_tenant
from acl.errors import UnknownPrincipal
from acl.groups import delete_principal
from acl.keys import create_key, key_prefix, revoke_key, verify_key
from acl.session import Database
from acl.tables import ApiKeyRow, PrincipalRow
from acl.types import Kind, Principal
from tests.clock import Clock

SECRET = b"s" * 32


def key_for(
    database: Database, tenant: str, name: str = "ana", expires_s: float | None = None
) -> str:
    """Make a user, unless it is there, and a key for it."""
    with database.writing(tenant) as writing:
        row, _ = create_principal(writing, Kind.USER, name)
        return create_key(writing, row, SECRET, "laptop", expires_s)


def test_a_key_vouches_for_its_principal(any_database: Database, clock: Clock) -> None:
    tenants = [create_tenant(any_database, name) for name in ("acme", "other")]
    for tenant in tenants:
        token = key_for(any_database, tenant)

        principal = verify_key(any_database, token, SECRET, clock.now_s)

        assert (principal.tenant, principal.name) == (tenant, "user:ana")
        with any_database.reading(tenant) as session:
            key = session.scalars(select(ApiKeyRow)).one()
            assert (principal.id, principal.key) == (key.principal_id, key.id)
            assert key.prefix == key_prefix(token)


def test_the_key_itself_is_stored_nowhere(database: Database, tenant: str) -> None:
    token = key_for(database, tenant)
    secret_part = token.split("_", 2)[2]
    with database.engine.connect() as connection:
        names = connection.scalars(text("SELECT name FROM sqlite_master WHERE type = 'table'"))
        for name in names.all():
            rows = connection.execute(text(f'SELECT * FROM "{name}"')).all()  # noqa: S608
            assert secret_part not in repr(rows)
            assert key_prefix(token) in repr(rows) or name != "api_key"


def test_whatever_is_wrong_with_a_key_the_answer_is_the_same(
    any_database: Database, clock: Clock
) -> None:
    tenant = create_tenant(any_database, "acme")
    good = key_for(any_database, tenant)
    prefix = key_prefix(good)
    ended = key_for(any_database, tenant, expires_s=clock.now_s())
    revoked = key_for(any_database, tenant)
    orphan = key_for(any_database, tenant, "ben")
    with any_database.writing(tenant) as writing:
        assert revoke_key(writing, key_prefix(revoked))
        assert not revoke_key(writing, key_prefix(revoked))
        ben = writing.session.scalars(select(PrincipalRow).where(PrincipalRow.name == "ben")).one()
        delete_principal(writing, ben)
    wrong = [
        ended, revoked, orphan, "", "ost", "ost__", f"ost_{prefix}_", f"ost_{prefix}_{'A' * 43}",
        good[:-1], good + "A", good.upper(), "xyz" + good[3:], good.replace("_", "-"), " " + good,
        f"ost_{prefix}\0_x", f"ost_{prefix}é_x", f"ost_{prefix}_\ud800",
    ]  # fmt: skip
    for token in wrong:
        with pytest.raises(UnknownPrincipal, match=r"^the API key is not valid$"):
            verify_key(any_database, token, SECRET, clock.now_s)
    with pytest.raises(UnknownPrincipal, match=r"^the API key is not valid$"):
        verify_key(any_database, good, b"t" * 32, clock.now_s)

    assert verify_key(any_database, good, SECRET, clock.now_s).name == "user:ana"


def test_a_secret_may_be_longer_than_the_hash_takes(database: Database, clock: Clock) -> None:
    """BLAKE2b takes keys of 64 bytes at most; every byte of the secret must count."""
    tenant = create_tenant(database, "acme")
    with database.writing(tenant) as writing:
        row, _ = create_principal(writing, Kind.SERVICE, "loader")
        token = create_key(writing, row, b"s" * 100)

    assert verify_key(database, token, b"s" * 100, clock.now_s).name == "service:loader"
    with pytest.raises(UnknownPrincipal):
        verify_key(database, token, b"s" * 99 + b"t", clock.now_s)


def test_no_two_keys_are_alike_and_each_can_be_revoked_alone(
    database: Database, tenant: str, clock: Clock
) -> None:
    first, second = key_for(database, tenant), key_for(database, tenant)
    assert first != second
    with database.writing(tenant) as writing:
        assert revoke_key(writing, key_prefix(first))

    with pytest.raises(UnknownPrincipal):
        verify_key(database, first, SECRET, clock.now_s)
    assert verify_key(database, second, SECRET, clock.now_s).name == "user:ana"


def test_a_tenant_can_not_revoke_the_key_of_another(
    database: Database, tenant: str, clock: Clock
) -> None:
    token = key_for(database, create_tenant(database, "other"))
    with database.writing(tenant) as writing:
        assert not revoke_key(writing, key_prefix(token))

    assert verify_key(database, token, SECRET, clock.now_s).name == "user:ana"


def test_a_group_can_not_hold_a_key(database: Database, tenant: str) -> None:
    with database.writing(tenant) as writing:
        group, _ = create_principal(writing, Kind.GROUP, "staff")
        with pytest.raises(UnknownPrincipal, match="can't hold a key"):
            create_key(writing, group, SECRET)


@pytest.mark.parametrize("end", ["revoked", "expired", "deleted"])
def test_no_scope_is_minted_after_the_end_of_the_key(
    any_database: Database, clock: Clock, end: str
) -> None:
    tenant = create_tenant(any_database, "acme")
    token = key_for(any_database, tenant, expires_s=clock.now_s() + 60)
    authority = Authority(any_database, clock.now_s)
    principal = verify_key(any_database, token, SECRET, clock.now_s)
    assert authority.mint(principal).valid_until_s == clock.now_s() + 60

    if end == "expired":
        clock.advance(60)
    else:
        with any_database.writing(tenant) as writing:
            if end == "revoked":
                revoke_key(writing, key_prefix(token))
            else:
                delete_principal(writing, writing.session.get_one(PrincipalRow, principal.id))

    with pytest.raises(UnknownPrincipal):
        authority.mint(principal)


def test_a_key_vouches_for_no_other_principal(
    database: Database, tenant: str, authority: Authority, clock: Clock
) -> None:
    ana = verify_key(database, key_for(database, tenant), SECRET, clock.now_s)
    ben = verify_key(database, key_for(database, tenant, "ben"), SECRET, clock.now_s)

    with pytest.raises(UnknownPrincipal):
        authority.mint(Principal(tenant, ben.id, ben.name, ana.key))
    assert authority.mint(ben).principal == ben
