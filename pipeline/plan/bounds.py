"""Which resource holds prefill and decode back, and the tokens a second that are left."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pipeline.plan.catalog import Device
from pipeline.plan.kv import sequence_nbytes
from pipeline.plan.shape import Heads, ModelShape
from pipeline.plan.weights import n_active, n_read, n_weights

_TENSOR_RATE = {"fp8": "fp8", "int8": "int8"}


class Bound(StrEnum):
    """What a phase waits for: arithmetic, reading weights, or reading keys and values."""

    COMPUTE = "compute"
    BANDWIDTH = "bandwidth"
    KV = "kv"


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase on all GPUs. tokens_per_s: aggregate. compute_s, weights_s, kv_s: of one step."""

    bound: Bound
    tokens_per_s: float
    compute_s: float
    weights_s: float
    kv_s: float


@dataclass(frozen=True, slots=True)
class Load:
    """What runs at once. efficiency: share of the peak that kernels reach."""

    context: int
    n_sequences: int
    batched_tokens: int
    n_gpus: int
    activations: str
    weights: str
    kv: str
    weights_nbytes: int
    n_all: int | None
    compute_efficiency: float
    bandwidth_efficiency: float


def prefill(shape: ModelShape, device: Device, load: Load) -> Phase:
    """Bound the reading of prompts, a step of batched_tokens at a time.

    Arithmetic: 2 x active weights a token, and 4 x L x n_heads x d x c/2 for attention over a
    context that grows to c. Weights are read once a step.
    Source: A. Chowdhery et al., PaLM, 2022, appendix B; S. Williams et al., Roofline, 2009.
    """
    tokens = load.batched_tokens
    work = tokens * (_work_of_weights(shape, load) + _attention(shape, load.context / 2))
    return _phase(shape, device, load, tokens, work, tokens, 0)


def decode(shape: ModelShape, device: Device, load: Load) -> Phase:
    """Bound the writing of answers, a token for each sequence at a time.

    A step reads the weights once and the kept keys and values of every sequence.
    Source: R. Pope et al., Efficiently Scaling Transformer Inference, 2022, section 2.1.
    """
    n = load.n_sequences
    work = n * (_work_of_weights(shape, load) + _attention(shape, load.context))
    kept = n * sequence_nbytes(shape, load.kv, load.context, load.n_gpus)
    return _phase(shape, device, load, n, work, n, kept)


def _phase(
    shape: ModelShape, device: Device, load: Load, tokens: int, work: float, n_seen: int, kept: int
) -> Phase:
    rate = compute_rate(device, load.weights, load.activations) * load.compute_efficiency
    bandwidth = device.bytes_per_s * load.bandwidth_efficiency
    compute_s = work / (rate * load.n_gpus)
    share = _read_share(shape, load, n_seen)
    weights_s = load.weights_nbytes * share / (bandwidth * load.n_gpus)
    # What a GPU keeps it reads itself: kept is per GPU.
    kv_s = kept / bandwidth
    if compute_s >= weights_s + kv_s:
        bound = Bound.COMPUTE
    else:
        bound = Bound.KV if kv_s > weights_s else Bound.BANDWIDTH
    step_s = max(compute_s, weights_s + kv_s)
    return Phase(bound, tokens / step_s, compute_s, weights_s, kv_s)


def compute_rate(device: Device, weights: str, activations: str) -> float:
    """Give the peak operations a second that weights and activations of these kinds reach.

    Only where both are of the fast kind do its tensor cores serve; quantised weights under
    16-bit activations are unpacked and multiplied at 16 bits.
    """
    fast = _TENSOR_RATE.get(activations)
    if fast and weights == activations and fast in device.rates:
        return device.rates[fast]
    return device.rates["half"]


def _work_of_weights(shape: ModelShape, load: Load) -> float:
    active = load.n_all if load.n_all is not None else n_active(shape)
    return 2.0 * active


def _attention(shape: ModelShape, context: float) -> float:
    held = shape.attention
    n_full = shape.n_layers - shape.n_windowed - shape.n_stateful
    if isinstance(held, Heads):
        per_token = 2.0 * held.n_heads * (held.key_width + held.value_width)
    else:
        # Absorbed form: every head meets the latent and the rotary key, then the latent.
        per_token = 2.0 * held.n_heads * (2 * held.latent + held.rotary)
    return per_token * (n_full * context + shape.n_windowed * min(context, shape.window))


def _read_share(shape: ModelShape, load: Load, n_seen: int) -> float:
    if load.n_all is not None:
        return 1.0
    return min(1.0, n_read(shape, n_seen) / n_weights(shape))
