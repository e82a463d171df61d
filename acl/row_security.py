"""The second wall on PostgreSQL: rows of other tenants do not exist for a session.

Sessions of `acl.session` add the tenant to every ORM statement; these policies hold for what
passes by that, raw SQL too. They bind the tables' owner; only superusers and roles with
BYPASSRLS pass, and `walls_stand` tells of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlalchemy import Connection, event, text
from sqlalchemy.orm import Session, SessionTransaction

from acl.tables import Base, TenantEntry, TenantRow

_TENANT, _EVERY = "ostiary.tenant", "ostiary.every_tenant"
# Two policies are united: own rows, or every row for the few sessions that say so.
_OWN = "{column} = current_setting('" + _TENANT + "', true)"
_ALL = "current_setting('" + _EVERY + "', true) = 'yes'"


def tenant_tables() -> dict[str, str]:
    """Name every table that holds rows of tenants, with the column that says whose."""
    found = {TenantEntry.__tablename__: "id"}
    for mapper in Base.registry.mappers:
        if issubclass(mapper.class_, TenantRow):
            found[mapper.class_.__tablename__] = "tenant"
    return found


def statements(tables: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Give the statements that raise the wall. tables: name and column, as `tenant_tables`."""
    for table, column in tables:
        own = _OWN.format(column=column)
        yield f'ALTER TABLE "{table}" ENABLE ROW LEVEL SECURITY'
        yield f'ALTER TABLE "{table}" FORCE ROW LEVEL SECURITY'
        yield f'CREATE POLICY own_rows ON "{table}" USING ({own}) WITH CHECK ({own})'
        yield f'CREATE POLICY every_row ON "{table}" USING ({_ALL}) WITH CHECK ({_ALL})'


def grants(role: str) -> Iterator[str]:
    """Give the statements that let a role read and write rows, and no more.

    Raises: ValueError if the role's name is not a plain word.
    """
    if not role.isidentifier():
        raise ValueError(f"a role's name must be a plain word; found {role!r}")
    yield f'GRANT USAGE ON SCHEMA public TO "{role}"'
    yield f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "{role}"'
    yield f'GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO "{role}"'


def walls_stand(connection: Connection) -> str:
    """Say why the wall does not bind this connection; "" if it does."""
    free = connection.execute(
        text("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
    ).scalar()
    if free:
        return "the database role is a superuser or has BYPASSRLS: row security does not bind it"
    held = connection.execute(
        text("SELECT relname FROM pg_class WHERE relforcerowsecurity AND relrowsecurity")
    ).scalars()
    bare = sorted(tenant_tables().keys() - set(held))
    return f"row security is not forced on: {', '.join(bare)}" if bare else ""


@event.listens_for(Session, "after_begin")
def _say_whose(session: Session, _: SessionTransaction, connection: Connection) -> None:
    """Say at the start of a transaction whose rows it is about; it is forgotten at its end."""
    if connection.dialect.name != "postgresql":
        return
    tenant = session.info.get("tenant")
    said = {"tenant": tenant or "", "every": "yes" if tenant is None else "no"}
    connection.execute(
        text(
            f"SELECT set_config('{_TENANT}', :tenant, true), set_config('{_EVERY}', :every, true)"
        ),
        said,
    )
