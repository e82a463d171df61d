"""The judge sees what it looks for: a leak, a shortfall and a miss each have their control."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from evals.checks import Check, Checked, bound, load_rights, run_checks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def write(name: str, lines: list[dict[str, object]]) -> None:
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    write(
        "documents.jsonl",
        [
            {"id": "plan", "tenant": "acme", "readers": ["user:ana"]},
            {"id": "menu", "tenant": "acme", "readers": ["group:staff"]},
        ],
    )
    write("principals.jsonl", [{"user": "user:ana", "groups": ["group:staff"]},
                               {"user": "user:bo", "groups": ["group:staff"]}])  # fmt: skip
    write(
        "checks.jsonl",
        [
            {"user": "user:ana", "query": "plan", "doc": "plan", "allowed": True},
            {"user": "user:bo", "query": "plan", "doc": "plan", "allowed": False},
        ],
    )
    return tmp_path


def _judge(folder: Path, *found: str) -> list[Checked]:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer key"
        return httpx.Response(200, json={"results": [{"document": name} for name in found]})

    rights = load_rights(folder)
    names = {"doc_1": "plan", "doc_2": "menu"}
    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://x") as client:
        return list(
            run_checks(
                client, rights, rights.checks, lambda _: "key", names, {"plan": 1, "menu": 1}
            )
        )


def test_readers_come_from_names_and_groups(folder: Path) -> None:
    rights = load_rights(folder)

    assert rights.readable("user:ana") == {"plan", "menu"}
    assert rights.readable("user:bo") == {"menu"}
    assert rights.readable("user:nobody") == frozenset()
    assert rights.checks[1] == Check("user:bo", "plan", "plan", False)


def test_a_right_server_passes_for_whom_it_is_right(folder: Path) -> None:
    ana, _ = _judge(folder, "doc_1", "doc_2")

    assert (ana.rank, ana.is_leak, ana.n_short, ana.is_miss) == (1, False, 0, False)


def test_a_forbidden_document_is_a_leak(folder: Path) -> None:
    _, bo = _judge(folder, "doc_2", "doc_1")

    assert bo.is_leak
    assert bo.n_foreign == 1


def test_a_document_the_collection_does_not_know_is_a_leak_too(folder: Path) -> None:
    assert all(each.is_leak for each in _judge(folder, "doc_9"))


def test_fewer_than_there_are_and_a_miss_are_seen(folder: Path) -> None:
    ana, bo = _judge(folder, "doc_2")

    assert (ana.n_short, ana.is_miss) == (1, True)
    assert (bo.n_short, bo.is_miss, bo.is_leak) == (0, False, False)


def test_nothing_seen_bounds_the_rate_by_three_over_n() -> None:
    assert bound(0, 300) == 0.01
    assert bound(1, 300) != bound(1, 300)  # not a number: something was seen
