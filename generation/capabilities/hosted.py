"""Engines without a salt that we can send: TGI, NIM 1, Triton's frontend, hosted ones."""

from __future__ import annotations

from dataclasses import replace

from generation.capability import CACHED, Capability, Gauge, Unknown

# prompt_cache_key is left out: it is a hint for routing, and isolates nobody.
OPENAI = Capability(
    kind="openai",
    salt_field=None,
    salt_pattern="",
    extra={},
    unknown=Unknown.REFUSED,
    tokenize_path=None,
    tokenize_field="",
    window_field="",
    health_path=None,
    ready_path=None,
    metrics_path=None,
    metrics={},
    # The second is DeepSeek's own.
    cached=(CACHED, ("prompt_cache_hit_tokens",)),
    cached_flag="",
    priority=None,
    busy_codes=frozenset({429, 503}),
    context_codes=frozenset({400, 413, 422}),
    context_marks=("context_length_exceeded", "maximum context length"),
    usage_in_stream=True,
    cites=True,
)

TGI = replace(
    OPENAI,
    kind="tgi",
    unknown=Unknown.UNTOLD,
    health_path="/health",
    metrics_path="/metrics",
    metrics={Gauge.RUNNING: "tgi_batch_current_size", Gauge.WAITING: "tgi_queue_size"},
    cached=(),
    busy_codes=frozenset({429}),
    context_codes=frozenset({422}),
    context_marks=("must be <=", "must have less than"),
)

# 1.x documents neither a salt nor cached tokens: the first block isolates, nothing is known.
NIM_1 = replace(
    OPENAI,
    kind="nim1",
    unknown=Unknown.UNTOLD,
    health_path="/v1/health/live",
    ready_path="/v1/health/ready",
    metrics_path="/v1/metrics",
    metrics={
        Gauge.RUNNING: "num_requests_running",
        Gauge.WAITING: "num_requests_waiting",
        Gauge.CACHE_USE: "gpu_cache_usage_perc",
    },
    cached=(),
)

# Its vLLM backend exports no queue, and its health is 400 while not ready.
TRITON = replace(
    OPENAI,
    kind="triton",
    health_path="/health/ready",
    metrics_path="/metrics",
    cached=(),
    context_codes=frozenset({400, 500}),
)
