"""Who holds which bytes."""

from __future__ import annotations

import pytest

from pipeline.errors import LedgerFull
from pipeline.ledger import Ledger


def test_bytes_are_held_for_as_long_as_the_block_runs() -> None:
    ledger = Ledger({"gpu:0": 100})
    with ledger.hold("gpu:0", "index", 60), ledger.hold("gpu:0", "reranker", 40):
        assert ledger.held() == {"gpu:0": {"index": 60, "reranker": 40}}
    assert ledger.held() == {"gpu:0": {}}


def test_what_does_not_fit_is_refused_with_numbers_and_holds_nothing() -> None:
    ledger = Ledger({"gpu:0": 100})
    with ledger.hold("gpu:0", "index", 60):
        with (
            pytest.raises(LedgerFull, match="needs 41 bytes on gpu:0; 40 of 100 are free"),
            ledger.hold("gpu:0", "kv", 41),
        ):
            pass
        assert ledger.held() == {"gpu:0": {"index": 60}}
    with pytest.raises(LedgerFull, match="0 of 0"), ledger.hold("gpu:7", "kv", 1):
        pass


def test_bytes_come_back_after_an_error() -> None:
    ledger = Ledger({"cpu": 10})
    with pytest.raises(ZeroDivisionError), ledger.hold("cpu", "index", 10):
        raise ZeroDivisionError
    with ledger.hold("cpu", "index", 10):
        pass
