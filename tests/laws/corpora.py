"""Random corpora with a history, for property tests of the index."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from retrieval.types import Changes, Rows, Vectors
from tests.laws.brute_force import Row
from tests.make import make_ids

WIDTH = 8
WORDS = ("pump", "valve", "seal", "gasket", "flange", "bolt")


def unit_vector(seed: int) -> Vectors:
    """Draw from few directions: some exact, some apart by less than fp16 can tell, some not."""
    center = np.random.default_rng(seed % 5).standard_normal(WIDTH)
    spread = (0.0, 1e-5, 0.3)[seed % 3]
    drawn = center + spread * np.random.default_rng(seed).standard_normal(WIDTH)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


@st.composite
def histories(draw: st.DrawFn, n_classes: int = 6, n_steps: int = 5) -> list[list[Row]]:
    """Draw the live rows after each of some steps.

    A step replaces, moves or removes a few documents. A document that is only moved keeps its
    passages' ids; a new version has new ones.
    """
    live: dict[int, list[Row]] = {}
    next_id = 1
    states: list[list[Row]] = []
    for _ in range(draw(st.integers(1, n_steps))):
        for document in draw(st.lists(st.integers(1, 12), min_size=1, max_size=12, unique=True)):
            what = draw(st.sampled_from(["new", "new", "move", "remove"]))
            access_class = draw(st.integers(0, n_classes - 1))
            if what == "new":
                seeds = draw(st.lists(st.integers(0, 40), min_size=0, max_size=6))
                live[document] = [
                    Row(next_id + n, access_class, document, unit_vector(seed), _text(seed))
                    for n, seed in enumerate(seeds)
                ]
                next_id += len(seeds)
            elif what == "move" and document in live:
                live[document] = [
                    Row(row.id, access_class, document, row.vector, row.text)
                    for row in live[document]
                ]
            else:
                live.pop(document, None)
        states.append([row for rows in live.values() for row in rows])
    return states


def _text(seed: int) -> str:
    drawn = np.random.default_rng(seed).integers(0, len(WORDS), seed % 7)
    return " ".join(WORDS[number] for number in drawn)


def columns(rows: list[Row]) -> Rows:
    """Give these rows as the index takes them."""
    ordered = sorted(rows, key=lambda row: row.id)
    return Rows(
        make_ids(row.id for row in ordered),
        make_ids(row.access_class for row in ordered),
        make_ids(row.document for row in ordered),
        np.array([row.vector for row in ordered], dtype=np.float32).reshape(-1, WIDTH),
        tuple(row.text for row in ordered),
    )


def everything(rows: list[Row], sequence: int = 1) -> Changes:
    """Give these rows as the one change that makes an index of them."""
    made = columns(rows)
    return Changes(sequence, np.unique(made.documents), made)


def steps(states: list[list[Row]]) -> list[Changes]:
    """Give the change that leads to each state from the one before."""
    changes: list[Changes] = []
    before: dict[int, list[Row]] = {}
    for sequence, state in enumerate(states, start=1):
        after: dict[int, list[Row]] = {}
        for row in state:
            after.setdefault(row.document, []).append(row)
        changed = [d for d in before.keys() | after.keys() if before.get(d) != after.get(d)]
        rows = columns([row for d in changed for row in after.get(d, [])])
        changes.append(Changes(sequence, make_ids(sorted(changed)), rows))
        before = after
    return changes
