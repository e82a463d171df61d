"""Turns the default generator's GGUF into a checkpoint; runs in vLLM's environment."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def convert(gguf: Path, into: Path) -> None:
    """Write weights as float32, tokenizer and chat template to a new folder."""
    named = {"gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **named)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **named)
    # The weights are whole again, but the model still says that it is quantised.
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(into)
    tokenizer.save_pretrained(into)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
