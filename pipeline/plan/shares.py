"""One GPU among several engines: whole, in slices, or in turns; what each pays for weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.plan.catalog import Device, devices
from pipeline.plan.kv import sequence_nbytes
from pipeline.plan.make import Wanted, engine_lines
from pipeline.plan.weights import weight_nbytes

_TURNS = (2, 4)


@dataclass(frozen=True, slots=True)
class Share:
    """A way to divide a GPU. fixed: bytes that each engine takes before the first token.

    n_fit: sequences at once, of all engines together. apart: what separates the engines.
    """

    name: str
    n_engines: int
    nbytes_each: int
    weights_nbytes: int
    fixed: int
    n_fit: int
    apart: str


def shares(wanted: Wanted, whole: Device) -> tuple[Share, ...]:
    """Compare the ways, with the same model in each engine and no index on the GPU.

    Weights are paid once in each slice and by each process.
    Source: NVIDIA MIG User Guide; NVIDIA, Time-Slicing GPUs in Kubernetes.
    """
    found = [_share("passthrough", wanted, whole, 1, whole.nbytes, "one engine has the GPU alone")]
    for each in devices():
        if each.slice_of == whole.name and each.most > 1:
            title = f"MIG {each.title.partition(' ')[0]}"
            apart = "memory, caches and faults"
            found.append(_share(title, wanted, each, each.most, each.nbytes, apart))
    for n in _TURNS:
        apart = "nothing: no memory cap, one engine can starve or fell all"
        found.append(_share(f"time-slicing, {n}", wanted, whole, n, whole.nbytes // n, apart))
    return tuple(found)


def _share(name: str, wanted: Wanted, device: Device, n: int, nbytes: int, apart: str) -> Share:
    alone = replace(wanted, device=device, index_on="cpu", n_gpus=1)
    weights = weight_nbytes(wanted.shape, wanted.weights, wanted.n_all)
    fixed = sum(line.nbytes for line in engine_lines(alone, weights))
    each = sequence_nbytes(wanted.shape, wanted.kv, wanted.context)
    n_fit = max(0, nbytes - fixed) // each if each else 0
    return Share(name, n, nbytes, weights, fixed, n * n_fit, apart)
