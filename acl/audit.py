"""What was decided and done, by whom: changes in their own transaction, reads in batches."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from acl.chain import seal
from acl.session import Database
from acl.tables import AuditRow, TenantEntry
from acl.types import Principal

_log = logging.getLogger(__name__)

_EVERY_S = 1.0
_BATCH = 100
_MOST = 10_000
# How often what other processes left unsealed is looked for.
_SWEEP_EVERY = 10
# As long as the columns.
_NAME_CHARS, _REASON_CHARS = 80, 300


def record(
    session: Session,
    principal: Principal | None,
    event: str,
    resource: str,
    outcome: str = "done",
    reason: str = "",
) -> None:
    """Append a line in the transaction it tells about. `principal`: None for the operator.

    Holds ids and names of rules, never text, questions or keys.
    """
    session.add(_row(principal, event, resource, outcome, reason, ()))


@dataclass(frozen=True, slots=True)
class _Noted:
    at_s: float
    principal: Principal
    event: str
    resource: str
    outcome: str
    reason: str
    documents: tuple[str, ...]


class AuditLog:
    """Notes reads and denials, writes them in batches and seals all that is written.

    A note is written within a second, or when a hundred wait, or by who finds the queue full:
    none is dropped. A process that is killed loses the notes that waited, never a change.

    Args: key: of the seals (`acl.chain.chain_key`).
    """

    def __init__(
        self,
        database: Database,
        key: bytes,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._key = key
        self._now_s = now_s
        self._waiting: list[_Noted] = []
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ostiary-audit", daemon=True)

    def start(self) -> None:
        """Begin to write and seal in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Write and seal what waits, and stop."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self.flush()

    def note(
        self,
        principal: Principal,
        event: str,
        resource: str,
        outcome: str = "done",
        reason: str = "",
        documents: Sequence[str] = (),
    ) -> None:
        """Note what somebody read or was denied. documents: public ids, no more.

        `resource` may be as the caller named it: not every character there is can be stored.
        """
        shown = "".join(each if each.isprintable() else "?" for each in resource)
        noted = _Noted(
            self._now_s(), principal, event, shown[:_NAME_CHARS], outcome,
            reason[:_REASON_CHARS], tuple(documents),
        )  # fmt: skip
        with self._lock:
            self._waiting.append(noted)
            n_waiting = len(self._waiting)
        if n_waiting >= _MOST:
            self.flush()
        elif n_waiting >= _BATCH:
            self._wake.set()

    def flush(self) -> None:
        """Write and seal what waits now.

        What can't be written waits on; one tenant's failure holds up no other's notes.
        Raises: the last failure, once all tenants had their turn.
        """
        failed: Exception | None = None
        with self._writing:
            with self._lock:
                taken, self._waiting = self._waiting, []
            by_tenant: defaultdict[str, list[_Noted]] = defaultdict(list)
            for each in taken:
                by_tenant[each.principal.tenant].append(each)
            for tenant, notes in by_tenant.items():
                try:
                    self._write(tenant, notes)
                except Exception as failure:
                    failed = failure
                    with self._lock:
                        self._waiting[:0] = notes
        if failed is not None:
            raise failed

    def seal_all(self) -> None:
        """Seal what is written and not sealed, of every tenant, whoever wrote it."""
        with self._database.unpinned() as session:
            unsealed = select(AuditRow.tenant).where(AuditRow.seal.is_(None)).distinct()
            found = session.scalars(
                select(TenantEntry.id).where(TenantEntry.id.in_(unsealed))
            ).all()
        for tenant in found:
            self._write(tenant, [])

    def _write(self, tenant: str, notes: Sequence[_Noted]) -> None:
        with self._database.writing(tenant) as writing:
            writing.session.add_all(
                _row(each.principal, each.event, each.resource, each.outcome, each.reason,
                     each.documents, each.at_s)
                for each in notes
            )  # fmt: skip
            while seal(writing, self._key, self._now_s()) is not None:
                pass

    def _run(self) -> None:
        n_rounds = 0
        while not self._stop.is_set():
            self._wake.wait(_EVERY_S)
            self._wake.clear()
            try:
                self.flush()
                n_rounds += 1
                if n_rounds % _SWEEP_EVERY == 0:
                    self.seal_all()
            except Exception:
                # What was not written waits for the next round.
                _log.exception("the audit log can't be written now")
                self._stop.wait(_EVERY_S)


def _row(
    principal: Principal | None,
    event: str,
    resource: str,
    outcome: str,
    reason: str,
    documents: Sequence[str],
    at_s: float | None = None,
) -> AuditRow:
    return AuditRow(
        at_s=time.time() if at_s is None else at_s,
        principal_id=0 if principal is None else principal.id,
        event=event,
        resource=resource,
        outcome=outcome,
        reason=reason[:_REASON_CHARS],
        documents=list(documents),
    )
