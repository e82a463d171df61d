"""How many weights a model has, and how many bytes they take in each precision."""

from __future__ import annotations

from fractions import Fraction

from pipeline.errors import PlanRefused
from pipeline.plan.shape import Heads, Latent, ModelShape

WEIGHT_BITS = {
    "fp32": Fraction(32),
    "bf16": Fraction(16),
    "fp16": Fraction(16),
    "fp8": Fraction(8),
    "int8": Fraction(8),
    # 4 bits; a 16-bit scale and a 4-bit zero point for each group of 128.
    "int4": 4 + Fraction(16 + 4, 128),
    # 4 bits; an 8-bit scale for each group of 16.
    "nvfp4": 4 + Fraction(8, 16),
}
"""Bits of a weight, scales included. Embeddings and norms stay at 16.
Source: AWQ (Lin et al., 2023) with groups of 128; NVIDIA, NVFP4 format, groups of 16."""

_PLAIN_BITS = 16


def n_weights(shape: ModelShape) -> int:
    """Count all weights, tied embeddings once, every expert.

    Raises: PlanRefused for a model type whose layers are not known here.
    """
    return _counted(shape, None)


def n_active(shape: ModelShape) -> int:
    """Count the weights that one token passes, embeddings looked up not among them."""
    chosen = None if shape.experts is None else shape.experts.n_chosen
    embedded = 0 if shape.tied else shape.vocabulary * shape.hidden
    return _counted(shape, chosen) - embedded


def n_read(shape: ModelShape, n_sequences: int) -> int:
    """Count the weights that a step over so many sequences reads, by expectation.

    Each of b tokens chooses k of E experts: E (1 - (1 - k/E)^b) of them are read.
    """
    experts = shape.experts
    if experts is None or not experts.n_routed:
        return n_active(shape)
    missed = (1 - experts.n_chosen / experts.n_routed) ** n_sequences
    n_touched = max(experts.n_chosen, round(experts.n_routed * (1 - missed)))
    embedded = 0 if shape.tied else shape.vocabulary * shape.hidden
    return _counted(shape, n_touched) - embedded


def weight_nbytes(shape: ModelShape, precision: str, n_all: int | None = None) -> int:
    """Give the bytes of all weights on all GPUs together.

    Quantised precisions hold the layers; embeddings, head and norms stay at 16 bits.
    Args: n_all: the number of weights where it is known from elsewhere.
    Source: params x bits / 8 + scales (vLLM, Quantization).
    """
    bits = WEIGHT_BITS[precision]
    total = n_all if n_all is not None else n_weights(shape)
    if bits >= _PLAIN_BITS:
        return int(total * bits / 8)
    plain = (1 if shape.tied else 2) * shape.vocabulary * shape.hidden
    layers = max(0, total - plain)
    return -int(-(layers * bits + (total - layers) * _PLAIN_BITS) // 8)


def _counted(shape: ModelShape, n_experts: int | None) -> int:
    if not shape.counted:
        raise PlanRefused(
            f"the weights of {shape.name} (model_type {shape.kind or 'not said'}) can't be counted "
            "from its config: give their number with --n-weights"
        )
    ends = (1 if shape.tied else 2) * shape.vocabulary * shape.hidden + shape.hidden
    layers = shape.n_layers * (_attention(shape) + 2 * shape.hidden)
    return ends + layers + _feed_forward(shape, n_experts)


def _attention(shape: ModelShape) -> int:
    held, hidden = shape.attention, shape.hidden
    if isinstance(held, Latent):
        query = held.n_heads * (held.plain + held.rotary)
        if held.query_latent:
            queries = hidden * held.query_latent + held.query_latent + held.query_latent * query
        else:
            queries = hidden * query
        down = hidden * (held.latent + held.rotary) + held.latent
        up = held.latent * held.n_heads * (held.plain + held.value_width)
        return queries + down + up + held.n_heads * held.value_width * hidden
    return _heads(shape, held)


def _heads(shape: ModelShape, held: Heads) -> int:
    made = held.n_heads * held.key_width + held.n_kv * (held.key_width + held.value_width)
    out = held.n_heads * held.value_width * shape.hidden
    norms = 2 * held.key_width if shape.normed_heads else 0
    return shape.hidden * made + out + norms + (made if shape.biases else 0)


def _feed_forward(shape: ModelShape, n_experts: int | None) -> int:
    """Count gated layers: three matrices each. n_experts: of each layer; None for all."""
    experts = shape.experts
    if experts is None:
        return shape.n_layers * 3 * shape.hidden * shape.feed_forward
    n_routed = experts.n_routed if n_experts is None else n_experts
    one = 3 * shape.hidden * experts.width
    router = shape.hidden * experts.n_routed + (experts.n_routed if experts.corrected else 0)
    mixed = (shape.n_layers - experts.n_dense) * ((n_routed + experts.n_shared) * one + router)
    return mixed + experts.n_dense * 3 * shape.hidden * shape.feed_forward
