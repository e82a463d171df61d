"""Law 2 under load: what eight threads find while documents come, move and go is exact.

OSTIARY_SOAK=1 makes the soak a minute long and the random calls ten thousand.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from retrieval.search import find
from retrieval.settings import RetrievalSettings
from retrieval.shelf import Shelf
from retrieval.snapshot import IndexVersion, SnapshotFolder
from retrieval.tenant_index import TenantIndex
from retrieval.types import Changes, Vectors
from retrieval.words import Lexicon
from tests.laws import brute_force
from tests.laws.brute_force import Ranked, Row
from tests.laws.corpora import WIDTH, WORDS, columns, unit_vector
from tests.make import make_changes, make_ids, make_rows, make_scope, make_units

SOAK = os.environ.get("OSTIARY_SOAK") == "1"
RUN_S, N_CALLS = (60.0, 10_000) if SOAK else (8.0, 500)
N_CLASSES, N_DOCUMENTS, MERGE_ROWS = 6, 40, 8
# Parts of few rows, and one for each doubling above: 40 documents have at most 240 rows.
FEW_PARTS = 8 + 6
# A merger that never gets its turn would leave a part for every change, hundreds.
MANY_PARTS = 60
LEXICON = Lexicon()
VERSION = IndexVersion("hashed", WIDTH, "english")

State = dict[int, tuple[Row, ...]]


class History:
    """A corpus that remembers every state it was in: `states[n]` is that of sequence n."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chance = random.Random(7)  # noqa: S311 - repeatable
        self._next_id = 1
        self._changed: list[set[int]] = [set()]
        self.states: list[State] = [{}]
        for _ in range(N_DOCUMENTS // 2):
            self.step()

    @property
    def sequence(self) -> int:
        """Where the corpus stands."""
        return len(self.states) - 1

    def step(self) -> None:
        """Add, replace, move or delete one to three documents."""
        state = dict(self.states[-1])
        documents = self._chance.sample(range(1, N_DOCUMENTS + 1), self._chance.randint(1, 3))
        for document in documents:
            what = self._chance.choice(["new", "new", "move", "remove"])
            if what == "new" or document not in state:
                state[document] = self._fresh(document)
            elif what == "move":
                to = self._chance.randrange(N_CLASSES)
                state[document] = tuple(replace(row, access_class=to) for row in state[document])
            else:
                del state[document]
        with self._lock:
            self._changed.append(set(documents))
            self.states.append(state)

    def changes(self, tenant: str, since: int | None) -> Changes:
        """Give what the index is told, as the corpus in SQL does: all of one moment."""
        with self._lock:
            sequence, state = self.sequence, self.states[-1]
            changed = set(state) if since is None else set().union(*self._changed[since + 1 :])
        rows = columns([row for each in sorted(changed & set(state)) for row in state[each]])
        named = set() if since is None else changed
        return Changes(sequence, np.union1d(make_ids(sorted(named)), rows.documents), rows)

    def _fresh(self, document: int) -> tuple[Row, ...]:
        at, n_rows = self._chance.randrange(N_CLASSES), self._chance.randint(1, 6)
        first, self._next_id = self._next_id, self._next_id + n_rows
        return tuple(
            Row(number, at, document, unit_vector(self._chance.randrange(60)), self._text())
            for number in range(first, first + n_rows)
        )

    def _text(self) -> str:
        return " ".join(self._chance.choices(WORDS, k=self._chance.randint(0, 5)))


@dataclass(frozen=True, slots=True)
class Question:
    """What one thread asks again and again."""

    vector: Vectors
    text: str
    classes: frozenset[int]
    depth: int


@dataclass(frozen=True, slots=True)
class Found:
    """What both legs gave on one index, and between which sequences they were called."""

    question: int
    before: int
    sequence: int
    after: int
    dense: Ranked
    lexical: Ranked


@dataclass(slots=True)
class Notes:
    """What the searching threads saw."""

    found: set[str] = field(default_factory=set)
    kept: list[Found] = field(default_factory=list)
    n_searches: int = 0
    most_parts: int = 0


def _drawn() -> tuple[Question, ...]:
    chance = random.Random(3)  # noqa: S311 - repeatable
    made = []
    for number in range(8):
        classes = frozenset(chance.sample(range(N_CLASSES), 1 + number % N_CLASSES))
        words = " ".join(chance.choices((*WORDS, "unheard"), k=3))
        made.append(Question(unit_vector(number * 5), words, classes, 1 + 3 * number))
    return tuple(made)


QUESTIONS = _drawn()


def _searched(index: TenantIndex, question: Question) -> tuple[Ranked, Ranked]:
    asked = make_ids(sorted(question.classes))
    ids, scores = index.dense(question.vector, asked, question.depth)
    best, weights = index.lexical(LEXICON.terms(question.text), asked).best()
    return (
        list(zip(ids.tolist(), scores.tolist(), strict=True)),
        list(zip(best.tolist(), weights.tolist(), strict=True)),
    )


def _ask(history: History, at: Callable[[int], TenantIndex], number: int, notes: Notes) -> None:
    """Ask once; answers that another call gave at the same sequence are kept only once."""
    question = QUESTIONS[number]
    before = history.sequence
    index = at(before)
    dense, lexical = _searched(index, question)
    after = history.sequence
    found = Found(number, before, index.sequence, after, dense, lexical)
    notes.n_searches += 1
    notes.most_parts = max(notes.most_parts, len(index.parts))
    if (said := f"{number} {index.sequence} {dense} {lexical}") not in notes.found:
        notes.found.add(said)
        notes.kept.append(found)
    assert before <= index.sequence <= after


def _shelf(history: History, folder: Path) -> Shelf:
    snapshots = SnapshotFolder(folder, VERSION)
    return Shelf(history, LEXICON, width=WIDTH, merge_rows=MERGE_ROWS, folder=snapshots)


def _judge(history: History, found: Found) -> None:
    question = QUESTIONS[found.question]
    rows = [row for each in history.states[found.sequence].values() for row in each]
    classes = set(question.classes)
    assert found.dense == brute_force.nearest(rows, classes, question.vector, question.depth)
    assert found.lexical == brute_force.matching(rows, classes, question.text, LEXICON)


@pytest.mark.slow
def test_eight_threads_find_what_is_there_while_it_is_changed_merged_saved_and_reopened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two shelves share a folder, as two processes do; a third one is opened again and again."""
    history = History()
    stop = threading.Event()
    shelves = [_shelf(history, tmp_path / "index") for _ in range(2)]
    notes = [Notes() for _ in range(8)]

    def search(number: int) -> None:
        shelf = shelves[number % 2]
        while not stop.is_set():
            _ask(history, lambda n: shelf.at("t1", n, "life"), number, notes[number])

    def reopen(number: int) -> None:
        while not stop.is_set():
            shelf = _shelf(history, tmp_path / "index")
            for _ in range(5):
                _ask(history, lambda n, s=shelf: s.at("t1", n, "life"), number, notes[number])  # type: ignore[misc]
            shelf.close()

    def write() -> None:
        chance = random.Random(5)  # noqa: S311 - repeatable
        while not stop.is_set():
            for _ in range(chance.choice([1, 1, 1, 4])):
                history.step()
            time.sleep(chance.uniform(0.02, 0.12))

    with ThreadPoolExecutor(9) as pool, caplog.at_level(logging.ERROR):
        threads = [pool.submit(write), pool.submit(reopen, 7)]
        threads += [pool.submit(search, number) for number in range(7)]
        end_s = time.monotonic() + RUN_S
        while time.monotonic() < end_s and not any(each.done() for each in threads):
            time.sleep(0.05)
        stop.set()
        for each in threads:
            each.result(60)
    for shelf in shelves:
        shelf.settle()

    # The merger goes on after an error and only logs it.
    assert [each.getMessage() for each in caplog.records] == []
    assert all(seen.n_searches for seen in notes)
    assert max(seen.most_parts for seen in notes) <= MANY_PARTS
    kept = [found for seen in notes for found in seen.kept]
    assert len({found.sequence for found in kept}) > RUN_S
    for found in kept:
        _judge(history, found)
    for shelf in shelves:
        history.step()
        shelf.at("t1", history.sequence, "life")
        shelf.settle()
        assert len(shelf.at("t1", history.sequence, "life").parts) <= FEW_PARTS
        shelf.close()


def _grown() -> TenantIndex:
    """Give an index of some parts with dead rows, big enough for scans and for codes."""
    index, first = TenantIndex.empty(16), 1
    chance = np.random.default_rng(17)
    for sequence, n_rows in enumerate((4000, 700, 90, 12), start=1):
        ids = list(range(first, first + n_rows))
        texts = [" ".join(chance.choice(WORDS, 4)) for _ in ids]
        classes = (chance.integers(0, 3, n_rows) * chance.integers(0, 9, n_rows)).tolist()
        vectors = make_units(n_rows, seed=sequence)
        rows = make_rows(ids, classes, vectors=vectors, texts=texts)
        index = index.apply(make_changes(rows, sequence, range(3, first, 41)), LEXICON, 0)
        first += n_rows
    assert len(index.parts) == 4
    return index


def test_a_call_finds_the_same_bits_alone_and_among_four_threads_of_others() -> None:
    index, chance = _grown(), random.Random(29)  # noqa: S311 - repeatable
    scopes = [make_scope(chance.sample(range(17), chance.randint(1, 17))) for _ in range(40)]
    vectors = make_units(N_CALLS, seed=99)
    calls = [
        (n, chance.choice(scopes), " ".join(chance.choices(WORDS, k=3)), chance.choice([1, 10, 80]))
        for n in range(N_CALLS)
    ]

    def bits(call: int) -> bytes:
        number, scope, text, depth = calls[call]
        knobs = RetrievalSettings(legs_depth=depth, dense_weight=0.6)
        hits = find(index, LEXICON, vectors[number], text, scope, knobs)
        return b"".join(
            column.tobytes() for column in (hits.ids, hits.scores, hits.dense, hits.lexical)
        )

    alone = [bits(call) for call in range(N_CALLS)]
    start = threading.Barrier(4)

    def shuffled(seed: int) -> list[int]:
        order = random.Random(seed).sample(range(N_CALLS), N_CALLS)  # noqa: S311 - repeatable
        start.wait(30)
        return [call for call in order if bits(call) != alone[call]]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(shuffled, range(4))) == [[], [], [], []]
    assert len(set(alone)) > N_CALLS // 2
