"""A plan that fits, with all that is said of it: sums, bounds, shares, cost, order of start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pipeline.plan.bounds import Phase
from pipeline.plan.catalog import Prices, find_device
from pipeline.plan.cost import AnswerTokens, Cost, api_costs, own_cost
from pipeline.plan.flags import Start, start_beside
from pipeline.plan.make import Line, Plan, Wanted, make_plan
from pipeline.plan.remedies import refuse_misfit
from pipeline.plan.shares import Share, shares


@dataclass(frozen=True, slots=True)
class Money:
    """What costs are worked out from. usd_per_hour: None for the table's price of the device."""

    tokens: AnswerTokens
    utilisation: float
    usd_per_hour: float | None
    prices: Prices


@dataclass(frozen=True, slots=True)
class Estimate:
    """All that is said. host, lines: bytes in memory, and on each GPU, keys and values last."""

    title: str
    plan: Plan
    host: tuple[Line, ...]
    lines: tuple[Line, ...]
    phases: Mapping[str, Phase]
    shares: tuple[Share, ...]
    costs: tuple[Cost, ...]
    start: Start
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """Give the figures as plain values, for JSON."""
        plan = self.plan
        return {
            "device": plan.wanted.device.name,
            "model": plan.wanted.shape.name,
            "kv_bytes_per_token": plan.row.nbytes,
            "kv_formula": plan.row.formula,
            "kv_bytes_per_token_on_each_gpu": plan.row_nbytes,
            "kv_bytes": plan.kv_nbytes,
            "sequences_at_once": plan.n_fit,
            "tokens_at_once": plan.tokens_fit,
            "weights_bytes": plan.weights_nbytes,
            "host": [asdict(each) for each in self.host],
            "gpu": [asdict(each) for each in self.lines],
            "phases": {name: asdict(each) for name, each in self.phases.items()},
            "shares": [asdict(each) for each in self.shares],
            "cost_per_thousand": [asdict(each) for each in self.costs],
            "start": list(self.start.steps),
            "notes": list(self.notes),
        }


def estimate(wanted: Wanted, source: str, money: Money) -> Estimate:
    """Work out everything. source: where the model's numbers are from.

    Raises: PlanRefused if it can't fit, with what would make it fit.
    """
    plan = make_plan(wanted)
    refuse_misfit(plan)
    device = wanted.device
    prefill, decode = plan.phases()
    whole = find_device(device.slice_of or device.name)
    title = (
        f"{wanted.corpus.n_passages:,} passages, {wanted.shape.name} ({source}) on "
        f"{wanted.n_gpus} x {device.title}"
    )
    return Estimate(
        title=title,
        plan=plan,
        host=_host(plan),
        lines=(*plan.lines, *_kv_lines(plan)),
        phases={"prefill": prefill, "decode": decode},
        shares=shares(wanted, whole) if wanted.n_gpus == 1 else (),
        costs=_costs(wanted, money, prefill, decode),
        start=start_beside(plan),
        notes=_notes(wanted, money),
    )


def _host(plan: Plan) -> tuple[Line, ...]:
    sizes, source = plan.corpus.sizes, "retrieval/sizes.py"
    parts = (sizes.layout, sizes.codes, sizes.lexical, sizes.rows)
    names = ("index: layout", "index: dense codes", "index: lexical", "float32 rows (mapped)")
    lines = tuple(
        Line(name, nbytes, formula, source)
        for name, nbytes, formula in zip(names, parts, plan.corpus.formulas, strict=True)
    )
    building = Line("while one is built", plan.corpus.building,
                    "one tenant's index read from the database and built whole, at most",
                    "retrieval/sizes.py: building_nbytes")  # fmt: skip
    return (*lines, building)


def _kv_lines(plan: Plan) -> tuple[Line, ...]:
    wanted = plan.wanted
    needed = wanted.concurrency * plan.sequence_nbytes
    left = plan.kv_nbytes - needed
    return (
        Line("KV", needed,
             f"{plan.row.formula} = {plan.row.nbytes:,} B a token ({plan.row_nbytes:,} on a GPU); "
             f"x {wanted.context} tokens x {wanted.concurrency}",
             "pipeline/plan/kv.py"),
        Line("left", left,
             f"room for {plan.n_fit} sequences, {plan.tokens_fit:,} tokens in all",
             wanted.device.source),
    )  # fmt: skip


def _costs(wanted: Wanted, money: Money, prefill: Phase, decode: Phase) -> tuple[Cost, ...]:
    device = wanted.device
    whole = device.slice_of or device.name
    found: tuple[Cost, ...] = ()
    listed = money.prices.gpu_hours.get(device.name) or money.prices.gpu_hours.get(whole)
    usd_per_hour, source = money.usd_per_hour, "given"
    if usd_per_hour is None and listed is not None:
        # A slice is paid for as its part of the board.
        part = 1 if device.name in money.prices.gpu_hours else device.most
        usd_per_hour, source = listed[0] / part, f"{listed[1]}; table of {money.prices.dated}"
    if usd_per_hour is not None:
        own = own_cost(
            money.tokens,
            usd_per_hour=usd_per_hour,
            n_gpus=wanted.n_gpus,
            prefill_per_s=prefill.tokens_per_s,
            decode_per_s=decode.tokens_per_s,
            utilisation=money.utilisation,
            source=source,
        )
        found = (own,)
    return found + api_costs(money.tokens, money.prices.apis)


def _notes(wanted: Wanted, money: Money) -> tuple[str, ...]:
    notes = [
        f"rates are bounds at {wanted.compute_efficiency:.0%} of peak arithmetic and "
        f"{wanted.bandwidth_efficiency:.0%} of peak bandwidth, which are assumed: measure yours",
        "weights are a fixed cost of every engine: each slice and each process pays them again",
        f"prices are of {money.prices.dated}; host, egress and spare replicas are not in them",
    ]
    slow = {wanted.weights, wanted.activations} & {"fp8", "int8"}
    if slow and wanted.weights != wanted.activations:
        notes.append(
            f"weights in {wanted.weights} under activations in {wanted.activations} save bytes, "
            "not arithmetic: it is done at 16 bits"
        )
    return tuple(notes)
