"""Law 8: bytes are held before they are taken; a lack of them makes no answer wrong or short."""

from __future__ import annotations

import gc
import logging
import random

import pytest

from pipeline.errors import LedgerFull
from pipeline.ledger import RAM, Ledger
from pipeline.room import LedgerRoom
from retrieval.shelf import Shelf
from retrieval.types import Changes
from retrieval.words import Lexicon
from tests.make import make_changes, make_ids, make_rows, make_units

LEXICON = Lexicon()
WIDTH = 16


class Corpus:
    """Documents that come and go; every change is kept, as in the database."""

    def __init__(self) -> None:
        self.changed: dict[int, int] = {}
        self.there: set[int] = set()
        self.sequence = 0

    def step(self, chance: random.Random) -> None:
        """Bring some documents, and take some away."""
        self.sequence += 1
        fresh = set(range(len(self.changed) + 1, len(self.changed) + 1 + chance.randrange(60)))
        gone = {each for each in self.there if chance.random() < 0.1}
        self.there = (self.there | fresh) - gone
        self.changed |= dict.fromkeys(fresh | gone, self.sequence)

    def changes(self, tenant: str, since: int | None) -> Changes:
        named = [each for each, at in self.changed.items() if at > (since or 0)]
        rows = make_rows(sorted(self.there & set(named)), width=WIDTH)
        return make_changes(rows, self.sequence, removed=named if since is not None else [])

    def volume(self, tenant: str) -> tuple[int, int]:
        return len(self.there), 20 * len(self.there)


@pytest.mark.parametrize("seed", range(8))
def test_an_index_short_of_memory_answers_whole_or_not_at_all(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    # Records of merges without room have their frames, and pytest keeps records: so their parts.
    caplog.set_level(logging.CRITICAL, logger="retrieval.shelf")
    chance = random.Random(seed)  # noqa: S311 - repeatable
    corpus = Corpus()
    ledger = Ledger({RAM: 1 << 30})
    shelf = Shelf(
        corpus, LEXICON, width=WIDTH, merge_rows=16, room=LedgerRoom(ledger), measure=corpus.volume
    )
    hog = ledger.hold(RAM, "others", 0)
    n_refused = n_answered = 0
    for _ in range(40):
        corpus.step(chance)
        hog.release()
        spare = chance.choice([0, 1_000, 100_000, 1 << 28])
        hog = ledger.hold(RAM, "others", max(0, ledger.free(RAM) - spare))
        try:
            index = shelf.at("t1", corpus.sequence, "first")
        except LedgerFull:
            n_refused += 1
            continue
        n_answered += 1
        ids, _ = index.dense(make_units(1, WIDTH)[0], make_ids([1]), 10_000)
        assert sorted(ids.tolist()) == sorted(corpus.there)
        del index
    shelf.settle()
    hog.release()
    shelf.drop("t1")
    shelf.close()
    gc.collect()

    assert n_refused > 3
    assert n_answered > 3
    assert sum(ledger.held()[RAM].values()) == 0
