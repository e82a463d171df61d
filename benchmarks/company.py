"""Many tenants of Zipf sizes under the access model of large companies: for `make bench-index`.

Of a tenant's rows 30 % are open to all employees, 40 % one team's, 20 % shared by two or three
teams, 10 % private. Teams write mostly about topics of their own. One row in a hundred is a copy
of another one, and one in a hundred nearly is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.types import Ids, Vectors

WIDTH, N_TENANTS = 384, 20
_FOLDERS, _OPEN, _PEOPLE, _TOPICS, _TEAM_TOPICS = 10, 20, 300, 400, 8
_SPREAD, _AT_HOME, _NOISE, _NEAR = 0.9, 0.8, 0.02, 1e-6
_SLACK = 1.1
_CHUNK = 100_000


@dataclass(frozen=True, slots=True)
class Company:
    """One tenant: its rows in the corpus [low, high), and who reads its classes.

    classes: numbers of its classes, ascending. teams: for each class the teams that read it;
    none for open ones, and for private ones the owner's team.
    """

    low: int
    high: int
    classes: Ids
    kinds: NDArray[np.int8]
    teams: tuple[frozenset[int], ...]


@dataclass(frozen=True, slots=True)
class Corpus:
    """All tenants. vectors: float32 [n, 384], unit. classes: int64 [n], unique over tenants."""

    vectors: Vectors
    classes: Ids
    companies: tuple[Company, ...]

    def reader(self, chance: np.random.Generator, share: float) -> Ids:
        """Draw the classes of somebody of the largest tenant who reads this share of all rows.

        Share 1 reads the whole tenant. Others start from a private class, then take what
        their team reads and, if that is not enough, what further teams read.
        """
        company = self.companies[0]
        if share >= 1:
            return company.classes
        rows = self.classes[company.low : company.high]
        sizes = np.bincount(rows - company.classes[0], minlength=len(company.classes))
        wanted = share * len(self.classes)
        n_teams = 1 + max(max(each, default=0) for each in company.teams)
        private = np.flatnonzero((company.kinds == 3) & (sizes > 0))
        fitting = private[sizes[private] <= _SLACK * wanted]
        first = int(chance.choice(fitting if len(fitting) else private))
        own = next(iter(company.teams[first]))
        others = [team for team in chance.permutation(n_teams).tolist() if team != own]
        chosen, n_rows = {first}, int(sizes[first])
        for team in [own, *others]:
            for number in np.flatnonzero((company.kinds == 1) | (company.kinds == 2)).tolist():
                fits = n_rows + sizes[number] <= _SLACK * wanted
                if team in company.teams[number] and number not in chosen and fits:
                    chosen.add(number)
                    n_rows += int(sizes[number])
                if n_rows >= wanted:
                    return _numbers(company, chosen)
        return _numbers(company, chosen)

    def question(self, chance: np.random.Generator, permitted: Ids) -> Vectors:
        """Make a question's vector near a row that may be read: float32 [384]."""
        near = self.vectors[int(chance.choice(permitted))] + _NOISE * chance.standard_normal(WIDTH)
        unit: Vectors = (near / np.linalg.norm(near)).astype(np.float32)
        return unit


def _numbers(company: Company, chosen: set[int]) -> Ids:
    numbers: Ids = company.classes[0] + np.array(sorted(chosen), dtype=np.int64)
    return numbers


def draw(chance: np.random.Generator, n_rows: int) -> Corpus:
    """Draw a corpus of so many rows."""
    weights = 1 / np.arange(1, N_TENANTS + 1)
    sizes = (weights / weights.sum() * n_rows).astype(np.int64)
    sizes[0] += n_rows - sizes.sum()
    centres = chance.standard_normal((_TOPICS, WIDTH), dtype=np.float32)
    vectors = np.empty((n_rows, WIDTH), dtype=np.float32)
    classes = np.empty(n_rows, dtype=np.int64)
    companies: list[Company] = []
    low, first_class = 0, 1
    for size in sizes.tolist():
        high = low + size
        company, rows = _company(chance, low, high, first_class)
        companies.append(company)
        classes[low:high] = rows + first_class
        _fill(chance, vectors[low:high], rows, company, centres)
        low, first_class = high, first_class + len(company.classes)
    return Corpus(vectors, classes, tuple(companies))


def _company(
    chance: np.random.Generator, low: int, high: int, first_class: int
) -> tuple[Company, Ids]:
    n_rows = high - low
    n_teams = int(np.clip(n_rows // 2000, 4, 60))
    n_sets = max(4, n_rows // 80)
    counts = (_OPEN, n_teams * _FOLDERS, n_sets, _PEOPLE)
    kinds = np.repeat(np.arange(4, dtype=np.int8), counts)
    shared = [
        frozenset(chance.choice(n_teams, 2 + number % 2, replace=False).tolist())
        for number in range(n_sets)
    ]
    teams = (
        *(frozenset[int]() for _ in range(_OPEN)),
        *(frozenset({team}) for team in range(n_teams) for _ in range(_FOLDERS)),
        *shared,
        *(frozenset({person % n_teams}) for person in range(_PEOPLE)),
    )
    kind = chance.choice(4, size=n_rows, p=(0.3, 0.4, 0.2, 0.1))
    folder = _zipf(chance, n_teams, n_rows) * _FOLDERS + chance.integers(_FOLDERS, size=n_rows)
    starts = np.cumsum((0, *counts[:-1]))
    columns = (
        starts[0] + _zipf(chance, _OPEN, n_rows),
        starts[1] + folder,
        starts[2] + chance.integers(n_sets, size=n_rows),
        starts[3] + chance.integers(_PEOPLE, size=n_rows),
    )
    rows = np.choose(kind, columns).astype(np.int64)
    numbers = first_class + np.arange(len(teams), dtype=np.int64)
    return Company(low, high, numbers, kinds, teams), rows


def _fill(
    chance: np.random.Generator, into: Vectors, rows: Ids, company: Company, centres: Vectors
) -> None:
    own = chance.integers(_TOPICS, size=(60, _TEAM_TOPICS))
    writer = np.array([min(team, default=-1) for team in company.teams])[rows]
    for start in range(0, len(into), _CHUNK):
        some = into[start : start + _CHUNK]
        by = writer[start : start + _CHUNK]
        at_home = (by >= 0) & (chance.random(len(some)) < _AT_HOME)
        topic = np.where(
            at_home,
            own[by, chance.integers(_TEAM_TOPICS, size=len(some))],
            chance.integers(_TOPICS, size=len(some)),
        )
        some[:] = centres[topic]
        some += _SPREAD * chance.standard_normal(some.shape, dtype=np.float32)
        copies = chance.integers(len(some), size=(2, len(some) // 50))
        some[copies[0]] = some[copies[1]]
        near = copies[0][::2]
        some[near] += _NEAR * chance.standard_normal((len(near), WIDTH), dtype=np.float32)
        some /= np.linalg.norm(some, axis=1, keepdims=True)


def _zipf(chance: np.random.Generator, n: int, size: int) -> Ids:
    weights = np.cumsum(1 / np.arange(1, n + 1))
    return np.searchsorted(weights / weights[-1], chance.random(size)).astype(np.int64)
