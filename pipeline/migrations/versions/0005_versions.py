"""Vectors apart from passages, one for each index version."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

from acl.row_security import statements

revision = "0005_versions"
down_revision = "0004_audit"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column(
        "instance", sa.Column("live_version", _NUMBER, nullable=False, server_default="0")
    )
    op.create_table(
        "index_version",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("encoder", sa.String(length=500), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "embedding",
        sa.Column("passage_id", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("version_id", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(["passage_id"], ["passage.id"]),
        sa.ForeignKeyConstraint(["tenant"], ["tenant.id"]),
        sa.PrimaryKeyConstraint("passage_id", "version_id"),
    )
    op.create_index(op.f("ix_embedding_tenant"), "embedding", ["tenant"])
    postgresql = op.get_context().dialect.name == "postgresql"
    if postgresql:
        # The migration works on every tenant's rows.
        op.execute("SELECT set_config('ostiary.every_tenant', 'yes', true)")
        for statement in statements([("embedding", "tenant")]):
            op.execute(statement)
    _move()
    # Not in a batch: a table that is copied can't be dropped while rows refer to it.
    op.execute("ALTER TABLE passage DROP COLUMN vector")


def downgrade() -> None:
    raise RuntimeError("vectors of several versions can't go back into one column")


def _move() -> None:
    """Make a version of each encoder that vectors are of; the one of most is live."""
    connection = op.get_bind()
    found = connection.execute(
        sa.text(
            "SELECT content.encoder, count(*), min(length(passage.vector)) FROM passage "
            "JOIN content ON content.document_id = passage.document_id "
            "GROUP BY content.encoder ORDER BY count(*) DESC"
        )
    ).all()
    for number, (name, _, nbytes) in enumerate(found, start=1):
        # What settings called it is not known any more; the default one is known by its name.
        setting = name if str(name).startswith("hashed") else "default"
        connection.execute(
            sa.text(
                "INSERT INTO index_version (id, encoder, name, width, complete, created_s) "
                "VALUES (:id, :encoder, :name, :width, :complete, :created)"
            ),
            {"id": number, "encoder": setting.replace("-", ":"), "name": name,
             "width": nbytes // 4, "complete": len(found) == 1, "created": time.time()},
        )  # fmt: skip
        connection.execute(
            sa.text(
                "INSERT INTO embedding (passage_id, version_id, vector, tenant) "
                "SELECT passage.id, :id, passage.vector, passage.tenant FROM passage "
                "JOIN content ON content.document_id = passage.document_id "
                "WHERE content.encoder = :name"
            ),
            {"id": number, "name": name},
        )
    if found:
        connection.execute(sa.text("UPDATE instance SET live_version = 1"))
        if op.get_context().dialect.name == "postgresql":
            connection.execute(
                sa.text("SELECT setval('index_version_id_seq', :last)"), {"last": len(found)}
            )
