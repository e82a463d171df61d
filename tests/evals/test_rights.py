"""Rights at every door: each fault has its control, and a real server passes."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from evals.__main__ import app
from evals.checks import load_rights
from evals.report import read_report
from evals.rights import Asking, Doors, ask_running, measures_of

WORDS = ("plan of the harbour", "menu of the canteen", "list of the keys")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three documents: of ana, of all staff, of bo."""

    def write(name: str, lines: list[dict[str, object]]) -> None:
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    readers = (["user:ana"], ["group:staff"], ["user:bo"])
    write(
        "documents.jsonl",
        [
            {"id": f"d{n}", "tenant": "acme", "title": words, "text": f"{words}. Long known.",
             "readers": who}
            for n, (words, who) in enumerate(zip(WORDS, readers, strict=True))
        ],
    )  # fmt: skip
    write("principals.jsonl", [{"user": f"user:{who}", "groups": ["group:staff"], "name": who,
                                "tenant": "acme"} for who in ("ana", "bo")])  # fmt: skip
    write(
        "checks.jsonl",
        [
            {"user": f"user:{who}", "query": words, "doc": f"d{n}",
             "allowed": n == 1 or (n == 0) == (who == "ana")}
            for n, words in enumerate(WORDS)
            for who in ("ana", "bo")
        ],
    )  # fmt: skip
    return tmp_path


def _judged(folder: Path, *, found: str, opens: bool, allowed: bool) -> list[Doors]:
    """Judge a server that finds one document, opens any or none, and explains all alike."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/search":
            return httpx.Response(200, json={"results": [{"document": found}]})
        if request.url.path == "/v1/explain":
            assert request.headers["authorization"] == "Bearer judge"
            return httpx.Response(200, json={"allowed": allowed})
        return httpx.Response(200 if opens else 404)

    rights = load_rights(folder)
    names = {f"doc_{n}": f"d{n}" for n in range(3)}
    keys = {"user:ana": "a", "user:bo": "b"}
    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://x") as client:
        asking = Asking(client, keys, names, dict.fromkeys(names.values(), 1), "judge")
        return list(ask_running(asking, rights, rights.checks))


def _value(done: list[Doors], what: str) -> float:
    return next(m.value for m in measures_of("x", done) if m.name == f"rights/x/{what}")


def test_what_can_be_opened_without_a_right_is_a_leak(folder: Path) -> None:
    done = _judged(folder, found="doc_1", opens=True, allowed=True)

    assert [each.is_leak for each in done] == [not each.checked.check.allowed for each in done]
    assert _value(done, "leak") == pytest.approx(2 / 6)


def test_what_an_allowed_person_can_not_open_is_seen(folder: Path) -> None:
    done = _judged(folder, found="doc_1", opens=False, allowed=True)

    assert _value(done, "leak") == 0
    assert _value(done, "allowed and not opened") == 1


def test_a_wrong_explanation_is_seen(folder: Path) -> None:
    assert _value(_judged(folder, found="doc_1", opens=True, allowed=True),
                  "explained wrongly") == pytest.approx(2 / 6)  # fmt: skip
    assert _value(_judged(folder, found="doc_1", opens=True, allowed=False),
                  "explained wrongly") == pytest.approx(4 / 6)  # fmt: skip


def test_a_server_that_fails_is_no_verdict(folder: Path) -> None:
    rights = load_rights(folder)

    def answer(request: httpx.Request) -> httpx.Response:
        found: dict[str, list[str]] = {"results": []}
        return httpx.Response(200, json=found) if request.method == "POST" else httpx.Response(500)

    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://x") as client:
        asking = Asking(client, {"user:ana": "a"}, {"doc_0": "d0"}, dict.fromkeys(
            ("d0", "d1", "d2"), 1))  # fmt: skip
        with pytest.raises(httpx.HTTPStatusError):
            asking.ask(rights, rights.checks[0])


def test_a_collection_is_judged_on_a_server_of_its_own_and_a_second_run_takes_what_is_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTIARY_RETRIEVAL__ENCODER", "hashed")
    out = tmp_path / "out"

    done = CliRunner().invoke(app, ["rights", str(folder), "--out", str(out)])

    assert done.exit_code == 0, done.output
    report = read_report(out / "report.json")
    leak, first = (report.measure(f"rights/{folder.name}/{what}") for what in (
        "leak", "allowed document first"))  # fmt: skip
    assert leak is not None
    assert first is not None
    assert (leak.value, leak.n, leak.high) == (0, 6, 0.5)
    assert (first.value, first.n) == (1, 4)
    assert report.glances[0].rows[0][1] == "0 of 6"

    # Were anything asked again, the fault among the kept results would be gone.
    kept = out / f"{folder.name}.checks.jsonl"
    kept.write_text(kept.read_text().replace('"opened": false', '"opened": true'))
    assert CliRunner().invoke(app, ["rights", str(folder), "--out", str(out)]).exit_code == 1


def test_a_folder_that_is_no_such_collection_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["rights", str(tmp_path), "--out", str(tmp_path / "out")])

    assert done.exit_code == 2
    assert "no documents.jsonl" in done.output
