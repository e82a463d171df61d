"""The real engine in another process, killed in the middle of an answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import openai
import pytest

from tests.journeys.running import Installed

pytestmark = pytest.mark.real

QUESTION = "Tell a long story of the days of paid leave per year"
ENGINE = """
import time
from generation.embedded import EmbeddedEngine
from pipeline.models import find, models_folder
engine = EmbeddedEngine(find("generator", models_folder()), threads=2)
print(engine.address, engine._key, flush=True)
time.sleep(300)
"""


def test_a_killed_engine_ends_the_stream_as_an_error_and_search_goes_on(tmp_path: Path) -> None:
    note = tmp_path / "leave.md"
    note.write_text("# Leave\n\nEvery employee has 29 days of paid leave per year.\n")
    with subprocess.Popen(
        [sys.executable, "-c", ENGINE], stdout=subprocess.PIPE, text=True
    ) as engine:  # fmt: skip
        assert engine.stdout is not None
        address, engine_key = engine.stdout.readline().split()
        home = Installed.at(
            tmp_path / "home",
            "acme",
            OSTIARY_GENERATION__BASE_URL=f"{address}/v1",
            OSTIARY_GENERATION__KIND="llamacpp",
            OSTIARY_GENERATION__API_KEY=engine_key,
            OSTIARY_GENERATION__MAX_SENTENCES="0",
        )
        home.say("tenant", "add", "acme")
        home.say("user", "add", "ana")
        key = home.say("key", "add", "user:ana")
        home.say("ingest", str(note), "--collection", "hr", "--allow", "user:ana")
        headers = {"Authorization": f"Bearer {key}"}
        turns = [
            {"role": "user", "content": "Tell a long story of the days of paid leave per year"}
        ]
        with (
            home.serving() as url,
            httpx.Client(base_url=url, headers=headers, timeout=60) as client,
            openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as chat,
        ):
            stream = chat.chat.completions.create(
                model="ostiary",
                stream=True,
                max_tokens=400,
                messages=[{"role": "user", "content": QUESTION}],
            )
            first = next(iter(stream))
            engine.kill()
            with pytest.raises(openai.APIError) as raised:
                list(stream)
            assert first.choices[0].finish_reason is None
            assert "language model" in raised.value.message
            search = client.post("/v1/search", json={"query": "leave"})
            assert (search.status_code, search.json()["returned"]) == (200, 1)
            ready = client.get("/readyz")
            assert ready.status_code == 503
            assert "engine" in ready.text
            refused = client.post(
                "/v1/chat/completions", json={"model": "ostiary", "messages": turns}
            )
            assert refused.status_code == 503
            assert int(refused.headers["Retry-After"]) >= 1
