"""A real vLLM for the session: on the loopback, on a free port, stopped by its own id."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from platformdirs import user_cache_path

_START_S = 300.0
_STOP_S = 20.0
_WINDOW_TOKENS = 1024


def engines_folder() -> Path:
    """Give the folder that tests/engines/vllm.sh fills."""
    named = os.environ.get("OSTIARY_ENGINES")
    return Path(named).expanduser() if named else user_cache_path("ostiary") / "engines"


@pytest.fixture(scope="session")
def vllm_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start vLLM with a window of 1,024 tokens and blocks of 32; gives its base URL.

    Without its set-up the tests are skipped, unless OSTIARY_VLLM=1: then they fail.
    """
    home = engines_folder()
    python, model = home / "vllm/bin/python", home / "smollm2"
    if not ((home / "vllm/.ready").exists() and (model / "config.json").exists()):
        reason = f"no vLLM in {home}; run: tests/engines/vllm.sh"
        if os.environ.get("OSTIARY_VLLM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    port = _free_port()
    log = tmp_path_factory.mktemp("vllm") / "vllm.log"
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(model), "--served-model-name", "smollm2", "--dtype", "float32"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--enforce-eager"]
    command += ["--max-model-len", str(_WINDOW_TOKENS), "--block-size", "32"]
    command += ["--enable-prefix-caching", "--enable-prompt-tokens-details"]
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    environment = {**os.environ, **quiet, "VLLM_CPU_KVCACHE_SPACE": "1"}
    environment.pop("PYTHONPATH", None)  # ours is not its
    with log.open("wb") as sink:
        server = subprocess.Popen(
            command, stdout=sink, stderr=sink, env=environment, start_new_session=True
        )
    try:
        _wait(server, port, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        _stop(server)


@pytest.fixture(scope="session")
def vllm_loop() -> Iterator[asyncio.Runner]:
    """The loop that the client's connections belong to."""
    with asyncio.Runner() as runner:
        yield runner


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if server.poll() is not None:
            break
        with (
            suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5),
        ):
            return
        time.sleep(0.25)
    last = log.read_text(errors="replace").splitlines()[-15:]
    pytest.fail(f"vLLM did not start within {_START_S:.0f} s:\n" + "\n".join(last))


def _stop(server: subprocess.Popen[bytes]) -> None:
    # Its engine is a child of its own: both are in the group that the server leads.
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            server.wait(_STOP_S)
