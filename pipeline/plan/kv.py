"""What attention keeps of each token, and how many sequences fit into some bytes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pipeline.errors import PlanRefused
from pipeline.plan.shape import Latent, ModelShape

KV_BITS = {
    "bf16": Fraction(16),
    "fp16": Fraction(16),
    "fp8": Fraction(8),
    # 4 bits; an 8-bit scale for each group of 16.
    "nvfp4": 4 + Fraction(8, 16),
}
"""Bits of a kept value, scales included. Source: vLLM, --kv-cache-dtype."""

PACKED_LATENT = "fp8_ds_mla"
_PACKED_NBYTES = 656  # of a token in a layer, in vLLM's own layout for DeepSeek's latents
BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class KvRow:
    """What one token leaves behind. nbytes: in all layers, on all GPUs. formula: how."""

    nbytes: int
    formula: str


def kv_per_token(shape: ModelShape, precision: str = "bf16") -> KvRow:
    """Give the bytes that a token leaves in the layers that keep every token.

    GQA: L x n_kv x (d_k + d_v) x b, which is 2 x L x n_kv x d x b where both are d. Latent:
    L x (latent + rotary) x b.
    Source: vLLM, kv_cache_interface (page sizes); DeepSeek-V2 report, section 2.1.4.
    """
    n_full = shape.n_layers - shape.n_windowed - shape.n_stateful
    return _rows(shape, precision, n_full)


def kv_of_window(shape: ModelShape, precision: str = "bf16") -> KvRow:
    """Give the bytes that a token leaves in the layers that forget what is behind a window."""
    return _rows(shape, precision, shape.n_windowed)


def per_gpu_nbytes(shape: ModelShape, precision: str, n_gpus: int) -> int:
    """Give the bytes a token leaves on each of some GPUs with tensor parallelism.

    Heads are divided as long as each GPU gets one, then repeated; a latent is on every GPU.
    """
    row = kv_per_token(shape, precision)
    return _on_each(shape, row.nbytes, n_gpus)


def sequence_nbytes(shape: ModelShape, precision: str, tokens: int, n_gpus: int = 1) -> int:
    """Give the bytes of one sequence on each GPU, in whole blocks of 16 tokens."""
    whole = -(-tokens // BLOCK_TOKENS) * BLOCK_TOKENS
    kept = kv_per_token(shape, precision).nbytes * whole
    if shape.n_windowed:
        within = min(whole, -(-shape.window // BLOCK_TOKENS) * BLOCK_TOKENS)
        kept += kv_of_window(shape, precision).nbytes * within
    return _on_each(shape, kept, n_gpus)


def _on_each(shape: ModelShape, nbytes: int, n_gpus: int) -> int:
    held = shape.attention
    if isinstance(held, Latent):
        return nbytes
    # max(1, n_kv / TP) of n_kv heads.
    return -(-nbytes // min(n_gpus, held.n_kv))


def _rows(shape: ModelShape, precision: str, n_layers: int) -> KvRow:
    held = shape.attention
    if precision == PACKED_LATENT:
        if not isinstance(held, Latent):
            raise PlanRefused(f"{PACKED_LATENT} is for latent attention; {shape.name} has heads")
        return KvRow(n_layers * _PACKED_NBYTES, f"{n_layers} x {_PACKED_NBYTES}")
    b = KV_BITS[precision] / 8
    shown = f"{float(b):g} B"
    if isinstance(held, Latent):
        n_values = n_layers * (held.latent + held.rotary)
        formula = f"{n_layers} layers x ({held.latent} + {held.rotary}) x {shown}"
    else:
        n_values = n_layers * held.n_kv * (held.key_width + held.value_width)
        widths = (
            f"2 x {n_layers} layers x {held.n_kv} heads x {held.key_width}"
            if held.key_width == held.value_width
            else f"{n_layers} layers x {held.n_kv} heads x ({held.key_width} + {held.value_width})"
        )
        formula = f"{widths} x {shown}"
    return KvRow(-int(-(n_values * b) // 1), formula)
