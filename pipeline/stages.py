"""Stages 1 to 4 as plain calls: they block, and the online flow runs them in its pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from acl.authorize import Authority
from acl.session import Database
from acl.types import AccessScope
from pipeline.lines import Line, Lines
from pipeline.settings import Settings
from pipeline.telemetry import Meter, StageClock
from pipeline.types import Ask, Stage
from retrieval import corpus
from retrieval.errors import RerankFailed
from retrieval.rerank import Reranker
from retrieval.search import find
from retrieval.types import Candidate, Hits, Passage, Query, Signal, Vectors
from retrieval.words import Lexicon

# Rounds of search that replace candidates which fell, before what stands is given and said.
_REFILLS = 4


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages over what one process holds: index versions, database, reranker."""

    database: Database
    authority: Authority
    lines: Lines
    lexicon: Lexicon
    reranker: Reranker
    meter: Meter
    settings: Settings

    def embed(self, line: Line, question: str) -> Vectors:
        """Stage 1: give the question's vector, float32 [d], unit norm."""
        return line.encoder.encode_query(question)

    def search(self, line: Line, ask: Ask, scope: AccessScope, vector: Vectors) -> Hits:
        """Stage 2: find candidates in the lists of the scope, and nowhere else.

        Args: line: the one that gave the vector.
        """
        at = scope.counters
        index = line.shelf.at(scope.tenant, at.content_sequence, at.incarnation)
        return find(index, self.lexicon, vector, ask.question, scope, self.settings.retrieval)

    def authorize(
        self,
        line: Line,
        ask: Ask,
        scope: AccessScope,
        vector: Vectors,
        hits: Hits,
        clock: StageClock,
    ) -> tuple[Candidate, ...]:
        """Stage 3: keep what stands in a new snapshot, with its text; replace what fell.

        Raises: UnknownPrincipal if person or key is gone; RightsUnavailable.
        """
        wanted = max(ask.depth, self.settings.retrieval.rerank_depth)
        standing: dict[int, Passage] = {}
        for refill in range(_REFILLS + 1):
            if refill > 0:
                hits = self.search(line, ask, scope, vector)
            with self.database.reading(scope.tenant) as session:
                now = self.authority.mint_in(session, ask.principal)
                both = self.authority.narrowed(scope, now)
                ids = hits.ids[:wanted].tolist()
                standing = corpus.standing(session, ids, both)
            n_fallen = len(ids) - len(standing)
            if n_fallen == 0:
                return _candidates(hits, standing)
            self.meter.dropped(n_fallen)
            scope = both
        clock.cut(Stage.AUTHORIZE, "documents changed while they were searched; fewer are given")
        return _candidates(hits, standing)

    def rerank(
        self, ask: Ask, candidates: Sequence[Candidate], clock: StageClock
    ) -> tuple[Candidate, ...]:
        """Stage 4: rank the best candidates anew; what lies deeper keeps its order."""
        depth = self.settings.retrieval.rerank_depth
        best, rest = candidates[:depth], candidates[depth:]
        budget_s = self.settings.budgets.rerank_ms / 1000
        if self.reranker.kind == "fusion":
            clock.cut(Stage.RERANK, "no reranker is set: the order of fusion stands")
        elif ask.deadline.remaining_s() < budget_s:
            clock.cut(Stage.RERANK, "no time was left: the order of fusion stands")
        else:
            try:
                best = self.reranker.rerank(Query(ask.question, depth), best)
            except RerankFailed:
                clock.cut(Stage.RERANK, "the reranker failed: the order of fusion stands")
        return (*best, *rest)[: ask.depth]


def _candidates(hits: Hits, standing: dict[int, Passage]) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(standing[number], float(score), Signal.FUSED, float(dense), float(lexical))
        for number, score, dense, lexical in zip(
            hits.ids.tolist(), hits.scores, hits.dense, hits.lexical, strict=True
        )
        if number in standing
    )
