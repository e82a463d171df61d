"""A made-up tenant: clustered vectors and texts under the access model of a large company.

Of the rows 30 % are open to all employees, 40 % one team's, 20 % shared by two or three teams
and 10 % private. Teams are of Zipf sizes and write mostly about topics of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.types import Ids, Vectors

N_ROWS, WIDTH = 50_000, 384
_OPEN, _TEAMS, _FOLDERS, _SETS, _PEOPLE = 40, 60, 10, 560, 800
N_CLASSES = _OPEN + _TEAMS * _FOLDERS + _SETS + _PEOPLE
_TOPICS, _TEAM_TOPICS, _SPREAD, _TO_TOPIC = 200, 8, 0.9, 0.8
_VOCABULARY, _WORDS, _ASKED_WORDS = 20_000, 30, 8
_NOISE = 0.02  # per column, added to a row to make a question of it
_SLACK = 1.2  # how far a reader may exceed the share that is asked for
_SYLLABLES = [first + second for first in "bdfgklmnprtv" for second in "aeiou"]


@dataclass(frozen=True, slots=True)
class Tenant:
    """The rows; row r has the passage id r + 1.

    vectors: float32 [n, d], unit. classes: int64 [n], from 1. texts: n. teams: for each class
    number the teams that read it, none for open ones; a private class names its owner's team.
    """

    vectors: Vectors
    classes: Ids
    texts: tuple[str, ...]
    teams: tuple[frozenset[int], ...]

    def reader(self, chance: np.random.Generator, share: float) -> Ids:
        """Draw the classes of somebody who may read about this share of the rows.

        Share 1 is who reads all. Others are guests without the open collections, which alone
        are 30 %: one private class, then what their teams read, team by team.
        """
        if share >= 1:
            return np.unique(self.classes)
        sizes = np.bincount(self.classes, minlength=N_CLASSES + 1)
        private = int(N_CLASSES - chance.integers(_PEOPLE))
        own = next(iter(self.teams[private]))
        others = chance.permutation([team for team in range(_TEAMS) if team != own])
        last_shared = N_CLASSES - _PEOPLE
        offered = [private] + [
            number
            for team in (own, *others)
            for number in range(_OPEN + 1, last_shared + 1)
            if team in self.teams[number]
        ]
        chosen: set[int] = set()
        n_rows = 0
        for number in offered:
            fits = n_rows + sizes[number] <= _SLACK * share * N_ROWS
            if fits and number not in chosen and n_rows < share * N_ROWS:
                chosen.add(number)
                n_rows += int(sizes[number])
        return np.array(sorted(chosen), dtype=np.int64)

    def question(self, chance: np.random.Generator, permitted: Ids) -> tuple[Vectors, str]:
        """Make a question near a row that the reader may read: vector and text."""
        row = int(chance.choice(permitted))
        near = self.vectors[row] + _NOISE * chance.standard_normal(WIDTH)
        vector = (near / np.linalg.norm(near)).astype(np.float32)
        return vector, " ".join(chance.choice(self.texts[row].split(), _ASKED_WORDS))


def draw(chance: np.random.Generator) -> Tenant:
    """Draw the whole tenant."""
    teams = _teams(chance)
    classes = _classes(chance)
    own_topics = chance.integers(_TOPICS, size=(_TEAMS, _TEAM_TOPICS))
    writer = np.array([min(read_by, default=-1) for read_by in teams])[classes]
    at_home = (writer >= 0) & (chance.random(N_ROWS) < _TO_TOPIC)
    anywhere = chance.integers(_TOPICS, size=N_ROWS)
    own = own_topics[writer, chance.integers(_TEAM_TOPICS, size=N_ROWS)]
    centres = chance.standard_normal((_TOPICS, WIDTH))
    vectors = centres[np.where(at_home, own, anywhere)]
    vectors += _SPREAD * chance.standard_normal((N_ROWS, WIDTH))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Tenant(vectors.astype(np.float32), classes, _texts(chance), teams)


def _teams(chance: np.random.Generator) -> tuple[frozenset[int], ...]:
    nobody: list[frozenset[int]] = [frozenset()] * (1 + _OPEN)  # classes count from 1
    single = [frozenset({team}) for team in range(_TEAMS) for _ in range(_FOLDERS)]
    shared = [
        frozenset(chance.choice(_TEAMS, 2 + number % 2, replace=False).tolist())
        for number in range(_SETS)
    ]
    private = [frozenset({person % _TEAMS}) for person in range(_PEOPLE)]
    return tuple(nobody + single + shared + private)


def _classes(chance: np.random.Generator) -> Ids:
    kind = chance.choice(4, size=N_ROWS, p=(0.3, 0.4, 0.2, 0.1))
    folder = _FOLDERS * _zipf(chance, _TEAMS) + chance.integers(_FOLDERS, size=N_ROWS)
    columns = (
        1 + _zipf(chance, _OPEN),
        1 + _OPEN + folder,
        1 + _OPEN + _TEAMS * _FOLDERS + chance.integers(_SETS, size=N_ROWS),
        1 + N_CLASSES - _PEOPLE + chance.integers(_PEOPLE, size=N_ROWS),
    )
    return np.choose(kind, columns).astype(np.int64)


def _texts(chance: np.random.Generator) -> tuple[str, ...]:
    n = len(_SYLLABLES)
    words = np.array(
        [_SYLLABLES[k // n**2] + _SYLLABLES[k // n % n] + _SYLLABLES[k % n]
         for k in range(_VOCABULARY)]
    )  # fmt: skip
    drawn = words[_zipf(chance, _VOCABULARY, N_ROWS * _WORDS).reshape(N_ROWS, _WORDS)]
    return tuple(" ".join(row) for row in drawn)


def _zipf(chance: np.random.Generator, n: int, size: int = N_ROWS) -> NDArray[np.int64]:
    weights = 1 / np.arange(1, n + 1)
    return chance.choice(n, size=size, p=weights / weights.sum())
