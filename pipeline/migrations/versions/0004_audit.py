"""The audit log becomes a chain: seals, and the documents that a read showed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from acl.row_security import statements

revision = "0004_audit"
down_revision = "0003_row_security"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("audit") as batch:
        batch.add_column(
            sa.Column("documents", sa.JSON(), nullable=False, server_default=sa.text("'[]'"))
        )
        batch.add_column(sa.Column("seal", _NUMBER, nullable=True))
        batch.create_index("audit_by_seal", ["tenant", "seal"])
    op.create_table(
        "audit_seal",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("number", _NUMBER, nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("n_records", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("pruned", sa.Boolean(), nullable=False),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenant.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant", "number"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_audit_seal_tenant"), "audit_seal", ["tenant"])
    if op.get_context().dialect.name == "postgresql":
        for statement in statements([("audit_seal", "tenant")]):
            op.execute(statement)


def downgrade() -> None:
    op.drop_table("audit_seal")
    with op.batch_alter_table("audit") as batch:
        batch.drop_index("audit_by_seal")
        batch.drop_column("seal")
        batch.drop_column("documents")
