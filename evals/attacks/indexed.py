"""Attacks on the index itself, without a server: millions of tries cost minutes."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from pyroaring import FrozenBitMap

from acl.authorize import Authority
from acl.keys import verify_key
from acl.salt import cache_salt
from acl.types import AccessScope
from evals.attacks.case import Attack, Outcome, auc_of
from evals.attacks.ground import WORDS, Ground
from retrieval.errors import IndexUnsound
from retrieval.tenant_index import TenantIndex
from retrieval.types import Changes, Ids, Rows, Vectors
from retrieval.words import Lexicon

_WIDTH, _N_ROWS, _N_CLASSES, _DEPTH = 32, 3_000, 300, 10
_TIE = 1e-6


def _random_index(
    chance: np.random.Generator, n_rows: int = _N_ROWS, n_classes: int = _N_CLASSES
) -> tuple[TenantIndex, Ids, Vectors]:
    ids = np.arange(1, n_rows + 1, dtype=np.int64)
    classes = chance.integers(1, n_classes + 1, n_rows).astype(np.int64)
    vectors = chance.standard_normal((n_rows, _WIDTH)).astype(np.float32)
    # A fifth are near-copies of others, in whatever class they fall.
    copies = chance.integers(0, n_rows, n_rows // 5)
    vectors[: len(copies)] = vectors[copies] + np.float32(1e-3) * vectors[: len(copies)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = tuple(" ".join(chance.choice(WORDS, 12)) for _ in range(n_rows))
    changes = Changes(1, ids, Rows(ids, classes, ids, vectors, texts))
    return TenantIndex.empty(_WIDTH).apply(changes, Lexicon(), 2_048), classes, vectors


def _differential(_: Ground, times: int) -> Outcome:
    """Compare random readers' searches with brute force in float64 over what they may read."""
    chance = np.random.default_rng(1)
    n, n_events, control = 20_000 * times, 0, 0
    index, classes, vectors = _random_index(chance)
    for number in range(1, n + 1):
        if number % 5_000 == 0:
            index, classes, vectors = _random_index(chance)
        share = chance.choice((0.003, 0.01, 0.1, 0.5))
        allowed = np.flatnonzero(chance.random(_N_CLASSES) < share).astype(np.int64) + 1
        question = vectors[chance.integers(_N_ROWS)]
        found, _scores = index.dense(question, allowed, _DEPTH)
        rows = found - 1
        permitted = np.flatnonzero(np.isin(classes, allowed))
        truth = vectors[permitted].astype(np.float64) @ question.astype(np.float64)
        wanted = min(_DEPTH, len(permitted))
        last = np.partition(truth, -wanted)[-wanted] if wanted else 0.0
        mine = vectors[rows].astype(np.float64) @ question.astype(np.float64)
        foreign = ~np.isin(classes[rows], allowed)
        n_events += bool(foreign.any() or len(rows) != wanted or (mine < last - _TIE).any())
        best = np.argmax(vectors @ question)
        control += bool(classes[best] not in allowed)
    return Outcome(n, n_events, control)


@dataclass(frozen=True, slots=True)
class _Straying:
    """Lists on a device that give rows of any class: a build that ignores what is asked."""

    vectors: Vectors
    calls: list[int]

    def search(self, query: Vectors, lists: Ids, depth: int) -> tuple[Ids, Vectors]:
        """Give the best rows of all, whatever lists were asked."""
        self.calls.append(len(lists))
        scores = self.vectors @ query
        rows = np.argsort(-scores)[:depth].astype(np.int64)
        return rows, scores[rows]

    def takes(self, lists: Ids, depth: int) -> bool:
        """Take everything."""
        return len(lists) > 0 and depth > 0


def _selector_ignored(_: Ground, times: int) -> Outcome:
    """Put lists under the search that ignore what is asked: it must refuse, never answer."""
    chance = np.random.default_rng(2)
    n_rows, n_classes = 12_000, 20
    index, classes, vectors = _random_index(chance, n_rows, n_classes)
    calls: list[int] = []
    part = index.parts[0]
    straying = _Straying(part.dense.vectors, calls)
    strayed = replace(index, parts=(replace(part, dense=replace(part.dense, device=straying)),))
    n, n_events = 200 * times, 0
    for _number in range(n):
        allowed = np.sort(chance.choice(n_classes, 12, replace=False)).astype(np.int64) + 1
        question = vectors[chance.integers(n_rows)]
        try:
            found, _scores = strayed.dense(question, allowed, _DEPTH)
        except IndexUnsound:
            continue
        n_events += not np.isin(classes[found - 1], allowed).all()
    return Outcome(n, n_events, control=len(calls))


def _timing(_: Ground, times: int) -> Outcome:
    """Time questions beside forbidden near-copies against questions beside nothing."""
    chance = np.random.default_rng(3)
    n_rows, n_classes = 60_000, 1_000
    index, classes, vectors = _random_index(chance, n_rows, n_classes)
    allowed = FrozenBitMap(range(1, n_classes // 10))
    everything = FrozenBitMap(range(1, n_classes + 1))
    forbidden = np.flatnonzero(classes >= n_classes // 10)
    n = 3_000 * times
    index.dense(vectors[0], index.reach(allowed), _DEPTH)
    took: dict[str, list[float]] = {"beside": [], "nowhere": [], "all": []}
    for _number in range(n):
        strange = chance.standard_normal(_WIDTH).astype(np.float32)
        strange /= np.linalg.norm(strange)
        asked = {"beside": vectors[chance.choice(forbidden)], "nowhere": strange, "all": strange}
        for case in chance.permutation(list(asked)):
            reach = index.reach(everything if case == "all" else allowed)
            began = time.perf_counter()
            index.dense(asked[case], reach, _DEPTH)
            took[case].append(time.perf_counter() - began)
    seen = auc_of(took["all"], took["nowhere"])
    return Outcome(n, auc=auc_of(took["beside"], took["nowhere"]), control_auc=seen)


def _salts(ground: Ground, times: int) -> Outcome:
    """Shift field boundaries of salts: two that are made of other fields must never be equal."""
    chance = np.random.default_rng(4)
    secret = ground.settings.secret_bytes()
    scopes = [_scope_of(ground, who) for who in ("ana", "bo", "zoe")]
    n, repeated, equal = 5_000 * times, 0, 0
    seen: dict[str, object] = {}
    for _number in range(n):
        scope = scopes[int(chance.integers(len(scopes)))]
        raised = {int(each): int(chance.integers(1, 4)) for each in chance.choice(40, 2)}
        nonce = "a" * int(chance.integers(0, 4)) + "1" * int(chance.integers(0, 4))
        salt = cache_salt(scope, raised, secret, "user", nonce)
        made_of = (scope.tenant, scope.principal.id, tuple(sorted(raised.items())), nonce)
        repeated += seen.setdefault(salt, made_of) != made_of
        equal += cache_salt(scope, raised, secret, "user", nonce) == salt
    return Outcome(n, repeated, equal)


def _scope_of(ground: Ground, who: str) -> AccessScope:
    secret = ground.settings.secret_bytes()
    principal = verify_key(ground.database, ground.keys[who], secret, time.time)
    return Authority(ground.database).mint(principal)


ATTACKS = (
    Attack("1", "random readers against brute force", _differential),
    Attack("2", "an index that ignores the selector", _selector_ignored),
    Attack("8", "time of a search beside forbidden near-copies", _timing),
    Attack("12", "salts of fields that run together", _salts),
)
