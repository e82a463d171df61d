"""Is it up, would it serve."""

from __future__ import annotations

from pathlib import Path

from generation.scripted import ScriptedEngine
from tests.api.houses import Home, open_home


def test_up_and_ready_need_no_key_and_tell_nothing_more(home: Home) -> None:
    assert home.ask(None, "GET", "/healthz").json() == {"status": "ok"}
    assert home.ask(None, "GET", "/readyz").json() == {"status": "ok"}


def test_not_ready_names_what_is_missing(tmp_path: Path) -> None:
    with open_home(tmp_path, ScriptedEngine(["a"], is_ready=False)) as home:
        response = home.ask(None, "GET", "/readyz")

        assert home.ask(None, "GET", "/healthz").status_code == 200
    assert response.status_code == 503
    assert response.json()["error"]["message"] == "not ready: engine"


def test_with_the_engine_down_search_still_answers(tmp_path: Path) -> None:
    with open_home(tmp_path, ScriptedEngine(["a"], fail_after=0)) as home:
        home.document("open", "Gate", "The gate opens at nine.")

        found = home.ask("bo", "POST", "/v1/search", json={"query": "gate opens"})

        assert found.json()["returned"] == 1
