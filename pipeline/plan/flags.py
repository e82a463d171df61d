"""How to start an engine beside us on a GPU, so that neither takes the other's bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.plan.make import Plan

_QUANTISED = {"fp8": "fp8", "int8": "compressed-tensors", "int4": "awq", "nvfp4": "modelopt_fp4"}


@dataclass(frozen=True, slots=True)
class Start:
    """What to run, in this order. kv_nbytes: bytes of keys and values on each GPU."""

    steps: tuple[str, ...]
    kv_nbytes: int


def start_beside(plan: Plan) -> Start:
    """Give the order of start and vLLM's flags, with a fixed number of bytes for its KV.

    The engine gets what the wanted sequences need, not all that is left: what it does not get
    is the margin for what was assumed. vLLM refuses to start if less is free than its share of
    the whole device, and bills itself for whatever others take while it loads: so the index is
    on the GPU, and quiet, before it starts, and engines start one after the other.
    Source: vLLM 0.32, worker memory profiling; --kv-cache-memory-bytes.
    """
    wanted = plan.wanted
    kv_nbytes = wanted.concurrency * plan.sequence_nbytes
    index = [line for line in plan.lines if "index" in line.name]
    beside = sum(line.nbytes for line in index)
    free_share = (wanted.device.nbytes - beside) / wanted.device.nbytes
    flags = [
        f"--kv-cache-memory-bytes {kv_nbytes}",
        f"--gpu-memory-utilization {math.floor(free_share * 97) / 100:g}",
        f"--max-model-len {wanted.context}",
        f"--max-num-seqs {wanted.concurrency}",
        f"--max-num-batched-tokens {wanted.step_tokens}",
    ]
    if wanted.kv not in ("bf16", "fp16"):
        flags.append(f"--kv-cache-dtype {wanted.kv}")
    if wanted.weights in _QUANTISED:
        flags.append(f"--quantization {_QUANTISED[wanted.weights]}")
    if wanted.n_gpus > 1:
        flags.append(f"--tensor-parallel-size {wanted.n_gpus}")
    steps = []
    if index:
        on_index = next(line for line in index if line.name == "index")
        steps.append(
            f"OSTIARY_RETRIEVAL__GPU=0 OSTIARY_RETRIEVAL__GPU_NBYTES={on_index.nbytes} "
            "ostiary serve; wait until its log says nothing more of indexes and nvidia-smi is still"
        )
    steps.append(f"vllm serve MODEL {' '.join(flags)}; one engine at a time on a GPU")
    return Start(tuple(steps), kv_nbytes)
