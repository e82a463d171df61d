"""What a thousand answers cost, on a GPU of one's own and from an API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.plan.catalog import ApiPrice

_MILLION = 1e6
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """An answer's tokens. hit: share of the prompt found in a prefix cache."""

    prompt: int
    answer: int
    hit: float


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars for a thousand answers, and how they come about."""

    name: str
    usd: float
    formula: str
    source: str


def own_cost(
    tokens: AnswerTokens,
    *,
    usd_per_hour: float,
    n_gpus: int,
    prefill_per_s: float,
    decode_per_s: float,
    utilisation: float,
    source: str,
) -> Cost:
    """Give the cost on GPUs that are paid by the hour.

    t = prompt (1 - hit) / prefill rate + answer / decode rate, both rates those of all GPUs;
    cost = price a second x t / utilisation. Host, egress and spare replicas are not in it.
    Args: utilisation: share of paid time at work, in (0, 1].
    """
    fresh = tokens.prompt * (1 - tokens.hit)
    spent_s = fresh / prefill_per_s + tokens.answer / decode_per_s
    usd = 1000 * usd_per_hour * n_gpus / _HOUR_S * spent_s / utilisation
    formula = (
        f"1000 x ${usd_per_hour:g}/h x {n_gpus} / 3600 x ({fresh:.0f}/{prefill_per_s:.0f} + "
        f"{tokens.answer}/{decode_per_s:.0f}) s / {utilisation:g}"
    )
    return Cost("own GPU", usd, formula, source)


def api_costs(tokens: AnswerTokens, prices: Sequence[ApiPrice]) -> tuple[Cost, ...]:
    """Give the cost from each API: (prompt - cached) in + cached cached + answer out."""
    cached = tokens.prompt * tokens.hit
    fresh = tokens.prompt - cached
    return tuple(
        Cost(
            each.name,
            1000 * (fresh * each.input + cached * each.cached + tokens.answer * each.output)
            / _MILLION,
            f"1000 x ({fresh:.0f} x ${each.input:g} + {cached:.0f} x ${each.cached:g} + "
            f"{tokens.answer} x ${each.output:g}) / 1e6",
            each.source,
        )
        for each in prices
    )  # fmt: skip
