"""Who holds which bytes."""

from __future__ import annotations

import gc
import threading
from weakref import finalize

import pytest

from pipeline.errors import LedgerFull
from pipeline.ledger import Ledger


def test_bytes_are_held_for_as_long_as_the_block_runs() -> None:
    ledger = Ledger({"gpu:0": 100})
    with ledger.hold("gpu:0", "index", 60), ledger.hold("gpu:0", "reranker", 40):
        assert ledger.held() == {"gpu:0": {"index": 60, "reranker": 40}}
        assert ledger.free("gpu:0") == 0
    assert ledger.held() == {"gpu:0": {}}
    assert ledger.free("gpu:0") == ledger.capacity("gpu:0") == 100


def test_what_does_not_fit_is_refused_with_numbers_and_holds_nothing() -> None:
    ledger = Ledger({"gpu:0": 100})
    with ledger.hold("gpu:0", "index", 60):
        with (
            pytest.raises(LedgerFull, match="needs 41 bytes on gpu:0; 40 of 100 are free"),
            ledger.hold("gpu:0", "kv", 41),
        ):
            pass
        assert ledger.held() == {"gpu:0": {"index": 60}}
    with pytest.raises(LedgerFull, match="0 of 0"):
        ledger.hold("gpu:7", "kv", 1)


def test_bytes_come_back_after_an_error() -> None:
    ledger = Ledger({"cpu": 10})
    with pytest.raises(ZeroDivisionError), ledger.hold("cpu", "index", 10):
        raise ZeroDivisionError
    with ledger.hold("cpu", "index", 10):
        pass


def test_bytes_are_held_at_once_and_released_once() -> None:
    ledger = Ledger({"cpu": 10})
    first, second = ledger.hold("cpu", "kv", 4), ledger.hold("cpu", "kv", 5)
    assert ledger.held() == {"cpu": {"kv": 9}}
    first.release()
    first.release()
    assert ledger.held() == {"cpu": {"kv": 5}}
    second.release()
    assert ledger.held() == {"cpu": {}}


def test_what_is_there_already_is_noted_over_the_budget_and_then_nothing_else_fits() -> None:
    ledger = Ledger({"cpu": 10})
    noted = ledger.note("cpu", "index", 12)

    assert ledger.free("cpu") == -2
    with pytest.raises(LedgerFull, match="-2 of 10"):
        ledger.hold("cpu", "kv", 0)
    noted.release()
    assert ledger.free("cpu") == 10


def test_a_finalizer_may_release_while_the_ledger_is_at_work() -> None:
    """A finalizer that runs inside the ledger's own block would wait for itself for ever."""
    ledger = Ledger({"cpu": 1 << 30})

    class Cycle:
        def __init__(self) -> None:
            self.own = self
            finalize(self, ledger.hold("cpu", "part", 1).release)

    def work() -> None:
        threshold = gc.get_threshold()
        gc.set_threshold(1)
        try:
            for _ in range(200):
                Cycle()
                ledger.held()
        finally:
            gc.set_threshold(*threshold)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(30)
    gc.collect()

    assert not worker.is_alive()
    assert ledger.held() == {"cpu": {}}


def test_threads_never_hold_more_than_there_is() -> None:
    ledger = Ledger({"cpu": 100})
    most: list[int] = []

    def work() -> None:
        for _ in range(300):
            try:
                with ledger.hold("cpu", "a", 40):
                    most.append(sum(ledger.held()["cpu"].values()))
            except LedgerFull:
                continue

    workers = [threading.Thread(target=work) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert max(most) <= 100
    assert ledger.held() == {"cpu": {}}
