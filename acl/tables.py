"""Every table's root, and the tables of rights. Whose row it is, is a question of access."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, Integer, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# SQLite gives 64-bit row ids only to INTEGER columns; elsewhere BIGINT is said.
RowId = BigInteger().with_variant(Integer, "sqlite")

# AUTOINCREMENT: an id is never given twice, so no stale id can come to mean another row.
_NEVER_REUSED = {"sqlite_autoincrement": True}


class Base(DeclarativeBase):
    """Root of all tables. Use `TenantRow`: only the three tables below stand outside a tenant."""


class InstanceRow(Base):
    """The one row that names this life of the database (law 9), and the version searched.

    `live_version` is 0 until the first document is stored.
    """

    __tablename__ = "instance"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    incarnation: Mapped[str] = mapped_column(String(64))
    live_version: Mapped[int] = mapped_column(RowId, default=0)


class IndexVersionRow(Base):
    """An encoder for which every passage has, or is getting, a vector.

    `encoder` is how it is loaded, `name` says model and fingerprint. Vectors are float32 of
    unit norm. `complete`: no passage lacks its vector, so it may be searched.
    """

    __tablename__ = "index_version"
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    encoder: Mapped[str] = mapped_column(String(500))
    name: Mapped[str] = mapped_column(String(200), unique=True)
    width: Mapped[int]
    complete: Mapped[bool] = mapped_column(default=False)
    created_s: Mapped[float]


class TenantEntry(Base):
    """A tenant, with the counters that order its changes (`acl.types.Counters`)."""

    __tablename__ = "tenant"
    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    rights_epoch: Mapped[int] = mapped_column(RowId, default=0)
    content_sequence: Mapped[int] = mapped_column(RowId, default=0)
    departures: Mapped[int] = mapped_column(RowId, default=0)
    horizon: Mapped[int] = mapped_column(RowId, default=0)


class TenantRow(Base):
    """A row of one tenant. Sessions see only the rows of the tenant they are pinned to."""

    __abstract__ = True
    tenant: Mapped[str] = mapped_column(ForeignKey("tenant.id"), index=True)


class PrincipalRow(TenantRow):
    """A user, group or service. `name` is unique within its kind, compared exactly."""

    __tablename__ = "principal"
    __table_args__ = (UniqueConstraint("tenant", "kind", "name"), _NEVER_REUSED)
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    kind: Mapped[str] = mapped_column(String(10))
    name: Mapped[str] = mapped_column(String(200))
    display: Mapped[str] = mapped_column(String(200), default="")


class MembershipRow(TenantRow):
    """A group contains a principal, which may be a group."""

    __tablename__ = "membership"
    __table_args__ = (UniqueConstraint("group_id", "member_id"), _NEVER_REUSED)
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("principal.id"))
    member_id: Mapped[int] = mapped_column(ForeignKey("principal.id"), index=True)


class CollectionRow(TenantRow):
    """A folder. `cut` drops the allows from above, never the denies (law 5)."""

    __tablename__ = "collection"
    __table_args__ = (UniqueConstraint("tenant", "path"), _NEVER_REUSED)
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    public_id: Mapped[str] = mapped_column(String(40), unique=True)
    path: Mapped[str] = mapped_column(String(1000))
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("collection.id"))
    cut: Mapped[bool] = mapped_column(default=False)


class AccessClassRow(TenantRow):
    """Documents with the same readers: (collection, cut flag, own read grants).

    `own` holds the read grants in canonical order as [principal, effect, expires_s].
    `generation` rises when a passage leaves the class by move or removal.
    """

    __tablename__ = "access_class"
    __table_args__ = (UniqueConstraint("tenant", "key"), _NEVER_REUSED)
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    key: Mapped[str] = mapped_column(String(64))
    collection_id: Mapped[int] = mapped_column(ForeignKey("collection.id"))
    cut: Mapped[bool]
    own: Mapped[list[tuple[int, str, float | None]]] = mapped_column(JSON)
    generation: Mapped[int] = mapped_column(RowId, default=0)


class DocumentRow(TenantRow):
    """A document's place among the rights; its content belongs to `retrieval`."""

    __tablename__ = "document"
    __table_args__ = (Index("document_by_class", "tenant", "class_id"), _NEVER_REUSED)
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    public_id: Mapped[str] = mapped_column(String(40), unique=True)
    collection_id: Mapped[int] = mapped_column(ForeignKey("collection.id"))
    cut: Mapped[bool] = mapped_column(default=False)
    class_id: Mapped[int] = mapped_column(ForeignKey("access_class.id"))


class GrantRow(TenantRow):
    """A principal may, or may not, do an action to a resource and what is below it."""

    __tablename__ = "grant"
    __table_args__ = (
        UniqueConstraint("tenant", "level", "resource_id", "principal_id", "action", "effect"),
        _NEVER_REUSED,
    )
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    level: Mapped[str] = mapped_column(String(10))
    resource_id: Mapped[int] = mapped_column(RowId)
    principal_id: Mapped[int] = mapped_column(ForeignKey("principal.id"), index=True)
    action: Mapped[str] = mapped_column(String(10))
    effect: Mapped[str] = mapped_column(String(10))
    expires_s: Mapped[float | None]


class ApiKeyRow(TenantRow):
    """A key that vouches for a principal. Only a keyed hash of it is stored."""

    __tablename__ = "api_key"
    __table_args__ = (_NEVER_REUSED,)
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    principal_id: Mapped[int] = mapped_column(ForeignKey("principal.id"), index=True)
    prefix: Mapped[str] = mapped_column(String(20), unique=True)
    digest: Mapped[str] = mapped_column(String(64))
    label: Mapped[str] = mapped_column(String(100), default="")
    expires_s: Mapped[float | None]


class ChangeRow(TenantRow):
    """A document changed at a content sequence: its passages came, went or moved."""

    __tablename__ = "change"
    __table_args__ = (Index("change_by_sequence", "tenant", "sequence"), _NEVER_REUSED)
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    sequence: Mapped[int] = mapped_column(RowId)
    document_id: Mapped[int] = mapped_column(RowId)


class AuditRow(TenantRow):
    """What was decided or done, by whom, and why. Never read by a request.

    `documents` holds the public ids of what was shown. `seal` is the number of the seal that
    protects the row (`acl.chain`), none until it is made.
    """

    __tablename__ = "audit"
    __table_args__ = (Index("audit_by_seal", "tenant", "seal"), _NEVER_REUSED)
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    at_s: Mapped[float]
    principal_id: Mapped[int] = mapped_column(RowId)
    event: Mapped[str] = mapped_column(String(40))
    resource: Mapped[str] = mapped_column(String(80))
    outcome: Mapped[str] = mapped_column(String(20))
    reason: Mapped[str] = mapped_column(String(300), default="")
    documents: Mapped[list[str]] = mapped_column(JSON, default=list)
    seal: Mapped[int | None] = mapped_column(RowId, default=None)


class AuditSealRow(TenantRow):
    """A seal over a batch of audit records and the seal before it; see `acl.chain`.

    `pruned`: its records were removed in their time, and the chain starts here.
    """

    __tablename__ = "audit_seal"
    __table_args__ = (UniqueConstraint("tenant", "number"), _NEVER_REUSED)
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    number: Mapped[int] = mapped_column(RowId)
    at_s: Mapped[float]
    n_records: Mapped[int]
    digest: Mapped[str] = mapped_column(String(64))
    pruned: Mapped[bool] = mapped_column(default=False)
