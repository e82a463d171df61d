"""What a language model is made of, read from its config.json, as far as memory depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.errors import PlanRefused

_KNOWN = (
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "deepseek_v2",
    "deepseek_v3",
)
"""Model types whose weights are counted; of others only what attention keeps is known."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention with keys and values for each of n_kv heads (MHA, GQA, MQA). Widths: columns."""

    n_heads: int
    n_kv: int
    key_width: int
    value_width: int


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: one latent and one rotary key per token, no values.

    query_latent: 0 where queries are not compressed.
    Source: DeepSeek-AI, DeepSeek-V2 technical report, 2024, section 2.1.
    """

    n_heads: int
    latent: int
    rotary: int
    plain: int
    value_width: int
    query_latent: int


@dataclass(frozen=True, slots=True)
class Experts:
    """Feed-forward layers of which a token passes n_chosen, and all shared ones.

    n_dense: how many of the first layers are ordinary instead. corrected: a bias per expert.
    """

    n_routed: int
    n_shared: int
    n_chosen: int
    width: int
    n_dense: int
    corrected: bool


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The numbers of one model.

    n_layers: all. n_windowed: layers whose keys and values end at `window` tokens. n_stateful:
    layers that keep a constant state instead (Mamba, linear attention). biases: of the layers
    of queries, keys and values. normed_heads: queries and keys are normalised per head.
    counted: whether the weights follow from the numbers.
    """

    name: str
    kind: str
    n_layers: int
    hidden: int
    feed_forward: int
    vocabulary: int
    tied: bool
    attention: Heads | Latent
    experts: Experts | None
    biases: bool
    normed_heads: bool
    n_windowed: int
    window: int
    n_stateful: int
    most_tokens: int

    @property
    def counted(self) -> bool:
        """Whether the weights follow from these numbers."""
        return self.kind in _KNOWN


def read_shape(name: str, config: Mapping[str, object]) -> ModelShape:
    """Read a model's numbers. config: as in a Hugging Face config.json.

    Raises: PlanRefused naming the field that is missing or no number.
    """
    nested = config.get("text_config")
    held: Mapping[str, object] = {**nested} if isinstance(nested, Mapping) else config
    number = _Numbers(name, held)
    kind = str(held.get("model_type", ""))
    n_layers = number("num_hidden_layers")
    n_windowed, n_stateful = _layers(held, n_layers, kind)
    return ModelShape(
        name=name,
        kind=kind,
        n_layers=n_layers,
        hidden=number("hidden_size"),
        feed_forward=number("intermediate_size", 0),
        vocabulary=number("vocab_size"),
        tied=bool(held.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        attention=_attention(number, held),
        experts=_experts(number, held, kind),
        biases=bool(held.get("attention_bias", kind == "qwen2")),
        normed_heads=kind in ("qwen3", "qwen3_moe"),
        n_windowed=n_windowed,
        window=number("sliding_window", 0) if n_windowed else 0,
        n_stateful=n_stateful,
        most_tokens=number("max_position_embeddings", 0),
    )


class _Numbers:
    """Takes whole numbers out of a config, or says which are wrong."""

    def __init__(self, name: str, config: Mapping[str, object]) -> None:
        self._name = name
        self._config = config

    def __call__(self, field: str, default: int | None = None) -> int:
        value = self._config.get(field)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise PlanRefused(f"config of {self._name}: {field} is {value!r}, needed a number")
        return value


def _attention(number: _Numbers, config: Mapping[str, object]) -> Heads | Latent:
    n_heads = number("num_attention_heads")
    if config.get("kv_lora_rank") is not None:
        return Latent(
            n_heads=n_heads,
            latent=number("kv_lora_rank"),
            rotary=number("qk_rope_head_dim"),
            plain=number("qk_nope_head_dim", 0),
            value_width=number("v_head_dim", 0),
            query_latent=number("q_lora_rank", 0),
        )
    if not n_heads:
        raise PlanRefused("config: num_attention_heads is 0, needed at least 1")
    width = number("head_dim", 0) or number("hidden_size") // n_heads
    n_kv = number("num_key_value_heads", n_heads)
    return Heads(n_heads, n_kv, width, number("v_head_dim", 0) or width)


def _experts(number: _Numbers, config: Mapping[str, object], kind: str) -> Experts | None:
    fields = ("n_routed_experts", "num_local_experts", "num_experts")
    named = next((each for each in fields if config.get(each)), None)
    if named is None:
        return None
    return Experts(
        n_routed=number(named),
        n_shared=number("n_shared_experts", 0),
        n_chosen=number("num_experts_per_tok"),
        width=number("moe_intermediate_size", 0) or number("intermediate_size"),
        n_dense=number("first_k_dense_replace", 0),
        corrected=kind == "deepseek_v3",
    )


def _layers(config: Mapping[str, object], n_layers: int, kind: str) -> tuple[int, int]:
    """Count the layers with a window, and those that keep a constant state."""
    said = config.get("layer_types")
    if isinstance(said, list):
        windowed = sum("sliding" in str(each) or "chunked" in str(each) for each in said)
        stateful = sum("linear" in str(each) or "mamba" in str(each) for each in said)
        return windowed, stateful
    # Without a list all layers are alike; Qwen names a window and does not use it.
    used = config.get("use_sliding_window", kind == "mistral") and config.get("sliding_window")
    return (n_layers, 0) if used else (0, 0)
