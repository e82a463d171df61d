"""A tenant's access classes as bitmaps: by collection, and by the lines of their own grants.

The rows of access classes never change and never go (their generation apart, which no right
rests on), so the sets of one incarnation only grow. They are never changed in place: whoever
reads old sets goes on reading them while new ones are made.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from math import inf

import numpy as np
from numpy.typing import NDArray
from pyroaring import FrozenBitMap
from sqlalchemy import Integer, Text, cast, func, select
from sqlalchemy.orm import Session

from acl.errors import RightsUnavailable
from acl.tables import AccessClassRow
from acl.types import Effect

_Numbers = NDArray[np.int64]
# Whether a line of a class's own grants allows (or denies), and its end in Unix seconds.
Term = tuple[bool, float]
_Line = tuple[int, Term]
# Where one line ends and the next begins in the stored list of a class's own grants.
_BETWEEN = "], ["
# A bitmap holds 32-bit numbers.
_HORIZON_LIMIT = 2**32
_SHORT_LIMIT = 2**16
_ALLOWS = {Effect.ALLOW.value: True, Effect.DENY.value: False}


@dataclass(frozen=True, slots=True)
class ClassSets:
    """The classes up to `horizon`, by row id.

    `inside` holds all classes of a collection, `inheriting` those of them that are not cut;
    `own` holds for a principal and a term the classes whose own grants say so.
    """

    horizon: int
    inside: Mapping[int, FrozenBitMap]
    inheriting: Mapping[int, FrozenBitMap]
    own: Mapping[int, Mapping[Term, FrozenBitMap]]

    @classmethod
    def none(cls) -> ClassSets:
        """Give the sets of a tenant without classes."""
        return cls(0, {}, {}, {})

    def up_to(self, session: Session, horizon: int) -> ClassSets:
        """Give the sets with the classes that were made since; itself if there are none.

        Raises: RightsUnavailable if the stored rows can't be read as access classes.
        """
        if horizon <= self.horizon:
            return self
        rows = _read(session, self.horizon, horizon)
        inside, inheriting = dict(self.inside), dict(self.inheriting)
        for held, chosen in ((inside, slice(None)), (inheriting, ~rows.cut)):
            for collection, new in _by(rows.collections[chosen], rows.ids[chosen]):
                held[collection] = held[collection] | new if collection in held else new
        return ClassSets(horizon, inside, inheriting, self._with_lines(rows))

    def _with_lines(self, rows: _Rows) -> dict[int, Mapping[Term, FrozenBitMap]]:
        changed: dict[int, dict[Term, FrozenBitMap]] = {}
        for number, new in _by(rows.line_codes, rows.line_classes):
            principal, term = rows.lines[number]
            if principal not in changed:
                changed[principal] = dict(self.own.get(principal, {}))
            held = changed[principal]
            held[term] = held[term] | new if term in held else new
        return {**self.own, **changed}


@dataclass(frozen=True, slots=True)
class _Rows:
    """Columns of n classes, int64 or bool [n], and of their m own lines, int64 [m].

    `line_codes` are places in `lines`.
    """

    ids: _Numbers
    collections: _Numbers
    cut: NDArray[np.bool_]
    line_classes: _Numbers
    line_codes: _Numbers
    lines: list[_Line]


def _read(session: Session, after: int, horizon: int) -> _Rows:
    # One row of three long texts: a row object for each of 100,000 classes takes twice the time.
    # All three are filled in one pass over the same rows, so their order is one.
    if horizon >= _HORIZON_LIMIT:
        raise RightsUnavailable(f"access class {horizon} is beyond what a scope can hold")
    cut = cast(AccessClassRow.cut, Integer)
    columns = session.execute(
        select(
            func.aggregate_strings(cast(AccessClassRow.id, Text), ","),
            func.aggregate_strings(cast(AccessClassRow.collection_id * 2 + cut, Text), ","),
            func.aggregate_strings(cast(AccessClassRow.own, Text), "\n"),
        ).where(AccessClassRow.id > after, AccessClassRow.id <= horizon)
    ).one()
    ids, kinds = _numbers(columns[0]), _numbers(columns[1])
    pieces = (columns[2] or "").replace(_BETWEEN, "\n;").split("\n") if len(ids) else []
    # Where each piece stands for the first time, then as its place among the known.
    known: dict[str, int] = {}
    codes = np.fromiter(map(known.setdefault, pieces, count()), np.int64, len(pieces))
    dense = np.zeros(len(pieces), np.int64)
    dense[list(known.values())] = np.arange(len(known))
    codes = dense[codes]
    numbers, lines = _lines(known)
    # A piece that starts with ; goes on with the class of the one before it.
    first = np.array([not each.startswith(";") for each in known], bool)[codes]
    last = np.array([each.endswith("]]") or each == "[]" for each in known], bool)[codes]
    places = np.cumsum(first) - 1
    n = len(ids)
    if not (
        len(kinds) == first.sum() == n
        and np.array_equal(last, np.append(first[1:], True)[: len(last)])
    ):
        raise RightsUnavailable("the stored access classes can't be read")
    line_codes = numbers[codes]
    real = line_codes >= 0
    return _Rows(ids, kinds // 2, kinds % 2 == 1, ids[places[real]], line_codes[real], lines)


def _numbers(text: str | None) -> _Numbers:
    return np.fromstring(text or "", dtype=np.int64, sep=",")


def _lines(pieces: Collection[str]) -> tuple[_Numbers, list[_Line]]:
    """Read pieces of own grants: the place of each one's line, -1 for the mark of none; lines."""
    plain = ",".join("null" if each == "[]" else f"[{each.strip('[];')}]" for each in pieces)
    known: dict[_Line, int] = {}
    numbers = []
    try:
        for line in json.loads(f"[{plain}]"):
            if line is None:
                numbers.append(-1)
                continue
            principal, effect, end_s = line
            read = principal, (_ALLOWS[effect], inf if end_s is None else end_s)
            numbers.append(known.setdefault(read, len(known)))
    except (ValueError, KeyError) as failure:
        raise RightsUnavailable("the own grants of access classes can't be read") from failure
    if len(numbers) != len(pieces):
        raise RightsUnavailable("the own grants of access classes can't be read")
    return np.array(numbers, np.int64), list(known)


def _by(keys: _Numbers, ids: _Numbers) -> Iterator[tuple[int, FrozenBitMap]]:
    """Give for each key the set of the ids beside it."""
    # Numbers of 16 bits are sorted by radix, in a tenth of the time.
    small = len(keys) > 0 and int(keys.max()) < _SHORT_LIMIT
    order = np.argsort(keys.astype(np.uint16) if small else keys, kind="stable")
    keys, numbers = keys[order], ids[order].astype(np.uint32)
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(keys)], strict=False):
        # From an array of C integers it is built five times as fast as from numpy's.
        yield int(keys[start]), FrozenBitMap(array("I", numbers[start:end].tobytes()))
