"""A ranking becomes a prompt: what is evidence, in which order, under which salt."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from acl.authorize import Authority
from acl.salt import cache_salt
from acl.session import Database
from acl.types import AccessScope
from generation.template import SYSTEM
from generation.types import Evidence, Prompt
from pipeline.settings import Settings
from pipeline.types import Ask
from retrieval.types import Candidate


class Assembler:
    """Chooses evidence and writes prompts. Works on what was ranked, adds nothing to it."""

    def __init__(
        self, database: Database, authority: Authority, secret: bytes, settings: Settings
    ) -> None:
        self._database = database
        self._authority = authority
        self._secret = secret
        self._settings = settings

    def choose(self, ranking: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Choose the evidence, best first; nothing if no passage is near enough (refusal).

        The measure is the cosine, which unlike a fused score means the same in every scope.
        """
        best = max((each.dense for each in ranking), default=-1.0)
        if best < self._settings.refuse_below:
            return ()
        least = best - self._settings.evidence_margin
        near = [each for each in ranking if each.dense >= least]
        return tuple(near[: self._settings.evidence_depth])

    def prompt(self, ask: Ask, scope: AccessScope, evidence: Sequence[Candidate]) -> Prompt:
        """Write the prompt. Evidence is numbered by relevance and stands in a canonical order.

        The order is by passage, so that the same passages make the same prefix whatever the
        question; the numbers, not the order, tell which is best.
        """
        numbered = [
            (each.passage.id, Evidence(number, each.passage.title, each.passage.text))
            for number, each in enumerate(evidence, start=1)
        ]
        in_order = tuple(shown for _, shown in sorted(numbered, key=lambda pair: pair[0]))
        question = ask.question
        if ask.instructions:
            question = f"{ask.question}\n\n{ask.instructions}"
        return Prompt(SYSTEM, in_order, ask.history, question, self._salt(ask, scope))

    def _salt(self, ask: Ask, scope: AccessScope) -> str:
        sharing = self._settings.salt_sharing
        # What a client says happened before may hold anything: it is cached for that person only.
        if sharing == "scope" and (ask.history or ask.instructions):
            sharing = "user"
        with self._database.reading(scope.tenant) as session:
            generations = self._authority.generations(session, scope)
        nonce = secrets.token_hex(16) if sharing == "off" else ""
        return cache_salt(scope, generations, self._secret, sharing, nonce)
