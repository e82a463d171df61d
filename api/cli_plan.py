"""`ostiary plan`: what a deployment takes, whether it fits, what bounds it, what it costs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pipeline.plan.report import Estimate

_GIB = 1 << 30

Precision = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4"]
Arithmetic = Literal["bf16", "fp16", "fp8", "int8"]
KvPrecision = Literal["bf16", "fp16", "fp8", "nvfp4", "fp8_ds_mla"]


def add_to(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("plan")(plan)


def plan(
    passages: Annotated[int, typer.Option(min=1, help="Of all tenants.")],
    model: Annotated[str, typer.Option(help="A name, or the path of a config.json.")],
    device: Annotated[str, typer.Option(help="h100, h200, a100, l40s, t4; a slice: h100:3g.")],
    width: Annotated[int, typer.Option(min=1, help="Columns of the encoder's vectors.")] = 384,
    tenants: Annotated[int, typer.Option(min=1)] = 1,
    classes: Annotated[int, typer.Option(min=1, help="Access classes of a tenant.")] = 100,
    words: Annotated[int, typer.Option(min=1, help="Words of a passage.")] = 130,
    index_on: Annotated[Literal["cpu", "gpu"], typer.Option(help="gpu: there too.")] = "cpu",
    context: Annotated[int, typer.Option(min=2, help="Most tokens of a sequence.")] = 4096,
    answer: Annotated[int, typer.Option(min=1, help="Tokens written, of the context.")] = 250,
    concurrency: Annotated[int, typer.Option(min=1, help="Answers at once.")] = 16,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs that share the model.")] = 1,
    weights: Annotated[Precision, typer.Option(help="Precision of weights.")] = "bf16",
    activations: Annotated[Arithmetic, typer.Option(help="Of the arithmetic.")] = "bf16",
    kv: Annotated[KvPrecision, typer.Option(help="Of keys and values.")] = "bf16",
    n_weights: Annotated[
        int | None, typer.Option("--n-weights", min=1, help="If the config does not tell.")
    ] = None,
    batched_tokens: Annotated[int | None, typer.Option(min=1, help="Of a step.")] = None,
    hit: Annotated[float, typer.Option(min=0, max=1, help="Of prompts, found cached.")] = 0.0,
    utilisation: Annotated[float, typer.Option(min=0.01, max=1, help="Of paid time.")] = 0.5,
    price: Annotated[float | None, typer.Option(min=0, help="US dollars a GPU-hour.")] = None,
    prices: Annotated[Path | None, typer.Option(help="Your table; see docs/planning.md.")] = None,
    compute_efficiency: Annotated[float, typer.Option(min=0.01, max=1)] = 0.5,
    bandwidth_efficiency: Annotated[float, typer.Option(min=0.01, max=1)] = 0.7,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Plan index, weights and KV on a device; exit code 1 with what would help if it can't fit."""
    from pipeline.plan.catalog import find_device, find_model, load_prices
    from pipeline.plan.corpus import CorpusSize
    from pipeline.plan.cost import AnswerTokens
    from pipeline.plan.make import Wanted
    from pipeline.plan.report import Money, estimate

    shape, source = find_model(model)
    wanted = Wanted(
        CorpusSize(passages, width, tenants, classes, words),
        shape,
        find_device(device),
        context=context,
        answer=answer,
        concurrency=concurrency,
        n_gpus=gpus,
        weights=weights,
        activations=activations,
        kv=kv,
        index_on=index_on,
        n_all=n_weights,
        batched_tokens=batched_tokens,
        compute_efficiency=compute_efficiency,
        bandwidth_efficiency=bandwidth_efficiency,
    )
    tokens = AnswerTokens(context - answer, answer, hit)
    money = Money(tokens, utilisation, price, load_prices(prices))
    made = estimate(wanted, source, money)
    if as_json:
        sys.stdout.write(json.dumps(made.as_dict(), indent=1) + "\n")
    else:
        _show(made, Console(soft_wrap=True))


def _show(made: Estimate, console: Console) -> None:
    console.print(f"{made.title}\n", highlight=False, markup=False)
    table = Table("what", "GiB", "how", "source", box=None, title="in this machine's memory")
    for each in made.host:
        table.add_row(each.name, _gib(each.nbytes), each.formula, each.source)
    console.print(table)
    table = Table("what", "GiB", "how", "source", box=None, title="on each GPU")
    for each in made.lines:
        table.add_row(each.name, _gib(each.nbytes), each.formula, each.source)
    console.print(table)
    table = Table("phase", "bound", "tokens/s", "compute ms", "weights ms", "KV ms", box=None)
    for name, phase in made.phases.items():
        times = (phase.compute_s, phase.weights_s, phase.kv_s)
        shown = [f"{1000 * each:.2f}" for each in times]
        table.add_row(name, phase.bound.value, f"{phase.tokens_per_s:,.0f}", *shown)
    console.print(table)
    if made.shares:
        table = Table("one GPU for", "engines", "GiB each", "weights in all, GiB", "sequences",
                      "apart by", box=None)  # fmt: skip
        for way in made.shares:
            table.add_row(way.name, str(way.n_engines), _gib(way.nbytes_each),
                          _gib(way.n_engines * way.weights_nbytes), str(way.n_fit),
                          way.apart)  # fmt: skip
        console.print(table)
    table = Table("1,000 answers", "US dollars", "how", "source", box=None)
    for cost in made.costs:
        table.add_row(cost.name, f"{cost.usd:.2f}", cost.formula, cost.source)
    console.print(table)
    console.print("start, in this order:")
    for number, step in enumerate(made.start.steps, start=1):
        console.print(f"  {number}. {step}", highlight=False, markup=False)
    for note in made.notes:
        console.print(f"note: {note}", highlight=False, markup=False)


def _gib(nbytes: int) -> str:
    return f"{nbytes / _GIB:,.2f}"
