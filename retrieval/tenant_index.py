"""All that is searched of one tenant, at one content sequence: parts that never change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from pyroaring import FrozenBitMap

from retrieval.errors import IndexMismatch
from retrieval.layout import best_first
from retrieval.lexical import Matches, bm25
from retrieval.part import Columns, Part
from retrieval.reach import Reaches, ScopeReach
from retrieval.types import Changes, Ids, Vectors
from retrieval.words import Lexicon

_SMALL_PARTS = 8  # parts of few rows that are searched one by one
_DEAD_SHARE = 10  # a part of which one row in so many is dead is written anew


@dataclass(frozen=True, slots=True)
class HeldRows:
    """What an index holds, passage by passage, in no order. terms: how often each is said."""

    ids: Ids
    classes: Ids
    documents: Ids
    vectors: Vectors
    terms: tuple[Counter[str], ...]


@dataclass(frozen=True, slots=True)
class TenantIndex:
    """A tenant's passages as they were at `sequence`; searching needs no lock.

    A change makes a small part of its own, and rows of older parts die by being named dead. An
    id can be dead in one part and alive in another (a passage that moved to another class keeps
    its id), so the dead are known by part and row, never by id. Small parts are joined as they
    come; big ones by a merger, beside the searches (`due`, `merged`, `exchanged`).

    sequence: the content sequence this state shows. width: columns of a vector. parts: each
    row that lives, lives in one of them; biggest first.
    Source: P. O'Neil et al., The Log-Structured Merge-Tree, 1996, for the sizes of parts.
    """

    sequence: int
    width: int
    parts: tuple[Part, ...]
    _reaches: Reaches = field(default_factory=Reaches, compare=False, repr=False)

    @classmethod
    def empty(cls, width: int) -> TenantIndex:
        """Give the index of a tenant without passages, before any change."""
        return cls(0, width, ())

    @property
    def n_rows(self) -> int:
        """Count the live passages."""
        return sum(part.n_live for part in self.parts)

    @property
    def nbytes(self) -> int:
        """Add up what the parts hold in memory, FAISS and dictionaries by estimate."""
        return sum(part.nbytes for part in self.parts)

    @property
    def mapped_nbytes(self) -> int:
        """Add up the float32 rows that lie in files and are mapped."""
        return sum(part.dense.vectors.nbytes for part in self.parts if part.saved)

    def apply(self, changes: Changes, lexicon: Lexicon, merge_rows: int) -> TenantIndex:
        """Give the index after these changes; this one stays as it is.

        Args: merge_rows: parts are joined here as long as they have no more rows together.
        Raises: IndexMismatch if the vectors have another width or are not unit;
            ValueError if the changes are older than this index, or an id has two documents.
        """
        self._check(changes)
        # The first change, which brings everything, has nothing to take away and names nothing.
        named = {*changes.documents.tolist(), *changes.rows.documents.tolist()}
        changed = np.array(sorted(named), dtype=np.int64)
        parts = [part.without(changed) for part in self.parts]
        parts = [part for part in parts if part.n_live]
        if len(changes.rows.ids):
            if any(np.any(part.live_rows_of(changes.rows.ids) >= 0) for part in parts):
                raise ValueError("a passage came that another, unchanged document already holds")
            parts.append(Part.build(Columns.of(changes.rows, lexicon)))
        return TenantIndex(changes.sequence, self.width, _joined(parts, merge_rows))

    def due(self, merge_rows: int) -> tuple[Part, ...]:
        """Name the parts that a merger should make one of; none if all is well.

        A part is taken with the smaller ones once it has less than twice their rows, so that
        parts are as many as the logarithm of the rows; and once a tenth of it is dead.
        """
        parts = sorted(self.parts, key=lambda part: part.n_live)
        n_taken, n_rows = 0, 0
        for number, part in enumerate(parts):
            n_dead = len(part.dead)
            stale = n_dead > max(merge_rows, part.layout.n_rows // _DEAD_SHARE)
            if stale or (number and part.n_live < 2 * n_rows and n_rows > merge_rows):
                n_taken = number + 1
            n_rows += part.n_live
        return tuple(parts[:n_taken])

    def exchanged(self, old: Sequence[Part], new: Part) -> TenantIndex:
        """Put the part that was merged from older ones in their place.

        What has died in them since they were merged is dead in the new one too.
        """
        gone: list[Ids] = [new.dead]
        stays = list(self.parts)
        for before in old:
            now = next((part for part in stays if part.layout is before.layout), None)
            if now is None:
                if before.n_live:
                    # All of its rows died meanwhile, and the part was dropped.
                    gone.append(new.live_rows_of(before.layout.ids[before.live()]))
                continue
            stays = [part for part in stays if part is not now]
            died = np.setdiff1d(now.dead, before.dead, assume_unique=True)
            gone.append(new.live_rows_of(now.layout.ids[died]))
        dead = np.unique(np.concatenate(gone))
        parts = [*stays, replace(new, dead=dead[dead >= 0])]
        parts.sort(key=lambda part: -part.n_live)
        return TenantIndex(self.sequence, self.width, tuple(part for part in parts if part.n_live))

    def remapped(self, before: Sequence[Part], after: Sequence[Part]) -> TenantIndex:
        """Put parts that hold the same rows in place of others; the dead stay dead."""
        held = {id(old.layout): new for old, new in zip(before, after, strict=True)}
        parts = (replace(held.get(id(part.layout), part), dead=part.dead) for part in self.parts)
        return TenantIndex(self.sequence, self.width, tuple(parts))

    def held(self) -> HeldRows:
        """Give back every live passage, for a comparison with what should be there."""
        bags: list[Counter[str]] = []
        columns = [part.columns() for part in self.parts]
        for each in columns:
            own: list[Counter[str]] = [Counter() for _ in range(len(each.ids))]
            said = zip(each.bags.rows.tolist(), each.bags.terms.tolist(),
                       each.bags.counts.tolist(), strict=True)  # fmt: skip
            for row, term, count in said:
                own[row][each.bags.vocabulary[term]] = count
            bags += own
        none = np.empty(0, dtype=np.int64)
        return HeldRows(
            np.concatenate([each.ids for each in columns] or [none]),
            np.concatenate([each.classes for each in columns] or [none]),
            np.concatenate([each.documents for each in columns] or [none]),
            np.concatenate(
                [each.vectors for each in columns] or [np.empty((0, self.width), np.float32)]
            ),
            tuple(bags),
        )

    def reach(self, classes: FrozenBitMap | Ids) -> ScopeReach:
        """Find what some classes have here; that of a scope's own set is remembered.

        Args: classes: a scope's, or int64, ascending and unique.
        """
        if not isinstance(classes, FrozenBitMap):
            return self._reach(classes)
        held = self._reaches.get(classes)
        if held is None:
            held = self._reach(np.array(classes.to_array(), dtype=np.int64))
            self._reaches.keep(classes, held)
        return held

    def dense(self, vector: Vectors, scope: ScopeReach | Ids, depth: int) -> tuple[Ids, Vectors]:
        """Give the exact nearest passages of some classes: ids and cosines, best first.

        Args: vector: float32 [width], unit. scope: their reach, or the classes themselves.
        Raises: ValueError for an unfit vector; IndexUnsound if a guard around FAISS tripped.
        """
        reach = scope if isinstance(scope, ScopeReach) else self._reach(scope)
        if len(self.parts) == 1:
            return self.parts[0].dense.nearest(vector, reach.parts[0], depth)
        found = [
            part.dense.nearest(vector, each, depth)
            for part, each in zip(self.parts, reach.parts, strict=True)
        ]
        ids = np.concatenate([part_ids for part_ids, _ in found] or [np.empty(0, np.int64)])
        scores = np.concatenate([each for _, each in found] or [np.empty(0, np.float32)])
        order = best_first(ids, scores, depth)
        return ids[order], scores[order]

    def cosines(self, ids: Ids, vector: Vectors) -> Vectors:
        """Score passages that a leg of this same index found: float32 [n].

        Raises: ValueError if an id has no live passage, or for an unfit vector.
        """
        scores = np.empty(len(ids), dtype=np.float32)
        n_found = 0
        for part in self.parts:
            rows = part.live_rows_of(ids)
            here = rows >= 0
            scores[here] = part.dense.scores(rows[here], vector)
            n_found += int(here.sum())
        if n_found != len(ids):
            raise ValueError(f"{len(ids)} passages to score; {n_found} are here")
        return scores

    def lexical(self, terms: Sequence[str], scope: ScopeReach | Ids) -> Matches:
        """Score the passages of some classes that share a term, by BM25 of these classes.

        Args: terms: of the question, repeats count. scope: as for `dense`.
        """
        reach = scope if isinstance(scope, ScopeReach) else self._reach(scope)
        said = sorted(Counter(terms).items())
        known = [term for term, _ in said]
        tallies = [
            part.lexical.tally(known, each)
            for part, each in zip(self.parts, reach.parts, strict=True)
        ]
        return bm25(tallies, [weight for _, weight in said])

    def matched(self, matches: Matches, ids: Ids) -> Vectors:
        """Give the lexical score of passages of the scope, 0 for those that share no term.

        Args: matches: of this same index. ids: int64 [n], in the scope.
        Returns: float32 [n].
        """
        scores = np.zeros(len(ids), dtype=np.float32)
        for number, part in enumerate(self.parts):
            rows = part.live_rows_of(ids)
            here = rows >= 0
            scores[here] = matches.scores(number, rows[here])
        return scores

    def _reach(self, classes: Ids) -> ScopeReach:
        parts = (part.dense.reach(classes, part.dead) for part in self.parts)
        return ScopeReach(classes, tuple(parts))

    def _check(self, changes: Changes) -> None:
        rows = changes.rows
        if changes.sequence < self.sequence:
            raise ValueError(f"changes end at {changes.sequence}; the index is at {self.sequence}")
        if len(rows.ids) and rows.vectors.shape[1] != self.width:
            found = rows.vectors.shape[1]
            raise IndexMismatch(f"stored vectors are {found} wide; the encoder's are {self.width}")


def merged(parts: Sequence[Part]) -> Part:
    """Build one part of the live rows of several. Takes long for many: for a merger."""
    columns = parts[0].columns()
    for part in parts[1:]:
        columns = columns.plus(part.columns())
    return Part.build(columns)


def _joined(parts: Sequence[Part], merge_rows: int) -> tuple[Part, ...]:
    """Join the smallest parts, once there are many that have few rows together."""
    ordered = sorted(parts, key=lambda part: -part.n_live)
    small = [part for part in ordered if part.n_live <= merge_rows]
    if len(small) <= _SMALL_PARTS:
        return tuple(ordered)
    n_rows, taken = 0, 0
    for part in reversed(small):
        n_rows += part.n_live
        if n_rows > merge_rows or (taken > _SMALL_PARTS // 2 and part.n_live > n_rows // 2):
            break
        taken += 1
    if taken < 2:
        return tuple(ordered)
    joined = [*ordered[:-taken], merged(ordered[-taken:])]
    return tuple(sorted(joined, key=lambda part: -part.n_live))
