"""What fits a device, what would make it fit, what bounds it, and what it costs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli import app
from pipeline.errors import PlanRefused
from pipeline.plan.bounds import Bound, compute_rate
from pipeline.plan.catalog import devices, find_device, find_model, load_prices
from pipeline.plan.corpus import CorpusSize, corpus_needs
from pipeline.plan.cost import AnswerTokens, api_costs, own_cost
from pipeline.plan.flags import start_beside
from pipeline.plan.make import GIB, Plan, Wanted, make_plan
from pipeline.plan.remedies import refuse_misfit, remedies
from pipeline.plan.shares import shares
from retrieval.lists.device import needed_nbytes


def wanted(model: str = "llama-3.1-8b", device: str = "h100", **changes: Any) -> Wanted:
    made = Wanted(CorpusSize(1_000_000), find_model(model)[0], find_device(device))
    return replace(made, **changes)


def taken(plan: Plan) -> dict[str, int]:
    return {line.name: line.nbytes for line in plan.lines}


def test_every_byte_of_the_device_is_in_a_line_or_left_for_keys_and_values() -> None:
    plan = make_plan(wanted(index_on="gpu"))

    assert sum(taken(plan).values()) + plan.kv_nbytes == find_device("h100").nbytes
    assert taken(plan)["weights"] == 16_060_522_496
    assert taken(plan)["index"] == needed_nbytes(1_000_000, 384, 100)
    assert plan.sequence_nbytes == 4096 * 131_072
    assert plan.n_fit == plan.kv_nbytes // plan.sequence_nbytes == 120


def test_a_small_index_is_not_on_the_device_at_all() -> None:
    assert corpus_needs(CorpusSize(49_999)).on_device == 0
    assert corpus_needs(CorpusSize(100_000, n_tenants=4)).on_device == 0


def test_many_tenants_pay_for_vocabularies_of_their_own() -> None:
    one, many = corpus_needs(CorpusSize(100_000)), corpus_needs(CorpusSize(100_000, n_tenants=50))

    assert many.sizes.lexical > one.sizes.lexical
    assert many.sizes.rows == one.sizes.rows
    assert one.sizes.codes == 100_000 * (384 + 4) + 100 * 4


def test_what_does_not_fit_is_refused_with_numbers_and_what_would_help() -> None:
    plan = make_plan(wanted("llama-3.1-70b"))

    with pytest.raises(PlanRefused) as refused:
        refuse_misfit(plan)
    said = str(refused.value)
    missing = 16 * plan.sequence_nbytes - plan.kv_nbytes
    assert f"{missing / GIB:.2f} GiB are missing" in said
    assert "weights in int4" in said
    assert "2 GPUs" in said


@pytest.mark.parametrize(
    ("model", "device", "concurrency"),
    [("llama-3.1-70b", "h100", 16), ("qwen2.5-7b", "t4", 4), ("llama-3.1-8b", "l40s", 200)],
)
def test_each_number_of_sequences_told_fits_and_one_more_does_not(
    model: str, device: str, concurrency: int
) -> None:
    asked = wanted(model, device, concurrency=concurrency)
    told = remedies(asked)

    assert told
    for said in told:
        if found := re.fullmatch(r"(\d+) at once", said):
            assert make_plan(replace(asked, concurrency=int(found[1]))).fits
            assert not make_plan(replace(asked, concurrency=int(found[1]) + 1)).fits
        if found := re.fullmatch(r"a context of (\d+) tokens", said):
            assert make_plan(replace(asked, context=int(found[1]))).fits
        if found := re.fullmatch(r"(\d+) GPUs", said):
            assert make_plan(replace(asked, n_gpus=int(found[1]))).fits


def test_as_many_sequences_as_fit_are_not_refused_and_one_more_is() -> None:
    most = make_plan(wanted()).n_fit
    full = make_plan(wanted(concurrency=most))

    assert full.fits
    refuse_misfit(full)  # would raise PlanRefused
    with pytest.raises(PlanRefused, match=f"{most} sequences fit"):
        refuse_misfit(make_plan(wanted(concurrency=most + 1)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n_gpus": 3}, "32 heads"),
        ({"context": 200_000}, "takes 131072"),
        ({"answer": 4096}, "do not fit a context"),
        ({"device": "a100", "activations": "fp8"}, "no arithmetic in fp8"),
        ({"device": "h100:3g", "n_gpus": 2}, "no connection"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanRefused, match=said):
        make_plan(wanted(**changes))


def test_prompts_are_bound_by_arithmetic_and_answers_by_what_is_read() -> None:
    few = make_plan(wanted(concurrency=1)).phases()
    many = make_plan(wanted(concurrency=100)).phases()

    assert few[0].bound is Bound.COMPUTE
    assert few[1].bound is Bound.BANDWIDTH
    assert many[1].bound is Bound.KV
    assert many[1].tokens_per_s > few[1].tokens_per_s
    # One sequence reads all weights but the embeddings for a token: 15.0 GB at 0.7 x 3.35 TB/s.
    assert few[1].weights_s == pytest.approx(7_504_924_672 * 2 / (0.7 * 3.35e12), rel=1e-6)
    short = make_plan(wanted(device="t4", concurrency=2000, context=64, answer=8))
    assert short.phases()[1].bound is Bound.COMPUTE


def test_quantised_weights_are_read_faster_and_multiplied_no_faster() -> None:
    plain, small = make_plan(wanted()).phases(), make_plan(wanted(weights="int4")).phases()

    assert small[1].weights_s < plain[1].weights_s / 2.5
    assert small[0].compute_s == plain[0].compute_s
    both = make_plan(wanted(weights="fp8", activations="fp8")).phases()
    assert both[0].compute_s == pytest.approx(plain[0].compute_s / 2, rel=1e-3)
    assert compute_rate(find_device("h100"), "bf16", "fp8") == 989.4e12


def test_the_engine_gets_a_fixed_number_of_bytes_after_the_index_is_there() -> None:
    plan = make_plan(wanted(index_on="gpu", kv="fp8", weights="fp8"))
    start = start_beside(plan)

    assert start.kv_nbytes == 16 * 4096 * 65_536 <= plan.kv_nbytes
    assert f"OSTIARY_RETRIEVAL__GPU_NBYTES={taken(plan)['index']}" in start.steps[0]
    assert f"--kv-cache-memory-bytes {start.kv_nbytes}" in start.steps[1]
    assert "--kv-cache-dtype fp8" in start.steps[1]
    share = re.search(r"--gpu-memory-utilization ([0-9.]+)", start.steps[1])
    assert share is not None
    # vLLM does not start if less than its share of the whole device is free.
    beside = taken(plan)["index"] + taken(plan)["CUDA context of the index"]
    assert float(share[1]) * plan.wanted.device.nbytes < plan.wanted.device.nbytes - beside
    alone = start_beside(make_plan(wanted(n_gpus=2)))
    assert len(alone.steps) == 1
    assert "--tensor-parallel-size 2" in alone.steps[0]


def test_each_slice_and_each_process_pays_for_weights_again() -> None:
    found = {each.name: each for each in shares(wanted(), find_device("h100"))}
    whole, half = found["passthrough"], found["MIG 3g.40gb"]

    assert whole.weights_nbytes == half.weights_nbytes == 16_060_522_496
    assert 2 * half.nbytes_each <= find_device("h100").nbytes
    assert half.n_fit < whole.n_fit
    assert found["MIG 1g.10gb"].n_fit == 0
    assert found["time-slicing, 4"].n_fit < whole.n_fit


def test_slices_take_their_part_of_a_board() -> None:
    for each in devices():
        if each.slice_of:
            board = find_device(each.slice_of)
            assert each.most * each.nbytes <= board.nbytes
            assert each.most * each.bytes_per_s <= board.bytes_per_s
            assert each.most * each.rates["half"] <= board.rates["half"]
    assert find_device("a100:1g").nbytes // 2**20 == pytest.approx(9856, rel=1e-3)


def test_cost_is_time_of_prompt_and_answer_over_utilisation() -> None:
    tokens = AnswerTokens(4000, 250, 0.5)
    own = own_cost(
        tokens, usd_per_hour=3.6, n_gpus=2, prefill_per_s=20_000, decode_per_s=2_500,
        utilisation=0.5, source="",
    )  # fmt: skip

    # (2000/20000 + 250/2500) s x 2 GPUs x $0.001 a second / 0.5, a thousand times.
    assert own.usd == pytest.approx(0.8)
    one = next(each for each in api_costs(tokens, load_prices().apis) if "Opus" in each.name)
    assert one.usd == pytest.approx(1000 * (2000 * 5 + 2000 * 0.5 + 250 * 25) / 1e6)


def test_prices_may_be_one_s_own_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "mine.toml"
    table.write_text('dated = "2027-01-01"\n[[gpu]]\nname = "h100"\nusd_per_hour = 1\n')
    assert load_prices(table).gpu_hours == {"h100": (1.0, str(table))}
    for wrong in (
        "[[gpu]]\nname = 'h100'",
        "[[api]]\nname='a'\ninput=-1\noutput=1",
        "gpu = 1",
        "[",
    ):
        table.write_text(wrong)
        with pytest.raises(PlanRefused):
            load_prices(table)


def test_the_command_says_what_fits_as_json_and_in_words() -> None:
    asked = ["plan", "--passages", "1000000", "--model", "qwen3-32b", "--device", "h200"]
    told = CliRunner().invoke(app, [*asked, "--json"])
    said = CliRunner().invoke(app, asked)

    found = json.loads(told.stdout)
    assert found["kv_bytes_per_token"] == 262_144
    assert found["sequences_at_once"] >= 16
    assert {each["name"] for each in found["gpu"]} >= {"weights", "KV", "left"}
    assert {"prefill", "decode"} == set(found["phases"])
    assert "--kv-cache-memory-bytes" in said.stdout


def test_the_command_refuses_what_can_not_fit() -> None:
    asked = ["plan", "--passages", "1", "--model", "llama-3.1-70b", "--device", "t4"]
    refused = CliRunner().invoke(app, asked)

    assert isinstance(refused.exception, PlanRefused)
