"""What would make a plan fit: each change is tried, and told only if it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipeline.errors import PlanRefused
from pipeline.plan.catalog import devices
from pipeline.plan.kv import BLOCK_TOKENS
from pipeline.plan.make import Plan, Wanted, make_plan

_SHOWN = 8


def refuse_misfit(plan: Plan) -> None:
    """Let a plan pass that fits. Raises: PlanRefused with the numbers and the changes that help."""
    if plan.fits:
        return
    wanted = plan.wanted
    gib = 1 << 30
    taken = wanted.device.nbytes - plan.kv_nbytes
    needed = wanted.concurrency * plan.sequence_nbytes
    missing = needed - plan.kv_nbytes
    helps = "; ".join(remedies(wanted)) or "nothing tried here"
    raise PlanRefused(
        f"it does not fit {wanted.device.title}: {taken / gib:.2f} GiB before the first token and "
        f"{wanted.concurrency} sequences of {wanted.context} tokens x {plan.row_nbytes} B = "
        f"{needed / gib:.2f} GiB, of {wanted.device.nbytes / gib:.2f} GiB; {missing / gib:.2f} GiB "
        f"are missing ({plan.n_fit} sequences fit). It would fit with: {helps}"
    )


def remedies(wanted: Wanted) -> list[str]:
    """Name changes of one or two inputs under which the plan fits, the nearest first."""
    found: list[str] = []
    for said, other in _changes(wanted):
        if len(found) == _SHOWN:
            break
        if any(said.startswith(f"{less} and ") for less in found):
            continue
        try:
            fits = make_plan(other).fits
        except PlanRefused:
            continue
        if fits:
            found.append(said)
    return found


def _changes(wanted: Wanted) -> Iterator[tuple[str, Wanted]]:
    plan = make_plan(wanted)
    if plan.n_fit:
        yield f"{plan.n_fit} at once", replace(wanted, concurrency=plan.n_fit)
    tokens = plan.tokens_fit // max(1, wanted.concurrency) // BLOCK_TOKENS * BLOCK_TOKENS
    if tokens > wanted.answer:
        yield f"a context of {tokens} tokens", replace(wanted, context=tokens)
    if wanted.index_on == "gpu":
        yield "the index on the processor", replace(wanted, index_on="cpu")
    if wanted.kv in ("bf16", "fp16"):
        yield "KV in fp8", replace(wanted, kv="fp8")
    for weights in ("fp8", "int4"):
        if wanted.weights in ("bf16", "fp16", "fp32"):
            yield f"weights in {weights}", replace(wanted, weights=weights)
            yield f"weights in {weights} and KV in fp8", replace(wanted, weights=weights, kv="fp8")
    for n_gpus in (2, 4, 8):
        if n_gpus > wanted.n_gpus:
            yield f"{n_gpus} GPUs", replace(wanted, n_gpus=n_gpus)
    for device in devices():
        bigger = device.nbytes > wanted.device.nbytes and not device.slice_of
        if bigger:
            yield f"{device.name} ({device.title})", replace(wanted, device=device)
