"""Whose turn it is to write."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from acl.errors import StorageBusy, StorageFull
from acl.session import Database
from acl.turnstile import turn


def test_one_at_a_time(tmp_path: Path) -> None:
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(50):
            with turn(tmp_path / "db", 30):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, inside) == ([1], [0])


def test_who_waits_goes_before_who_comes_again(tmp_path: Path) -> None:
    """A revocation once waited two seconds behind a bulk ingest that took the lock at once."""
    turns: list[str] = []
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            with turn(tmp_path / "db", 30):
                turns.append("busy")
                time.sleep(0.005)

    thread = threading.Thread(target=busy)
    thread.start()
    for _ in range(20):
        n_before = len(turns)
        with turn(tmp_path / "db", 30):
            turns.append("waited")
            # One turn may run when we come, and one more before we stand at the door.
            assert len(turns) - n_before <= 4
    stop.set()
    thread.join()


def test_a_turn_that_does_not_come_is_told(tmp_path: Path) -> None:
    with turn(tmp_path / "db", 1):
        with pytest.raises(StorageBusy, match="busy"), turn(tmp_path / "db", 0.05):
            pass
        with pytest.raises(StorageBusy, match="busy"), turn(tmp_path / "db", 0.05):
            pass
    with turn(tmp_path / "db", 1):
        pass


def test_a_turn_ends_with_an_error_too(database: Database, tenant: str) -> None:
    with pytest.raises(ZeroDivisionError), database.writing(tenant):
        raise ZeroDivisionError
    with database.writing(tenant):
        pass


def test_locks_that_can_not_be_made_are_a_disk_that_can_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(StorageFull, match="No such file"), turn(tmp_path / "gone" / "db", 1):
        pass
