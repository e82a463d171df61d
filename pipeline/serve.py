"""The online flow: the path of a question, through five stages, on one screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Executor
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from acl.audit import AuditLog
from acl.authorize import Authority
from acl.session import Database
from acl.types import AccessScope
from generation.answer import answer
from generation.budget import Fitted, fit
from generation.errors import PromptTooLong
from generation.types import Ended, Engine, Finish, Words
from pipeline.admit import Gate
from pipeline.assemble import Assembler
from pipeline.errors import AskRefused, EvidenceRevoked
from pipeline.settings import Settings
from pipeline.stages import Stages
from pipeline.telemetry import Meter, StageClock
from pipeline.types import Answer, Ask, Citation, Closing, Prepared, Ranked, Stage
from pipeline.watch import Watch, watched
from retrieval.types import Candidate

P = ParamSpec("P")
T = TypeVar("T")

# How often an answer is begun anew because its evidence was revoked before a byte was out.
_FRESH_STARTS = 3


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The five stages over what one process holds. Every method is for the event loop."""

    database: Database
    authority: Authority
    stages: Stages
    assembler: Assembler
    engine: Engine
    gate: Gate
    meter: Meter
    pool: Executor
    settings: Settings
    log: AuditLog

    async def retrieve(self, ask: Ask) -> Ranked:
        """Find the best passages that the principal may read: admission and stages 1 to 4.

        Raises: AskRefused; Overloaded; UnknownPrincipal; RightsUnavailable; TimeoutError.
        """
        self._check(ask)
        clock = StageClock(self.settings.budgets, self.meter)
        left_s = ask.deadline.remaining_s()
        gate = self.gate.admitted(ask.principal.tenant, ask.deadline)
        async with gate, asyncio.timeout(left_s):
            with clock(Stage.ADMIT):
                scope = await self._run(self.authority.mint, ask.principal)
            line = self.stages.lines.at(scope.counters.version)
            with clock(Stage.EMBED):
                vector = await self._run(self.stages.embed, line, ask.question)
            with clock(Stage.SEARCH):
                hits = await self._run(self.stages.search, line, ask, scope, vector)
            with clock(Stage.AUTHORIZE):
                standing = await self._run(
                    self.stages.authorize, line, ask, scope, vector, hits, clock
                )
            with clock(Stage.RERANK):
                ranking = await self._run(self.stages.rerank, ask, standing, clock)
        return Ranked(ask, scope, ranking, tuple(clock.spent))

    async def search(self, ask: Ask) -> Ranked:
        """Retrieve, and check once more that it all may be read before it leaves.

        Raises: as `retrieve`; EvidenceRevoked if rights fell again and again meanwhile.
        """
        for start in range(1, _FRESH_STARTS + 1):
            ranked = await self.retrieve(ask)
            try:
                await self._run(self._watch(ranked.scope, ranked.ranking).check)
            except EvidenceRevoked:
                if start == _FRESH_STARTS:
                    raise
            else:
                await self._run(self._note, ask, "search", ranked.ranking)
                return ranked
        raise AssertionError("the last start returns or raises")

    async def prepare(self, ask: Ask) -> Prepared:
        """Retrieve, choose the evidence and write the prompt: all that may still fail loudly.

        Raises: as `retrieve`; PromptTooLong if the question alone is too long; EngineDown.
        """
        # Evidence is chosen from the same ranking whatever number of results was asked for.
        wide = replace(ask, depth=max(ask.depth, self.settings.retrieval.rerank_depth))
        ranked = await self.retrieve(wide)
        evidence = self.assembler.choose(ranked.ranking)
        if not evidence:
            return Prepared(ranked, None, (), ask.sampling, ranked.spent)
        async with asyncio.timeout(ask.deadline.remaining_s()):
            prompt = await self._run(self.assembler.prompt, ask, ranked.scope, evidence)
            fitted = await fit(prompt, self.engine, ask.sampling)
        if not fitted.prompt.evidence:
            raise PromptTooLong("the question leaves the engine no room for any evidence")
        # What was dropped ranked lowest, so the numbers that are left run from 1 on.
        kept = evidence[: len(fitted.prompt.evidence)]
        return Prepared(ranked, fitted.prompt, kept, fitted.sampling, ranked.spent, _cut(fitted))

    async def stream(self, prepared: Prepared) -> AsyncGenerator[Words | Closing, None]:
        """Stream the answer, its evidence under watch to the last byte; then how it ended.

        Raises: EvidenceRevoked once bytes are out and rights are gone (before that it begins
        anew on what may still be read); EngineDown; EngineBusy; TimeoutError.
        """
        for start in range(1, _FRESH_STARTS + 1):
            begun = False
            try:
                async with aclosing(self._once(prepared)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
                return
            except EvidenceRevoked:
                self.meter.outcome("revoked")
                if begun or start == _FRESH_STARTS:
                    raise
            prepared = await self.prepare(prepared.ranked.ask)

    async def answer(self, prepared: Prepared) -> Answer:
        """Give the whole answer, its evidence checked once more before it leaves.

        Raises: as `stream`; an answer whose evidence was revoked is made anew.
        """
        for start in range(1, _FRESH_STARTS + 1):
            try:
                text, closing = await self._whole(prepared)
                await self._run(self._watch(prepared.ranked.scope, prepared.evidence).check)
                return Answer(text, closing)
            except EvidenceRevoked:
                if start == _FRESH_STARTS:
                    raise
            prepared = await self.prepare(prepared.ranked.ask)
        raise AssertionError("the last start returns or raises")

    async def _once(self, prepared: Prepared) -> AsyncGenerator[Words | Closing, None]:
        clock = StageClock(self.settings.budgets, self.meter)
        ask = prepared.ranked.ask
        watch = self._watch(prepared.ranked.scope, prepared.evidence)
        if prepared.prompt is None:
            await self._run(watch.check)
            yield Words(self.settings.refusal)
            yield Closing(Finish.STOP, True, 0, None, (), prepared.spent)
            return
        await self._run(self._note, ask, "answer", prepared.evidence)
        if prepared.cut:
            clock.cut(Stage.GENERATE, prepared.cut)
        limits = self.settings.generation
        left_s, begun_s = ask.deadline.remaining_s(), time.perf_counter()
        pieces = answer(
            self.engine,
            prepared.prompt,
            prepared.sampling,
            left_s,
            limits.link_hosts,
            limits.sentences,
        )
        async with aclosing(watched(pieces, watch, self._run)) as checked:
            async for piece in checked:
                if not clock.spent:
                    clock.note(Stage.GENERATE, (time.perf_counter() - begun_s) * 1000)
                if isinstance(piece, Words):
                    yield piece
                else:
                    self.meter.tokens(piece.usage)
                    yield _closing(piece, prepared, clock)

    async def _whole(self, prepared: Prepared) -> tuple[str, Closing]:
        text, closing = [], None
        async with aclosing(self._once(prepared)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Closing):
                    closing = piece
                else:
                    text.append(piece.text)
        assert closing is not None, "a stream ends with its closing or raises"  # noqa: S101 - a bug, not input
        return "".join(text), closing

    def _note(self, ask: Ask, event: str, shown: Sequence[Candidate]) -> None:
        """Write down which documents somebody was shown, or an answer rests on.

        Blocks where the queue of notes is full.
        """
        documents = dict.fromkeys(each.passage.document for each in shown)
        self.log.note(ask.principal, event, "", documents=tuple(documents))

    def _watch(self, scope: AccessScope, resting_on: Sequence[Candidate]) -> Watch:
        passages = frozenset(each.passage.id for each in resting_on)
        return Watch(self.database, self.authority, scope, passages)

    def _check(self, ask: Ask) -> None:
        if not ask.question.strip():
            raise AskRefused("the question is empty")
        if len(ask.question) > self.settings.max_question_chars:
            raise AskRefused(
                f"the question has {len(ask.question)} characters, at most "
                f"{self.settings.max_question_chars} are taken"
            )
        if not 1 <= ask.depth <= self.settings.max_depth:
            raise AskRefused(
                f"{ask.depth} results were asked for, 1 to {self.settings.max_depth} can be"
            )

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.pool, lambda: call(*args, **kwargs))


def _closing(ended: Ended, prepared: Prepared, clock: StageClock) -> Closing:
    citations = tuple(
        Citation(
            mark.number,
            mark.position,
            mark.attributed,
            prepared.evidence[mark.number - 1].passage,
        )
        for mark in ended.citations
    )
    spent = prepared.spent + tuple(clock.spent)
    n_evidence = len(prepared.evidence)
    return Closing(ended.finish, False, n_evidence, ended.usage, citations, spent)


def _cut(fitted: Fitted) -> str:
    said = []
    if fitted.dropped:
        said.append(f"{len(fitted.dropped)} passages of evidence")
    if fitted.n_history_dropped:
        said.append(f"{fitted.n_history_dropped} earlier turns")
    return f"did not fit the engine's context: {' and '.join(said)}" if said else ""
