"""A plan: every byte of a device with the sum it comes from, what fits, what bounds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipeline.errors import PlanRefused
from pipeline.plan.bounds import Load, Phase, decode, prefill
from pipeline.plan.catalog import Device
from pipeline.plan.corpus import CorpusNeeds, CorpusSize, corpus_needs
from pipeline.plan.kv import BLOCK_TOKENS, KvRow, kv_per_token, per_gpu_nbytes, sequence_nbytes
from pipeline.plan.shape import Heads, ModelShape
from pipeline.plan.weights import WEIGHT_BITS, n_weights, weight_nbytes

GIB = 1 << 30
_BIG_NBYTES = 70 * GIB
_HALF_NBYTES, _LOGIT_NBYTES = 2, 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """What shall run. context: most tokens of a sequence, `answer` of them written.

    index_on: "gpu" puts the lists of the index on the first of the GPUs too. n_all: weights,
    where they are not counted from the config. context_nbytes: of a CUDA context;
    graphs_nbytes: of the captured graphs; both assumed unless measured. batched_tokens: None
    for vLLM's default.
    """

    corpus: CorpusSize
    shape: ModelShape
    device: Device
    context: int = 4096
    answer: int = 250
    concurrency: int = 16
    n_gpus: int = 1
    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"
    index_on: Literal["cpu", "gpu"] = "cpu"
    n_all: int | None = None
    batched_tokens: int | None = None
    context_nbytes: int = GIB
    graphs_nbytes: int = GIB
    compute_efficiency: float = 0.5
    bandwidth_efficiency: float = 0.7

    @property
    def step_tokens(self) -> int:
        """Tokens of prompts that the engine reads in one step."""
        if self.batched_tokens is not None:
            return self.batched_tokens
        # vLLM 0.32, --max-num-batched-tokens of a server: by memory, A100 as a small one.
        big = self.device.nbytes >= _BIG_NBYTES and not self.device.name.startswith("a100")
        return 8192 if big else 2048


@dataclass(frozen=True, slots=True)
class Line:
    """Bytes on each GPU, and how they come about. fixed: taken whether or not anybody asks."""

    name: str
    nbytes: int
    formula: str
    source: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What there is on each GPU; with several, on the one that holds the index too.

    lines: what is taken before the first token. kv_nbytes: what is left for keys and values;
    below 0 if the lines alone do not fit. n_fit: sequences of full length at once.
    """

    wanted: Wanted
    corpus: CorpusNeeds
    lines: tuple[Line, ...]
    weights_nbytes: int
    row: KvRow
    row_nbytes: int
    sequence_nbytes: int
    kv_nbytes: int
    n_fit: int
    tokens_fit: int

    @property
    def fits(self) -> bool:
        """Whether all that is wanted at once fits."""
        return self.n_fit >= self.wanted.concurrency

    def phases(self) -> tuple[Phase, Phase]:
        """Bound prefill and decode at the wanted concurrency."""
        wanted = self.wanted
        load = Load(
            context=wanted.context,
            n_sequences=wanted.concurrency,
            batched_tokens=wanted.step_tokens,
            n_gpus=wanted.n_gpus,
            activations=wanted.activations,
            weights=wanted.weights,
            kv=wanted.kv,
            weights_nbytes=self.weights_nbytes,
            n_all=wanted.n_all,
            compute_efficiency=wanted.compute_efficiency,
            bandwidth_efficiency=wanted.bandwidth_efficiency,
        )
        return prefill(wanted.shape, wanted.device, load), decode(wanted.shape, wanted.device, load)


def make_plan(wanted: Wanted) -> Plan:
    """Work out a plan, also of what does not fit. Raises: PlanRefused if it makes no sense."""
    _refuse_nonsense(wanted)
    needs = corpus_needs(wanted.corpus)
    weights = weight_nbytes(wanted.shape, wanted.weights, wanted.n_all)
    lines = _lines(wanted, needs, weights)
    left = wanted.device.nbytes - sum(line.nbytes for line in lines)
    each = sequence_nbytes(wanted.shape, wanted.kv, wanted.context, wanted.n_gpus)
    row_nbytes = per_gpu_nbytes(wanted.shape, wanted.kv, wanted.n_gpus)
    return Plan(
        wanted=wanted,
        corpus=needs,
        lines=lines,
        weights_nbytes=weights,
        row=kv_per_token(wanted.shape, wanted.kv),
        row_nbytes=row_nbytes,
        sequence_nbytes=each,
        kv_nbytes=left,
        n_fit=max(0, left // each) if each else wanted.concurrency,
        tokens_fit=_whole_blocks(max(0, left) // row_nbytes) if row_nbytes else 0,
    )


def engine_lines(wanted: Wanted, weights_nbytes: int) -> tuple[Line, ...]:
    """Give what an engine takes on each GPU besides keys and values."""
    shape, n = wanted.shape, wanted.n_gpus
    total = wanted.n_all if wanted.n_all is not None else n_weights(shape)
    bits = WEIGHT_BITS[wanted.weights]
    held = shape.attention
    heads = held.n_heads * held.key_width if isinstance(held, Heads) else 0
    widest = 2 * shape.hidden + 2 * max(shape.feed_forward, heads) // n
    tokens = wanted.step_tokens
    peak = tokens * widest * _HALF_NBYTES + wanted.concurrency * shape.vocabulary * _LOGIT_NBYTES
    return (
        Line("weights", -(-weights_nbytes // n),
             f"{total:,} weights x {float(bits):g} bit / 8 (embeddings 16 bit) / {n} GPU",
             "params x bits / 8 + scales"),
        Line("activations", peak,
             f"{tokens} tokens x {widest} x {_HALF_NBYTES} B + {wanted.concurrency} x "
             f"{shape.vocabulary} logits x {_LOGIT_NBYTES} B",
             "inferred: the widest layer of one step; vLLM measures its own peak"),
        Line("CUDA graphs", wanted.graphs_nbytes, "1 GiB; vLLM logs what it estimates",
             "assumed; see VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"),
        Line("CUDA context of the engine", wanted.context_nbytes, "1 GiB a process",
             "assumed: 1 to 2 GiB for all processes of a GPU"),
    )  # fmt: skip


def _lines(wanted: Wanted, needs: CorpusNeeds, weights_nbytes: int) -> tuple[Line, ...]:
    ours: tuple[Line, ...] = ()
    if wanted.index_on == "gpu":
        size = wanted.corpus
        ours = (
            Line("index", needs.on_device,
                 f"{size.n_passages:,} rows x ({size.width} x 2 B + 8 B), lists in blocks of 32, "
                 "centroids, scratch of a search",
                 "retrieval/lists/device.py: needed_nbytes"),
            Line("CUDA context of the index", wanted.context_nbytes, "1 GiB a process",
                 "assumed: 1 to 2 GiB for all processes of a GPU"),
        )  # fmt: skip
    return ours + engine_lines(wanted, weights_nbytes)


def _whole_blocks(tokens: int) -> int:
    return tokens // BLOCK_TOKENS * BLOCK_TOKENS


def _refuse_nonsense(wanted: Wanted) -> None:
    shape, device = wanted.shape, wanted.device
    if wanted.n_gpus > 1 and device.slice_of:
        raise PlanRefused(
            f"{wanted.n_gpus} slices of {device.name} can't share a model: slices have no "
            "connection between them; take whole GPUs or one slice"
        )
    if wanted.n_gpus < 1 or shape.attention.n_heads % wanted.n_gpus:
        raise PlanRefused(
            f"{shape.attention.n_heads} heads of {shape.name} can't be divided among "
            f"{wanted.n_gpus} GPUs"
        )
    if wanted.activations not in ("bf16", "fp16") and wanted.activations not in device.rates:
        raise PlanRefused(
            f"{device.title} does no arithmetic in {wanted.activations}; it does 16 bit, "
            + ", ".join(sorted(set(device.rates) - {"half"}))
        )
    if shape.most_tokens and wanted.context > shape.most_tokens:
        raise PlanRefused(
            f"a context of {wanted.context} tokens; {shape.name} takes {shape.most_tokens}"
        )
    if not 0 < wanted.answer < wanted.context:
        raise PlanRefused(
            f"answers of {wanted.answer} tokens do not fit a context of {wanted.context}"
        )
