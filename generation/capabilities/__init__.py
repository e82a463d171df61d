"""The capability records by kind: data, one entry an engine. docs/engines.md tells of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from generation.capabilities.hosted import NIM_1, OPENAI, TGI, TRITON
from generation.capabilities.llamacpp import EMBEDDED, LLAMACPP
from generation.capabilities.salted import NIM_SGLANG, NIM_VLLM, SGLANG, TRTLLM, VLLM
from generation.capability import Capability

RECORDS: Mapping[str, Capability] = MappingProxyType(
    {
        record.kind: record
        for record in (
            VLLM,
            SGLANG,
            TRTLLM,
            TGI,
            NIM_1,
            NIM_VLLM,
            NIM_SGLANG,
            TRITON,
            LLAMACPP,
            EMBEDDED,
            OPENAI,
        )
    }
)
