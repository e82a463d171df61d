"""Row security on PostgreSQL: a session sees the rows of its tenant, whatever it asks."""

from __future__ import annotations

from alembic import op

from acl.row_security import statements

revision = "0003_row_security"
down_revision = "0001"
branch_labels = None
depends_on = None

# As they were at this revision; a later table raises its own wall in its own migration.
TABLES = [
    ("tenant", "id"),
    ("principal", "tenant"),
    ("membership", "tenant"),
    ("collection", "tenant"),
    ("access_class", "tenant"),
    ("document", "tenant"),
    ("grant", "tenant"),
    ("api_key", "tenant"),
    ("change", "tenant"),
    ("audit", "tenant"),
    ("content", "tenant"),
    ("passage", "tenant"),
]


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        for statement in statements(TABLES):
            op.execute(statement)


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        for table, _ in TABLES:
            op.execute(f'DROP POLICY own_rows ON "{table}"')
            op.execute(f'DROP POLICY every_row ON "{table}"')
            op.execute(f'ALTER TABLE "{table}" NO FORCE ROW LEVEL SECURITY')
            op.execute(f'ALTER TABLE "{table}" DISABLE ROW LEVEL SECURITY')
