"""The audit log as a chain: what was written can't be changed or taken out unseen.

Records are sealed in batches. A seal is a keyed digest over the seal before it and every field
of its records, so only who holds the deployment's secret can make one. A tenant has one chain,
extended inside its writes, which are one at a time; any process seals what another left behind.
What the chain alone can't show is that its end was cut off: an anchor kept elsewhere does.

Source: B. Schneier, J. Kelsey, Secure Audit Logs to Support Computer Forensics, 1999.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from acl.errors import AclRefused
from acl.session import Writing
from acl.tables import AuditRow, AuditSealRow

PRUNED = "audit.prune"

_BATCH = 1_000
_SECRET_BYTES = 32
_START = "0" * 64


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a chain stood once: seal number and digest. Kept elsewhere, it holds the end."""

    number: int
    digest: str

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"

    @classmethod
    def of(cls, text: str) -> Anchor:
        """Read what was printed. Raises: AclRefused."""
        number, _, digest = text.strip().partition(":")
        if not number.isdecimal() or len(digest) != len(_START):
            raise AclRefused("an anchor is a number, a colon and 64 hexadecimal characters")
        return cls(int(number), digest)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of the chain found. fault: "" if all is well, else the first thing wrong.

    n_unsealed: records that were written since the last seal; they are not protected yet.
    """

    n_seals: int
    n_records: int
    n_unsealed: int
    fault: str


def chain_key(secret: bytes) -> bytes:
    """Derive the key of seals. Raises: ValueError if the secret has less than 32 bytes."""
    if len(secret) < _SECRET_BYTES:
        raise ValueError(f"the secret has {len(secret)} bytes, needs {_SECRET_BYTES}")
    return hmac.digest(secret, b"ostiary audit chain", "sha256")


def seal(writing: Writing, key: bytes, now_s: float) -> Anchor | None:
    """Seal a batch of what is not sealed yet; None if there is nothing.

    Gives where the chain stands then.
    """
    session = writing.session
    session.flush()
    wanted = select(AuditRow).where(AuditRow.seal.is_(None)).order_by(AuditRow.id).limit(_BATCH)
    rows = session.scalars(wanted).all()
    if not rows:
        return None
    last = _last(session)
    number = 1 if last is None else last.number + 1
    before = _START if last is None else last.digest
    digest = _digest(key, before, number, rows)
    made = AuditSealRow(number=number, at_s=now_s, n_records=len(rows), digest=digest)
    session.add(made)
    session.execute(
        update(AuditRow).where(AuditRow.id.in_([row.id for row in rows])).values(seal=number)
    )
    session.flush()
    return Anchor(number, digest)


def anchor(session: Session) -> Anchor | None:
    """Give where the tenant's chain stands; None if nothing has been sealed."""
    last = _last(session)
    return None if last is None else Anchor(last.number, last.digest)


def check(session: Session, key: bytes, held: Anchor | None = None) -> Checked:
    """Walk the tenant's chain in one snapshot.

    Args: held: an anchor kept elsewhere; without one a chain that lost its end looks whole.
    """
    n_unsealed = session.scalars(
        select(func.count()).select_from(AuditRow).where(AuditRow.seal.is_(None))
    ).one()
    n_seals, n_records, digest, number = 0, 0, _START, 0
    fault, anchored = "", held is None
    # The seal at which the chain begins since records were removed, until that is told.
    untold: int | None = None
    for made in session.scalars(select(AuditSealRow).order_by(AuditSealRow.number)):
        rows = list(_sealed(session, made.number))
        if not n_seals and made.pruned:
            untold = made.number
            fault = "pruned records are still there" if rows else ""
        elif made.number != number + 1:
            fault = f"seal {number + 1} is missing"
        elif made.pruned or len(rows) != made.n_records:
            fault = (
                f"seal {made.number} was made over {made.n_records} records; {len(rows)} are there"
            )
        elif not hmac.compare_digest(_digest(key, digest, made.number, rows), made.digest):
            fault = f"a record of seal {made.number}, or the seal, is not what was written"
        if fault:
            break
        number, digest = made.number, made.digest
        n_seals, n_records = n_seals + 1, n_records + len(rows)
        if any((row.event, row.resource) == (PRUNED, f"seal:{untold}") for row in rows):
            untold = None
        anchored = anchored or (held is not None and (held.number, held.digest) == (number, digest))
    beyond = session.scalars(select(AuditRow.id).where(AuditRow.seal > number).limit(1)).first()
    if not fault and beyond is not None:
        fault = f"records name seal {number + 1} or a later one, which is not there"
    if not fault and untold is not None:
        fault = f"records up to seal {untold} were removed, and no sealed record says so"
    if not fault and not anchored and held is not None and held.number >= _first(session):
        fault = f"the chain does not hold the anchor at seal {held.number}: its end was cut off"
    return Checked(n_seals, n_records, n_unsealed, fault)


def prune(writing: Writing, key: bytes, before_s: float, now_s: float) -> int:
    """Remove records that were sealed before a moment; what is left can still be checked.

    That it was done is a record itself, sealed at once: a record that anybody could write
    would let anybody remove. Gives how many records went.
    """
    session = writing.session
    last = session.scalars(
        select(AuditSealRow)
        .where(AuditSealRow.at_s < before_s)
        .order_by(AuditSealRow.number.desc())
        .limit(1)
    ).first()
    if last is None:
        return 0
    gone = select(func.count()).select_from(AuditRow).where(AuditRow.seal <= last.number)
    n_gone = session.scalars(gone).one()
    session.execute(delete(AuditRow).where(AuditRow.seal <= last.number))
    session.execute(delete(AuditSealRow).where(AuditSealRow.number < last.number))
    last.pruned = True
    session.add(
        AuditRow(
            at_s=now_s,
            principal_id=0,
            event=PRUNED,
            resource=f"seal:{last.number}",
            outcome="done",
            reason=f"{n_gone} records",
        )
    )
    while seal(writing, key, now_s) is not None:
        pass
    return n_gone


def _last(session: Session) -> AuditSealRow | None:
    wanted = select(AuditSealRow).order_by(AuditSealRow.number.desc()).limit(1)
    return session.scalars(wanted).first()


def _first(session: Session) -> int:
    return session.scalars(select(func.min(AuditSealRow.number))).one() or 0


def _sealed(session: Session, number: int) -> Iterable[AuditRow]:
    wanted = select(AuditRow).where(AuditRow.seal == number).order_by(AuditRow.id)
    return session.scalars(wanted.execution_options(populate_existing=True))


def _digest(key: bytes, before: str, number: int, rows: Sequence[AuditRow]) -> str:
    mac = hmac.new(key, digestmod="sha256")
    for field in (before, str(number), str(len(rows)), *_fields(rows)):
        held = field.encode()
        mac.update(len(held).to_bytes(8, "big"))
        mac.update(held)
    return mac.hexdigest()


def _fields(rows: Sequence[AuditRow]) -> Iterator[str]:
    for row in rows:
        yield from (row.tenant, str(row.id), repr(row.at_s), str(row.principal_id), row.event)
        yield from (row.resource, row.outcome, row.reason, json.dumps(row.documents))
