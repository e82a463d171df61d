"""/v1/documents over HTTP: shapes, fields, and which status says what."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from acl.session import Database
from tests.api.houses import Home, open_home

TEXT = "The gate opens at nine. Bring a badge."


def _send(
    home: Home,
    who: str,
    name: str = "gate.txt",
    content: bytes = b"The gate.",
    **fields: str | list[str],
) -> httpx.Response:
    data: dict[str, str | list[str]] = {"collection": "open", **fields}
    return home.ask(who, "POST", "/v1/documents", data=data, files={"file": (name, content)})


def test_an_upload_is_found_by_the_next_search_and_opens_by_its_citation(home: Home) -> None:
    sent = _send(home, "wes", "gate.txt", TEXT.encode(), title="Gate hours")

    assert (sent.status_code, sent.json()["outcome"]) == (201, "created")
    found = home.ask("bo", "POST", "/v1/search", json={"query": "gate opens"}).json()
    (result,) = found["results"]
    assert (result["document"], result["title"]) == (sent.json()["id"], "Gate hours")
    opened = home.ask("bo", "GET", result["url"]).json()
    assert opened == {
        "object": "passage", "document": sent.json()["id"], "title": "Gate hours", "passage": 1,
        "page": None, "start": 0, "end": len(TEXT), "url": result["url"], "text": TEXT,
        "before": "", "after": "",
    }  # fmt: skip


def test_the_same_file_again_is_unchanged_and_another_content_updates_it(home: Home) -> None:
    sent = [
        _send(home, "wes", content=content).json()
        for content in (b"one gate", b"one gate", b"two gates")
    ]

    assert [each["outcome"] for each in sent] == ["created", "unchanged", "updated"]
    assert len({each["id"] for each in sent}) == 1
    text = home.ask("bo", "GET", f"/v1/documents/{sent[0]['id']}/text").json()
    assert text["text"] == "two gates"


def test_a_document_tells_of_itself_and_gives_a_stretch_of_its_text(home: Home) -> None:
    here = home.document("open", "Gate", TEXT)

    told = home.ask("bo", "GET", f"/v1/documents/{here}").json()
    stretch = home.ask("bo", "GET", f"/v1/documents/{here}/text?start=4&end=8").json()
    beyond = home.ask("bo", "GET", f"/v1/documents/{here}/text?start=9999").json()

    assert {**told, "created_s": 0, "nbytes": 0} == {
        "object": "document", "id": here, "title": "Gate", "collection": "open",
        "media_type": "text/plain", "nbytes": 0, "passages": 1, "created_s": 0,
    }  # fmt: skip
    assert (stretch["text"], stretch["start"], stretch["end"]) == ("gate", 4, 8)
    assert stretch["n_chars"] == len(TEXT)
    assert (beyond["text"], beyond["start"], beyond["end"]) == ("", len(TEXT), len(TEXT))


def test_the_list_is_paged_and_an_unknown_place_in_it_is_not_found(home: Home) -> None:
    ids = [home.document("open", f"Note {n}", f"note number {n}") for n in range(5)]
    seen: list[str] = []
    more, after = True, ""
    while more:
        page = home.ask("bo", "GET", f"/v1/documents?limit=2{after}").json()
        seen += [each["id"] for each in page["data"]]
        more, after = page["has_more"], f"&after={seen[-1]}"

    assert seen == ids
    assert home.ask("bo", "GET", "/v1/documents?after=doc_0").status_code == 404
    assert home.ask("bo", "GET", "/v1/documents?limit=0").json()["error"]["param"] == "limit"


@pytest.mark.parametrize("ordinal", ["0", "2", "-1", str(10**30)])
def test_a_passage_that_the_document_does_not_have_is_not_found(home: Home, ordinal: str) -> None:
    here = home.document("open", "Gate", TEXT)

    assert home.ask("bo", "GET", f"/v1/documents/{here}/passages/{ordinal}").status_code == 404


def test_a_passage_comes_with_the_text_around_it(home: Home) -> None:
    text = "\n\n".join(f"Paragraph {n}. " + "the gate is open all day long " * 30 for n in range(9))
    here = home.document("open", "Long", text)

    opened = home.ask("bo", "GET", f"/v1/documents/{here}/passages/2").json()

    start, end = opened["start"], opened["end"]
    assert opened["text"] == text[start:end]
    assert (opened["before"], opened["after"]) == (text[start - 300 : start], text[end : end + 300])


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"collection": ["open", "closed"]}, "collection"),
        ({"reads": "user:bo"}, "reads"),
        ({"cut": "yes"}, "cut"),
        ({"title": "a\0b"}, "title"),
    ],
)
def test_a_form_that_is_not_understood_stores_nothing(
    still_home: Home, fields: dict[str, str | list[str]], param: str
) -> None:
    response = _send(still_home, "wes", "a.txt", b"text", **fields)

    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    assert still_home.ask("wes", "GET", "/v1/documents").json()["data"] == []


@pytest.mark.parametrize("name", ["..", "a\u202eb.txt", "a" * 256])
def test_a_file_needs_a_plain_name(still_home: Home, name: str) -> None:
    assert _send(still_home, "wes", name).json()["error"]["param"] == "file"


def test_a_path_in_a_file_name_is_dropped_and_forms_of_one_name_are_one(home: Home) -> None:
    sent = [
        _send(home, "wes", name).json() for name in ("x/../é.txt", "C:\\y\\é.txt", "e\u0301.txt")
    ]

    assert len({each["id"] for each in sent}) == 1


def test_no_file_and_no_form_are_refused(still_home: Home) -> None:
    bare = still_home.ask("wes", "POST", "/v1/documents", json={"collection": "open"})
    text = still_home.ask("wes", "POST", "/v1/documents", data={"collection": "open", "file": "x"})
    broken = still_home.ask(
        "wes", "POST", "/v1/documents", content=b"x",
        headers={"Content-Type": "multipart/form-data"},
    )  # fmt: skip

    assert {bare.status_code, text.status_code, broken.status_code} == {400}


def test_a_file_that_can_not_be_read_says_why_but_only_to_who_may_send_it(home: Home) -> None:
    assert _send(home, "wes", content=b"").json()["error"]["code"] == "unreadable_file"
    assert _send(home, "bo", content=b"").status_code == 403
    assert _send(home, "bo", content=b"", collection="closed").status_code == 404


def test_the_acl_is_shown_and_set_by_who_manages(home: Home) -> None:
    here = home.document("open", "Gate", TEXT, read=["user:bo"])
    url = f"/v1/documents/{here}/acl"

    shown = home.ask("tess", "GET", url).json()
    put = home.ask("tess", "PUT", url, json={"read": ["user:ana"], "deny": ["user:bo"]})

    assert shown["read"] == ["user:bo"]
    assert put.json() == home.ask("tess", "GET", url).json()
    assert put.json() == {
        "object": "document.acl", "cut": False, "read": ["user:ana"], "write": [], "manage": [],
        "deny": ["user:bo"],
    }  # fmt: skip
    assert home.ask("bo", "GET", f"/v1/documents/{here}").status_code == 404
    assert home.ask("ana", "GET", url).status_code == 403
    assert home.ask("ana", "PUT", url, json={}).status_code == 403
    assert home.ask("tess", "PUT", url, json={"raed": []}).json()["error"]["param"] == "raed"


def test_a_deleted_document_is_gone_from_every_route(home: Home) -> None:
    here = home.document("open", "Gate", TEXT)

    assert home.ask("bo", "DELETE", f"/v1/documents/{here}").status_code == 403
    gone = home.ask("wes", "DELETE", f"/v1/documents/{here}")

    assert (gone.status_code, gone.content) == (204, b"")
    for url in ("", "/text", "/passages/1", "/acl"):
        assert home.ask("bo", "GET", f"/v1/documents/{here}{url}").status_code == 404
    assert home.ask("bo", "POST", "/v1/search", json={"query": "gate"}).json()["results"] == []


def test_documents_come_change_readers_and_go(tmp_path: Path, any_database: Database) -> None:
    with open_home(tmp_path, database=any_database) as home:
        here = _send(home, "wes", content=TEXT.encode(), title="Gate").json()["id"]
        url = f"/v1/documents/{here}"
        found = home.ask("bo", "POST", "/v1/search", json={"query": "gate opens"}).json()
        denied = home.ask("tess", "PUT", f"{url}/acl", json={"deny": ["user:bo"]})
        hidden = [home.ask("bo", method, url).status_code for method in ("GET", "DELETE")]
        odd = [
            home.ask("tess", "GET", f"{url}%00").status_code,
            home.ask("tess", "GET", "/v1/groups/%00").status_code,
            home.ask("tess", "PUT", "/v1/groups/inner/members/user:%00").status_code,
        ]
        gone = home.ask("tess", "DELETE", url).status_code

        assert found["returned"] == 1
        assert denied.json()["deny"] == ["user:bo"]
        # Management alone reads nothing, and a document with access of its own needs it to go.
        assert (hidden, odd, gone) == ([404, 404], [404, 404, 422], 204)
        assert home.ask("ana", "GET", "/v1/documents").json()["data"] == []
