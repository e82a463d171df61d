"""Law 4 over several server processes: a right taken away through one is gone in all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acl.session import Database
from tests.api.houses import open_home
from tests.laws.processes import N_PROCESSES, take_and_give

# `make bench-revocation` judges ten thousand requests and times the acknowledgements.
N_ROUNDS = 1_250 if os.environ.get("OSTIARY_SOAK") == "1" else 12


@pytest.mark.slow
def test_after_a_revocation_is_acknowledged_no_process_uses_the_right(
    tmp_path: Path, any_database: Database
) -> None:
    """A request that began after the acknowledgement and ended before the right was given back
    must not see the secret; what began before may.
    """
    with open_home(tmp_path, database=any_database) as home:
        rounds = take_and_give(home, tmp_path, N_ROUNDS, n_between=2)

    assert rounds.failed == []
    assert all(any(saw for *_, saw in process) for process in rounds.asked), "the control"
    inside = rounds.inside()
    assert len(inside) >= N_ROUNDS * N_PROCESSES
    assert not any(inside)
