"""Bytes of keys, values and weights, against figures worked out and published elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import PlanRefused
from pipeline.plan.catalog import find_model
from pipeline.plan.kv import kv_per_token, per_gpu_nbytes, sequence_nbytes
from pipeline.plan.shape import ModelShape, read_shape
from pipeline.plan.weights import n_active, n_read, n_weights, weight_nbytes

# Worked values of the project's facts on engines, section 7 (keys and values in bf16).
WORKED = {
    "llama-3.1-8b": 131_072,
    "llama-3.1-70b": 327_680,
    "qwen2.5-7b": 57_344,
    "qwen3-32b": 262_144,
    "deepseek-v3": 70_272,
}
# What the model cards' safetensors say in all.
PUBLISHED = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-32b": 32_762_123_264,
}

SMALL = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "intermediate_size": 128,
    "vocab_size": 100,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
}


def shape(**changes: object) -> ModelShape:
    return read_shape("small", {**SMALL, **changes})


@pytest.mark.parametrize("name", WORKED)
def test_bytes_per_token_are_the_worked_values(name: str) -> None:
    assert kv_per_token(find_model(name)[0]).nbytes == WORKED[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_are_as_many_as_published(name: str) -> None:
    found, _ = find_model(name)

    assert n_weights(found) == PUBLISHED[name]
    assert weight_nbytes(found, "bf16") == 2 * PUBLISHED[name]


def test_of_many_experts_all_are_held_and_few_are_passed() -> None:
    found, _ = find_model("deepseek-v3")

    assert n_weights(found) == pytest.approx(671e9, rel=1e-3)
    # The report says 37 billion with the embeddings that are looked up.
    assert n_active(found) + found.vocabulary * found.hidden == pytest.approx(37.5e9, rel=0.02)
    assert n_read(found, 1) == n_active(found)
    assert n_active(found) < n_read(found, 64) < n_weights(found)


@pytest.mark.parametrize(
    ("precision", "nbytes"), [("bf16", 131_072), ("fp8", 65_536), ("nvfp4", 36_864)]
)
def test_narrower_keys_and_values_take_less(precision: str, nbytes: int) -> None:
    assert kv_per_token(find_model("llama-3.1-8b")[0], precision).nbytes == nbytes


def test_the_packed_latent_has_its_own_row_and_is_for_latents_only() -> None:
    assert kv_per_token(find_model("deepseek-v3")[0], "fp8_ds_mla").nbytes == 61 * 656
    with pytest.raises(PlanRefused, match="has heads"):
        kv_per_token(shape(), "fp8_ds_mla")


@pytest.mark.parametrize(("n_gpus", "share"), [(1, 1), (2, 2), (8, 8), (16, 8)])
def test_heads_are_divided_until_each_gpu_has_one(n_gpus: int, share: int) -> None:
    found, _ = find_model("llama-3.1-70b")

    assert per_gpu_nbytes(found, "bf16", n_gpus) == 327_680 // share


def test_a_latent_is_on_every_gpu() -> None:
    assert per_gpu_nbytes(find_model("deepseek-v3")[0], "bf16", 8) == 70_272


def test_a_sequence_takes_whole_blocks() -> None:
    row = kv_per_token(shape()).nbytes

    assert sequence_nbytes(shape(), "bf16", 1) == 16 * row
    assert sequence_nbytes(shape(), "bf16", 17) == 32 * row


def test_layers_with_a_window_stop_growing_and_those_with_a_state_keep_no_tokens() -> None:
    kinds = ["full_attention", "sliding_attention", "sliding_attention", "linear_attention"]
    mixed = shape(layer_types=kinds, sliding_window=64)
    one = kv_per_token(shape()).nbytes // 4

    assert kv_per_token(mixed).nbytes == one
    assert sequence_nbytes(mixed, "bf16", 640) == 640 * one + 64 * 2 * one


def test_a_window_that_is_named_and_not_used_is_none() -> None:
    unused = shape(model_type="qwen2", sliding_window=64, use_sliding_window=False)
    used = shape(model_type="mistral", sliding_window=64)

    assert (unused.n_windowed, used.n_windowed) == (0, 4)


def test_keys_and_values_may_differ_in_width() -> None:
    assert kv_per_token(shape(head_dim=8, v_head_dim=4)).nbytes == 4 * 2 * (8 + 4) * 2


def test_tied_embeddings_are_counted_once() -> None:
    assert n_weights(shape()) - n_weights(shape(tie_word_embeddings=True)) == 100 * 64


def test_quantised_layers_leave_embeddings_at_16_bits() -> None:
    total, plain = n_weights(shape()), 2 * 100 * 64

    assert weight_nbytes(shape(), "fp8") == total - plain + 2 * plain
    # 4 bits, a scale of 16 and a zero point of 4 for each 128: 3.9 % more than bare 4 bits.
    assert weight_nbytes(shape(), "int4") == pytest.approx(
        (total - plain) / 2 * (1 + 20 / 128 / 4) + 2 * plain, abs=1
    )


def test_a_config_of_one_s_own_is_read_also_when_nested(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"text_config": SMALL, "hidden_size": 1}))

    by_folder, _ = find_model(str(tmp_path))
    by_file, source = find_model(str(tmp_path / "config.json"))

    assert by_folder == by_file
    assert by_file.hidden == 64
    assert source.endswith("config.json")


def test_an_unknown_kind_of_model_has_keys_and_values_but_no_counted_weights() -> None:
    unknown = shape(model_type="gpt_oss")

    assert kv_per_token(unknown).nbytes == kv_per_token(shape()).nbytes
    with pytest.raises(PlanRefused, match="--n-weights"):
        n_weights(unknown)
    assert weight_nbytes(unknown, "bf16", 1000) == 2000


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"hidden_size": "64"}, "hidden_size"),
        ({"vocab_size": True}, "vocab_size"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
    ],
)
def test_a_config_that_lacks_a_number_is_refused_by_its_name(
    changes: dict[str, object], named: str
) -> None:
    with pytest.raises(PlanRefused, match=named):
        shape(**changes)


def test_what_is_no_model_is_told_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(PlanRefused, match="qwen3-32b"):
        find_model("no-such")
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(PlanRefused, match="no JSON object"):
        find_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(PlanRefused, match="can't be read"):
        find_model(str(tmp_path))
