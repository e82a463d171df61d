"""llama.cpp: no salt, but slots that can be pinned; the embedded one shows no metrics."""

from __future__ import annotations

from dataclasses import replace

from generation.capability import CACHED, Capability, Gauge, Route, Unknown

_SLOT = frozenset({"id_slot", "cache_prompt"})

LLAMACPP = Capability(
    kind="llamacpp",
    salt_field=None,
    salt_pattern="",
    extra={Route.CHAT: _SLOT, Route.COMPLETIONS: _SLOT},
    unknown=Unknown.IGNORED,
    tokenize_path="/tokenize",
    tokenize_field="content",
    window_field="",
    health_path="/health",
    ready_path=None,
    metrics_path="/metrics",
    metrics={
        Gauge.RUNNING: "llamacpp:requests_processing",
        Gauge.WAITING: "llamacpp:requests_deferred",
        Gauge.CACHED_TOKENS: "llamacpp:prompt_tokens_cached_total",
    },
    cached=(CACHED,),
    cached_flag="",
    priority=None,
    # It queues without bound; 503 is a model that still loads.
    busy_codes=frozenset({429, 503}),
    context_codes=frozenset({400}),
    context_marks=("exceed_context_size_error",),
    usage_in_stream=True,
    cites=False,
)
EMBEDDED = replace(LLAMACPP, kind="embedded", metrics_path=None, metrics={})
