"""What operators see: stage times and outcomes, without text, questions or keys."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from generation.types import Usage
from pipeline.settings import BudgetSettings
from pipeline.types import Spent, Stage

_SECONDS = (0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class Meter:
    """The metrics of one process, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._stages = Histogram(
            "ostiary_stage_seconds", "Time of each stage", ["stage"],
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._over = Counter(
            "ostiary_stage_over_budget", "Stages that took longer than their budget", ["stage"],
            registry=self.registry,
        )  # fmt: skip
        self._outcomes = Counter(
            "ostiary_requests", "Requests by what became of them", ["outcome"],
            registry=self.registry,
        )  # fmt: skip
        self._dropped = Counter(
            "ostiary_candidates_dropped", "Candidates that fell at the second check",
            registry=self.registry,
        )  # fmt: skip
        self._tokens = Counter(
            "ostiary_engine_tokens", "Tokens as the engine counts them, by kind", ["kind"],
            registry=self.registry,
        )  # fmt: skip
        self._index = Gauge(
            "ostiary_index_bytes", "Bytes of the index of each tenant that is open", ["tenant"],
            registry=self.registry,
        )  # fmt: skip

    def stage(self, spent: Spent) -> None:
        """Count a stage that has ended."""
        self._stages.labels(spent.stage.value).observe(spent.spent_ms / 1000)
        if spent.spent_ms > spent.budget_ms:
            self._over.labels(spent.stage.value).inc()

    def outcome(self, name: str) -> None:
        """Count a request by what became of it."""
        self._outcomes.labels(name).inc()

    def dropped(self, n_candidates: int) -> None:
        """Count candidates that fell at the second check. For the operator alone (law 1)."""
        self._dropped.inc(n_candidates)

    def tokens(self, usage: Usage | None) -> None:
        """Count the tokens of an answer. What was cached is for the operator alone (law 1)."""
        if usage is None:
            return
        counted = {"prompt": usage.prompt, "completion": usage.completion, "cached": usage.cached}
        for kind, n_tokens in counted.items():
            if n_tokens is not None:
                self._tokens.labels(kind).inc(n_tokens)

    def text(self, index_nbytes: dict[str, int]) -> bytes:
        """Give the metrics in Prometheus' text format."""
        for tenant, nbytes in index_nbytes.items():
            self._index.labels(tenant).set(nbytes)
        return generate_latest(self.registry)


class StageClock:
    """Times the stages of one request against their budgets."""

    def __init__(self, budgets: BudgetSettings, meter: Meter) -> None:
        self._budgets = budgets
        self._meter = meter
        self._cuts: dict[Stage, str] = {}
        self.spent: list[Spent] = []

    @contextmanager
    def __call__(self, stage: Stage) -> Iterator[None]:
        """Time a stage; it is noted even if it fails."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.note(stage, (time.perf_counter() - start) * 1000)

    def cut(self, stage: Stage, what: str) -> None:
        """Say what a stage left out, before it ends."""
        self._cuts[stage] = what

    def note(self, stage: Stage, spent_ms: float) -> None:
        """Note a stage whose time was taken elsewhere."""
        spent = Spent(stage, self._budgets.of(stage), spent_ms, self._cuts.get(stage, ""))
        self.spent.append(spent)
        self._meter.stage(spent)
