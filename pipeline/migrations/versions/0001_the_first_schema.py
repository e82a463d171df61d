"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "instance",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("incarnation", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "tenant",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column(
            "rights_epoch", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column(
            "content_sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column(
            "departures", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("horizon", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column(
            "principal_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("event", sa.String(length=40), nullable=False),
        sa.Column("resource", sa.String(length=80), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.String(length=300), nullable=False),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenant.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_audit_tenant"), ["tenant"], unique=False)

    op.create_table(
        "change",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "document_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenant.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("change", schema=None) as batch_op:
        batch_op.create_index("change_by_sequence", ["tenant", "sequence"], unique=False)
        batch_op.create_index(batch_op.f("ix_change_tenant"), ["tenant"], unique=False)

    op.create_table(
        "collection",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("public_id", sa.String(length=40), nullable=False),
        sa.Column("path", sa.String(length=1000), nullable=False),
        sa.Column("parent_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("cut", sa.Boolean(), nullable=False),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["parent_id"],
            ["collection.id"],
        ),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenant.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("public_id"),
        sa.UniqueConstraint("tenant", "path"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("collection", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_collection_tenant"), ["tenant"], unique=False)

    op.create_table(
        "principal",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("display", sa.String(length=200), nullable=False),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenant.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant", "kind", "name"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("principal", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_principal_tenant"), ["tenant"], unique=False)

    op.create_table(
        "access_class",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column(
            "collection_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("cut", sa.Boolean(), nullable=False),
        sa.Column("own", sa.JSON(), nullable=False),
        sa.Column(
            "generation", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"],
            ["collection.id"],
        ),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenant.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant", "key"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("access_class", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_access_class_tenant"), ["tenant"], unique=False)

    op.create_table(
        "api_key",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "principal_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("prefix", sa.String(length=20), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("label", sa.String(length=100), nullable=False),
        sa.Column("expires_s", sa.Double(), nullable=True),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["principal_id"],
            ["principal.id"],
        ),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenant.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("prefix"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("api_key", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_api_key_principal_id"), ["principal_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_api_key_tenant"), ["tenant"], unique=False)

    op.create_table(
        "grant",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("level", sa.String(length=10), nullable=False),
        sa.Column(
            "resource_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column(
            "principal_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("action", sa.String(length=10), nullable=False),
        sa.Column("effect", sa.String(length=10), nullable=False),
        sa.Column("expires_s", sa.Double(), nullable=True),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["principal_id"],
            ["principal.id"],
        ),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenant.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant", "level", "resource_id", "principal_id", "action", "effect"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("grant", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_grant_principal_id"), ["principal_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_grant_tenant"), ["tenant"], unique=False)

    op.create_table(
        "membership",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("group_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "member_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["principal.id"],
        ),
        sa.ForeignKeyConstraint(
            ["member_id"],
            ["principal.id"],
        ),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenant.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("group_id", "member_id"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("membership", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_membership_member_id"), ["member_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_membership_tenant"), ["tenant"], unique=False)

    op.create_table(
        "document",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("public_id", sa.String(length=40), nullable=False),
        sa.Column(
            "collection_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("cut", sa.Boolean(), nullable=False),
        sa.Column("class_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["class_id"],
            ["access_class.id"],
        ),
        sa.ForeignKeyConstraint(
            ["collection_id"],
            ["collection.id"],
        ),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenant.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("public_id"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("document", schema=None) as batch_op:
        batch_op.create_index("document_by_class", ["tenant", "class_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_document_tenant"), ["tenant"], unique=False)

    op.create_table(
        "content",
        sa.Column(
            "document_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("origin", sa.String(length=10), nullable=False),
        sa.Column("source", sa.String(length=2000), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("recipe", sa.String(length=200), nullable=False),
        sa.Column("encoder", sa.String(length=100), nullable=False),
        sa.Column("title", sa.String(length=300), nullable=False),
        sa.Column("media_type", sa.String(length=100), nullable=False),
        sa.Column("nbytes", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("pages", sa.JSON(), nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"],
            ["document.id"],
        ),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenant.id"],
        ),
        sa.PrimaryKeyConstraint("document_id"),
    )
    with op.batch_alter_table("content", schema=None) as batch_op:
        batch_op.create_index("content_by_source", ["tenant", "origin", "source"], unique=False)
        batch_op.create_index(batch_op.f("ix_content_tenant"), ["tenant"], unique=False)

    op.create_table(
        "passage",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "document_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("end", sa.Integer(), nullable=False),
        sa.Column("page", sa.Integer(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("tenant", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"],
            ["document.id"],
        ),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenant.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("passage", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_passage_tenant"), ["tenant"], unique=False)
        batch_op.create_index(
            "passage_by_document", ["tenant", "document_id", "ordinal"], unique=False
        )


def downgrade() -> None:
    with op.batch_alter_table("passage", schema=None) as batch_op:
        batch_op.drop_index("passage_by_document")
        batch_op.drop_index(batch_op.f("ix_passage_tenant"))

    op.drop_table("passage")
    with op.batch_alter_table("content", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_content_tenant"))
        batch_op.drop_index("content_by_source")

    op.drop_table("content")
    with op.batch_alter_table("document", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_document_tenant"))
        batch_op.drop_index("document_by_class")

    op.drop_table("document")
    with op.batch_alter_table("membership", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_membership_tenant"))
        batch_op.drop_index(batch_op.f("ix_membership_member_id"))

    op.drop_table("membership")
    with op.batch_alter_table("grant", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_grant_tenant"))
        batch_op.drop_index(batch_op.f("ix_grant_principal_id"))

    op.drop_table("grant")
    with op.batch_alter_table("api_key", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_api_key_tenant"))
        batch_op.drop_index(batch_op.f("ix_api_key_principal_id"))

    op.drop_table("api_key")
    with op.batch_alter_table("access_class", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_access_class_tenant"))

    op.drop_table("access_class")
    with op.batch_alter_table("principal", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_principal_tenant"))

    op.drop_table("principal")
    with op.batch_alter_table("collection", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_collection_tenant"))

    op.drop_table("collection")
    with op.batch_alter_table("change", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_change_tenant"))
        batch_op.drop_index("change_by_sequence")

    op.drop_table("change")
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_audit_tenant"))

    op.drop_table("audit")
    op.drop_table("tenant")
    op.drop_table("instance")
