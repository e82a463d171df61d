"""Law 1: remove every trace of what a person may not read, and every answer is the same.

Two worlds are built by one script. One has folders, documents, groups and people that bo may not
know of, uploads to them, denied attempts, and other people's questions about them; the
other never had. Bo sends the same requests to every route of both; all that comes back is
compared byte by byte, after what is random by nature is named by its order.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from generation.scripted import ScriptedEngine
from generation.types import Prompt
from tests.api.houses import Home, open_home

# The closed list of what is masked: all of it random or of the clock, none of it of content.
MASKED = {
    r"doc_[0-9a-f]{22}": "document id",
    r"col_[0-9a-f]{22}": "collection id",
    r"chatcmpl-[0-9a-f]{24}": "answer id",
    r'"created(_s)?":\s*[0-9.]+': "date",
    r'"spent_ms":\s*[0-9.]+': "time of a stage",
}
# A length differs as masked numbers do; each is compared with its own body.
MASKED_HEADERS = {"x-request-id", "date", "content-length"}

WORDS = ("heron", "weir", "gate", "ledger", "badge", "canteen", "winter", "boiler", "lamp")
RARE = "zyzzyva quokkas syzygial"


@dataclass(frozen=True, slots=True)
class Case:
    """A request to a route. `{own}` is a document bo reads.

    `{none}` is a document of the hidden part, and where there is none, one that never was.
    """

    method: str
    route: str
    url: str
    json: Mapping[str, object] | None = None
    data: Mapping[str, str] | None = None


def _chat(question: str, stream: bool) -> dict[str, object]:
    turns = [{"role": "user", "content": question}]
    return {"model": "ostiary", "messages": turns, "stream": stream}


NEW_ACCESS = {"read": ["user:bo"], "write": [], "manage": [], "deny": []}
CASES = [
    *(
        Case("POST", "/v1/search", "/v1/search", {"query": query, "top_k": top_k})
        for query in ("heron weir", "the winter gate", RARE, "secret plan", "lamp", "boiler 17")
        for top_k in (1, 5, 100)
    ),
    *(
        Case("POST", "/v1/chat/completions", "/v1/chat/completions", _chat(question, stream))
        for question in ("heron weir?", RARE, "What is the secret plan?", "boiler invoice")
        for stream in (False, True)
    ),
    Case("POST", "/v1/search", "/v1/search", {"query": "", "top_k": 5}),
    Case("POST", "/v1/search", "/v1/search", {"query": "heron", "top_k": 10_000}),
    Case("GET", "/v1/models", "/v1/models"),
    Case("GET", "/v1/documents", "/v1/documents"),
    Case("GET", "/v1/documents", "/v1/documents?limit=3"),
    Case("GET", "/v1/documents", "/v1/documents?after={own}&limit=2"),
    Case("GET", "/v1/documents", "/v1/documents?after={none}"),
    Case("GET", "/v1/documents/{public_id}", "/v1/documents/{own}"),
    Case("GET", "/v1/documents/{public_id}", "/v1/documents/{none}"),
    Case("GET", "/v1/documents/{public_id}/text", "/v1/documents/{own}/text"),
    Case("GET", "/v1/documents/{public_id}/text", "/v1/documents/{none}/text"),
    Case("GET", "/v1/documents/{public_id}/passages/{ordinal}", "/v1/documents/{own}/passages/1"),
    Case("GET", "/v1/documents/{public_id}/passages/{ordinal}", "/v1/documents/{own}/passages/9"),
    Case("GET", "/v1/documents/{public_id}/acl", "/v1/documents/{own}/acl"),
    Case("PUT", "/v1/documents/{public_id}/acl", "/v1/documents/{own}/acl", NEW_ACCESS),
    Case("PUT", "/v1/documents/{public_id}/acl", "/v1/documents/{none}/acl", NEW_ACCESS),
    Case("DELETE", "/v1/documents/{public_id}", "/v1/documents/{none}"),
    Case("POST", "/v1/documents", "/v1/documents", data={"collection": "open"}),
    Case("POST", "/v1/documents", "/v1/documents", data={"collection": "vault"}),
    Case("POST", "/v1/documents", "/v1/documents", data={"collection": "drop"}),
    Case("GET", "/v1/grants", "/v1/grants?type=tenant"),
    Case("GET", "/v1/grants", "/v1/grants?type=collection&path=vault"),
    Case("GET", "/v1/grants", "/v1/grants?type=collection&path=open"),
    *(
        Case("POST", "/v1/grants", "/v1/grants", {
            "resource": {"type": "collection", "path": path},
            "principal": principal, "action": "read",
        })
        for path in ("vault", "open", "mine")
        for principal in ("user:bo", "group:vaulters", "user:victor")
    ),
    Case("DELETE", "/v1/grants",
         "/v1/grants?type=collection&path=vault&principal=user:bo&action=read"),
    Case("GET", "/v1/groups", "/v1/groups"),
    Case("POST", "/v1/groups", "/v1/groups", {"name": "vaulters"}),
    Case("GET", "/v1/groups/{name}", "/v1/groups/vaulters"),
    Case("GET", "/v1/groups/{name}", "/v1/groups/birders"),
    Case("PUT", "/v1/groups/{name}/members/{member}", "/v1/groups/vaulters/members/user:bo"),
    Case("PUT", "/v1/groups/{name}/members/{member}", "/v1/groups/birders/members/user:victor"),
    Case("DELETE", "/v1/groups/{name}/members/{member}", "/v1/groups/vaulters/members/user:bo"),
    Case("GET", "/v1/documents/{public_id}/passages/{ordinal}", "/v1/documents/{none}/passages/1"),
    Case("GET", "/v1/documents/{public_id}/acl", "/v1/documents/{none}/acl"),
    Case("GET", "/v1/grants", "/v1/grants?type=document&id={none}"),
    *(
        Case("GET", "/v1/explain", f"/v1/explain?{where}&principal={principal}&action={action}")
        for where in ("type=tenant", "type=collection&path=vault", "type=collection&path=mine",
                      "type=document&id={none}", "type=document&id={own}")
        for principal in ("user:bo", "user:victor", "group:vaulters")
        for action in ("read", "manage")
    ),
    Case("GET", "/v1/memory", "/v1/memory"),
    Case("GET", "/healthz", "/healthz"),
    Case("GET", "/readyz", "/readyz"),
    Case("GET", "/metrics", "/metrics"),
]  # fmt: skip


def _text(chance: random.Random, n_words: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(n_words))


@contextmanager
def _world(folder: Path, seed: int, hidden: bool) -> Iterator[tuple[Home, ScriptedEngine]]:
    """Build a world; the hidden part draws from a stream of chance of its own."""
    folder.mkdir()
    open_chance, dark = random.Random(seed), random.Random(seed + 1)  # noqa: S311 - repeatable
    engine = ScriptedEngine(_answer)
    with open_home(folder, engine, refuse_below=0.2) as home:
        home.group("birders", "user:bo")
        home.grant("user:bo", "write", "open")
        if hidden:
            home.person("victor")
            home.group("vaulters", "user:victor")
        for number in range(12):
            text = _text(open_chance, 30)
            readers = ["group:birders"] if number % 3 == 0 else []
            path = "shelf" if number % 3 == 0 else "open"
            if hidden:
                _hide(home, dark, number, text)
            home.document(path, f"Page {number}", text, read=readers)
        if hidden:
            home.grant("group:vaulters", "read", "vault")
            home.grant("group:vaulters", "write", "vault")
            home.grant("group:vaulters", "read", "open", "deny")
            _traffic(home, dark)
        yield home, engine


def _answer(prompt: Prompt) -> list[str]:
    numbers = sorted(each.number for each in prompt.evidence)
    return ["It says ", prompt.evidence[0].text[:20], f" [{numbers[0]}]. ", "That is all."]


def _hide(home: Home, chance: random.Random, number: int, near: str) -> None:
    """Add what bo may not know: near-duplicates, rare words, other folders and readers."""
    for turn in range(chance.randrange(4)):
        text = chance.choice([near, f"{near} {RARE}", _text(chance, 60), f"secret plan {RARE}"])
        readers = chance.choice([["group:vaulters"], ["user:victor"], ["user:ana", "user:mo"]])
        home.document(f"vault/{turn}", f"Hidden {number}.{turn}", text, read=readers)


def _traffic(home: Home, chance: random.Random) -> None:
    """Let others ask, upload, fail and be denied, also about what bo asks."""
    for query in ("heron weir", RARE, _text(chance, 3)):
        home.ask("victor", "POST", "/v1/search", json={"query": query})
        home.ask("victor", "POST", "/v1/chat/completions", json=_chat(query, stream=True))
    files = {
        "file": ("note.md", b"# Note\n\nThe secret plan of the vault."),
    }
    home.ask("victor", "POST", "/v1/documents", data={"collection": "vault"}, files=files)
    home.ask("victor", "POST", "/v1/documents", data={"collection": "open"}, files=files)
    home.ask("victor", "POST", "/v1/documents", data={"collection": "vault"},
             files={"file": ("bad.pdf", b"%PDF-1.7 nothing")})  # fmt: skip


def _masked(text: str) -> str:
    """Name what is random by the order in which it first came."""
    for pattern, name in MASKED.items():
        seen: dict[str, str] = {}
        numbered = "date" not in name and "time" not in name
        text = re.sub(
            pattern,
            lambda found, name=name, seen=seen, numbered=numbered: (  # type: ignore[misc]
                seen.setdefault(found[0], f"<{name} {len(seen)}>") if numbered else f"<{name}>"
            ),
            text,
        )
    return text


def _hidden_document(home: Home) -> str:
    if "victor" not in home.keys:
        return "doc_" + "0" * 22
    listed = home.ask("victor", "GET", "/v1/documents").json()["data"]
    return next(str(each["id"]) for each in listed if each["collection"].startswith("vault"))


def _sent(home: Home, case: Case, own: str, none: str) -> tuple[int, list[tuple[str, str]], str]:
    url = case.url.replace("{own}", own).replace("{none}", none)
    files = {"file": ("note.md", b"# Note\n\nA lamp by the weir.")} if case.data else None
    reply: httpx.Response = home.ask(
        "bo", case.method, url, json=case.json, data=case.data, files=files
    )
    assert reply.headers.get("content-length", str(len(reply.content))) == str(len(reply.content))
    headers = [each for each in reply.headers.multi_items() if each[0] not in MASKED_HEADERS]
    return reply.status_code, headers, reply.text


def _story(home: Home, engine: ScriptedEngine) -> tuple[list[object], list[object]]:
    """Give all that bo sees, and all that the engine is told for bo."""
    none = _hidden_document(home)
    engine.prompts.clear()
    own = home.ask("bo", "GET", "/v1/documents").json()["data"][0]["id"]
    seen = [(case.method, case.url, _sent(home, case, own, none)) for case in CASES]
    # One mask over everything: an id that comes again must be the same again.
    whole = _masked("\x1e".join(f"{m}\x1f{u}\x1f{s}\x1f{h}\x1f{t}" for m, u, (s, h, t) in seen))
    told = [(p.system, p.evidence, p.history, p.question) for p in engine.prompts]
    return list(whole.split("\x1e")), list(told)


@pytest.mark.parametrize("seed", range(15))
def test_what_bo_may_not_read_changes_nothing_bo_sees(tmp_path: Path, seed: int) -> None:
    with _world(tmp_path / "with", seed, hidden=True) as (home, engine):
        with_hidden = _story(home, engine)
    with _world(tmp_path / "without", seed, hidden=False) as (home, engine):
        without = _story(home, engine)

    for ours, theirs in zip(with_hidden[0], without[0], strict=True):
        assert ours == theirs
    assert with_hidden[1] == without[1]
    assert without[1], "the engine was asked for bo"


def test_the_comparison_can_see_a_difference(tmp_path: Path) -> None:
    """The control: what bo may read does change what bo sees."""
    with _world(tmp_path / "one", 1, hidden=False) as (home, engine):
        one = _story(home, engine)
    with _world(tmp_path / "two", 1, hidden=False) as (home, engine):
        home.document("open", "More", f"heron weir {RARE}")
        two = _story(home, engine)

    assert one[0] != two[0]
    assert one[1] != two[1]


def test_every_route_has_its_case(tmp_path: Path) -> None:
    with open_home(tmp_path) as home:
        routes = {
            (method, route.path)
            for route in iter_route_contexts(home.app.routes)
            if isinstance(route.original_route, APIRoute)
            for method in route.methods or ()
        }

    # Both ways: a list of routes that came out empty would be covered by any cases.
    assert routes == {(case.method, case.route) for case in CASES}
