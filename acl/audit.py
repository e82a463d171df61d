"""What was decided and done, by whom: appended in the transaction it tells about."""

from __future__ import annotations

import time

from sqlalchemy.orm import Session

from acl.tables import AuditRow
from acl.types import Principal


def record(
    session: Session,
    principal: Principal | None,
    event: str,
    resource: str,
    outcome: str = "done",
    reason: str = "",
) -> None:
    """Append a line. `principal` is None for the operator at the command line.

    Holds ids and names of rules, never text, questions or keys.
    """
    session.add(
        AuditRow(
            at_s=time.time(),
            principal_id=0 if principal is None else principal.id,
            event=event,
            resource=resource,
            outcome=outcome,
            reason=reason[:300],
        )
    )
