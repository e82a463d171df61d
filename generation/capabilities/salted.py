"""Engines that take a salt: vLLM, SGLang, TensorRT-LLM, and NIM 2 around the first two."""

from __future__ import annotations

from dataclasses import replace

from generation.capability import CACHED, Capability, Gauge, Priority, Route, Unknown

_SALT = frozenset({"cache_salt"})
# What passes everywhere: vLLM forbids @ / \ and NUL, and more than 128 characters.
_URL_SAFE = r"[A-Za-z0-9_-]{1,128}"

VLLM = Capability(
    kind="vllm",
    salt_field="cache_salt",
    salt_pattern=_URL_SAFE,
    extra={
        Route.CHAT: _SALT | {"priority"},
        Route.COMPLETIONS: _SALT | {"priority"},
        Route.EMBEDDINGS: _SALT | {"priority"},
    },
    unknown=Unknown.IGNORED,
    tokenize_path="/tokenize",
    tokenize_field="prompt",
    window_field="max_model_len",
    health_path="/health",
    ready_path=None,
    metrics_path="/metrics",
    metrics={
        Gauge.RUNNING: "vllm:num_requests_running",
        Gauge.WAITING: "vllm:num_requests_waiting",
        Gauge.CACHE_USE: "vllm:kv_cache_usage_perc",
        Gauge.CACHED_TOKENS: "vllm:prefix_cache_hits_total",
        Gauge.PROMPT_TOKENS: "vllm:prefix_cache_queries_total",
    },
    cached=(CACHED,),
    cached_flag="--enable-prompt-tokens-details",
    priority=Priority.LOW_FIRST,
    busy_codes=frozenset({429, 503}),
    context_codes=frozenset({400, 413, 422}),
    context_marks=("input_tokens", "input_text", "maximum context length", "max_model_len"),
    usage_in_stream=True,
    cites=True,
)

# extra_key is left out: it is joined to an adapter's name without a delimiter.
SGLANG = Capability(
    kind="sglang",
    salt_field="cache_salt",
    salt_pattern=_URL_SAFE,
    extra={
        Route.CHAT: _SALT | {"priority"},
        Route.COMPLETIONS: _SALT | {"priority"},
        Route.EMBEDDINGS: frozenset({"priority"}),
    },
    unknown=Unknown.IGNORED,
    tokenize_path=None,
    tokenize_field="",
    window_field="max_model_len",
    health_path="/health",
    ready_path="/ready",
    metrics_path="/metrics",
    metrics={
        Gauge.RUNNING: "sglang:num_running_reqs",
        Gauge.WAITING: "sglang:num_queue_reqs",
        Gauge.CACHE_USE: "sglang:token_usage",
        Gauge.CACHED_TOKENS: "sglang:cached_tokens_total",
        Gauge.PROMPT_TOKENS: "sglang:prompt_tokens_total",
    },
    cached=(CACHED,),
    cached_flag="--enable-cache-report",
    priority=Priority.HIGH_FIRST,
    busy_codes=frozenset({429, 503}),
    context_codes=frozenset({400}),
    context_marks=("context length", "context_length", "longer than the model"),
    usage_in_stream=True,
    cites=True,
)

TRTLLM = Capability(
    kind="trtllm",
    salt_field="cache_salt",
    salt_pattern=_URL_SAFE,
    # Its completions route refuses a salt, and every unknown field.
    extra={Route.CHAT: _SALT | {"priority"}},
    unknown=Unknown.REFUSED,
    tokenize_path=None,
    tokenize_field="",
    window_field="",
    health_path="/health",
    ready_path=None,
    # /metrics is a JSON list of iterations there; this one exists with return_perf_metrics.
    metrics_path="/prometheus/metrics",
    metrics={
        Gauge.RUNNING: "trtllm_num_requests_running",
        Gauge.WAITING: "trtllm_num_requests_waiting",
        Gauge.CACHE_USE: "trtllm_kv_cache_utilization",
        Gauge.CACHED_TOKENS: "trtllm_prompt_cached_tokens_total",
        Gauge.PROMPT_TOKENS: "trtllm_prompt_tokens_total",
    },
    cached=(CACHED,),
    cached_flag="",
    priority=Priority.UNIT_HIGH_FIRST,
    busy_codes=frozenset({429, 503}),
    context_codes=frozenset({400}),
    context_marks=("max_num_tokens", "max_seq_len", "max_input_len", "context length"),
    usage_in_stream=True,
    cites=True,
)

# NIM 2 is one of the two engines behind NVIDIA's health and metrics paths.
NIM_VLLM = replace(
    VLLM,
    kind="nim2-vllm",
    health_path="/v1/health/live",
    ready_path="/v1/health/ready",
    metrics_path="/v1/metrics",
)
NIM_SGLANG = replace(
    SGLANG,
    kind="nim2-sglang",
    health_path="/v1/health/live",
    ready_path="/v1/health/ready",
    metrics_path="/v1/metrics",
)
