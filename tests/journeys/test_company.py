"""The sample company, the real encoder and the real engine, asked by the stock client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import yaml

from tests.journeys.running import Installed

pytestmark = pytest.mark.real

COMPANY = Path(__file__).resolve().parents[2] / "examples/company"
QUESTIONS: list[dict[str, Any]] = yaml.safe_load((COMPANY / "questions.yaml").read_text())
ASKED = [(question, person) for question in QUESTIONS for person in question["as"]]


@dataclass(slots=True)
class Open:
    """The company's server, and a key for everybody who asks."""

    home: Installed
    url: str
    keys: dict[str, str] = field(default_factory=dict)

    def headers(self, person: str) -> dict[str, str]:
        if person not in self.keys:
            self.keys[person] = self.home.say("key", "add", f"user:{person}")
        return {"Authorization": f"Bearer {self.keys[person]}"}

    def search(self, person: str, query: str, top_k: int = 100) -> list[dict[str, Any]]:
        body = {"query": query, "top_k": top_k}
        reply = httpx.post(
            f"{self.url}/v1/search", json=body, headers=self.headers(person), timeout=60
        )
        assert reply.status_code == 200, reply.text
        results: list[dict[str, Any]] = reply.json()["results"]
        return results

    def client(self, person: str) -> openai.OpenAI:
        self.headers(person)
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=self.keys[person], max_retries=0)


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    home = Installed.at(tmp_path_factory.mktemp("company"), "calderhythe")
    home.say("tenant", "add", "calderhythe")
    report = home.say("ingest", str(COMPANY), "--acl", str(COMPANY / "access.yaml"))
    assert "40 documents: 40 created" in report
    with home.serving() as url:
        yield Open(home, url)


def _secrets(question: dict[str, Any], person: str) -> list[str]:
    own = set(question["expect"][person]["contains"])
    return [
        text
        for other, expected in question["expect"].items()
        for text in expected["contains"]
        if other != person and text not in own
    ]


@pytest.mark.parametrize(
    ("question", "person"), ASKED, ids=[f"{q['id']}-{person}" for q, person in ASKED]
)
def test_everybody_finds_what_they_may_read_and_no_trace_of_the_rest(
    company: Open, question: dict[str, Any], person: str
) -> None:
    results = company.search(person, question["question"])
    expected = question["expect"][person]

    best = " ".join(" ".join(each["text"].split()) for each in results[:3])
    for text in expected["contains"] if expected["document"] else ():
        assert text.casefold() in best.casefold()
    everything = json.dumps(results, ensure_ascii=False)
    for text in _secrets(question, person):
        assert text not in everything


def test_the_demo_questions_are_answered_by_what_each_may_read(company: Open) -> None:
    for question in (each for each in QUESTIONS if each.get("demo")):
        for person in question["as"]:
            with company.client(person) as client:
                answer = client.chat.completions.create(
                    model="gpt-4o-mini",
                    messages=[{"role": "user", "content": question["question"]}],
                )
            text = answer.choices[0].message.content or ""
            ours = (answer.model_extra or {})["ostiary"]
            if question["expect"][person]["document"] is None:
                assert ours["refused"]
                assert ours["citations"] == []
            else:
                assert not ours["refused"]
                assert ours["citations"]
                # 3.4 percent is 3.4% to a model.
                for fact in question["expect"][person]["contains"]:
                    assert fact.split()[0] in text
            for secret in _secrets(question, person):
                assert secret not in text
            assert [each["name"] for each in ours["stages"]][:5] == [
                "admit", "embed", "search", "authorize", "rerank",
            ]  # fmt: skip


def test_a_stream_gives_the_same_answer_and_its_citations_open(company: Open) -> None:
    question = QUESTIONS[0]["question"]
    with company.client("anna") as client:
        whole = client.chat.completions.create(
            model="ostiary", messages=[{"role": "user", "content": question}]
        )
        pieces = list(
            client.chat.completions.create(
                model="ostiary",
                messages=[{"role": "user", "content": question}],
                stream=True,
                stream_options={"include_usage": True},
            )
        )
    text = "".join(c.choices[0].delta.content or "" for c in pieces if c.choices)
    extras = [piece.model_extra or {} for piece in pieces]
    ours = next(each["ostiary"] for each in extras if "ostiary" in each)

    assert text == whole.choices[0].message.content
    assert pieces[-1].usage is not None
    assert pieces[-1].usage.completion_tokens > 0
    for mark in ours["citations"]:
        assert text[mark["position"] :].startswith(f"[{mark['number']}]")
        headers = company.headers("anna")
        opened = httpx.get(f"{company.url}{mark['url']}", headers=headers).json()
        document = httpx.get(
            f"{company.url}/v1/documents/{mark['document']}/text"
            f"?start={mark['start']}&end={mark['end']}",
            headers=headers,
        ).json()
        assert opened["text"] == document["text"]


def test_a_document_changes_hands_and_a_right_is_taken_back(company: Open) -> None:
    question = next(each for each in QUESTIONS if each["id"] == "broker-contract")
    handover, query = question["expect"]["luca"]["contains"][0], question["question"]

    def readers() -> set[str]:
        return {
            person
            for person in ("luca", "priya")
            if any(handover in " ".join(r["text"].split()) for r in company.search(person, query))
        }

    assert readers() == {"luca"}
    report = company.home.say(
        "ingest", str(COMPANY), "--acl", str(COMPANY / "access-after.yaml"), "--json"
    )
    results = [json.loads(line)["result"] for line in report.splitlines()]
    assert sorted(results) == ["access changed"] + ["unchanged"] * 39
    assert readers() == {"priya"}
    company.home.say("ingest", str(COMPANY), "--acl", str(COMPANY / "access.yaml"))
    assert readers() == {"luca"}


def test_grant_ingest_ask_revoke_ask_again(company: Open, tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("# Parking\n\nThe code of the gate to the car park is 7731.\n")
    question = "What is the code of the gate to the car park?"

    def asked() -> tuple[str, bool]:
        with company.client("noor") as client:
            answer = client.chat.completions.create(
                model="ostiary", messages=[{"role": "user", "content": question}]
            )
        ours = (answer.model_extra or {})["ostiary"]
        return answer.choices[0].message.content or "", ours["refused"]

    company.home.say("ingest", str(note), "--collection", "gates", "--allow", "user:sam")
    assert "7731" not in asked()[0]
    company.home.say("grant", "user:noor", "read", "collection:gates")
    text, refused = asked()
    assert "7731" in text
    assert not refused
    company.home.say("revoke", "user:noor", "read", "collection:gates")
    assert "7731" not in asked()[0]
    assert not any("7731" in each["text"] for each in company.search("noor", question))


def test_a_question_is_answered_in_the_terminal(company: Open) -> None:
    company.headers("anna")
    shown = company.home.say(
        "ask", QUESTIONS[0]["question"], "--url", company.url, "--key", company.keys["anna"]
    )

    assert "eight years" in shown
    assert "/v1/documents/doc_" in shown
    assert "rerank" in shown
