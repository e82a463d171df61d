"""What bodies may be: bounded, one meaning each, text that every database can hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.body import JSON_NBYTES, is_text
from tests.api.houses import Home, open_home


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"[]", "invalid_json"),
        (b"null", "invalid_json"),
        (b"\xff\xfe\xfd", "invalid_json"),
        (b'{"query": "a", "top_k": NaN}', "invalid_json"),
        (b'{"query": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "invalid_json"),
        (b'{"query": "a", "top_k": ' + b"9" * 5000 + b"}", "invalid_json"),
        (b'{"query": "a", "query": "b"}', "duplicate_key"),
        (b'{"query": {"a": 1, "a": 1}}', "duplicate_key"),
        (b'{"query": "a\\u0000b"}', "invalid_value"),
        (b'{"query": "a\\ud800b"}', "invalid_value"),
    ],
)
def test_a_body_with_no_meaning_or_two_is_refused(
    still_home: Home, content: bytes, code: str
) -> None:
    response = still_home.ask("bo", "POST", "/v1/search", content=content)

    assert (response.status_code, response.json()["error"]["code"]) == (400, code)


def test_a_body_over_the_limit_is_refused_whether_it_says_its_length_or_not(
    still_home: Home,
) -> None:
    content = b'{"query": "' + b"a" * JSON_NBYTES + b'"}'

    told = still_home.ask("bo", "POST", "/v1/search", content=content)
    untold = still_home.ask(
        "bo", "POST", "/v1/search", content=content, headers={"Content-Length": "10"}
    )

    assert (told.status_code, told.json()["error"]["code"]) == (413, "too_large")
    assert (untold.status_code, untold.json()["error"]["code"]) == (413, "too_large")


def test_a_length_that_is_no_number_is_refused(still_home: Home) -> None:
    response = still_home.ask(
        "bo", "POST", "/v1/search", content=b"{}", headers={"Content-Length": "-1"}
    )

    assert response.status_code == 413


def test_a_file_over_the_limit_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    with open_home(tmp_path, max_upload_bytes=1000) as home:
        for nbytes in (1001, 2_000_000):
            response = home.ask(
                "wes", "POST", "/v1/documents", data={"collection": "open"},
                files={"file": ("a.txt", b"a" * nbytes)},
            )  # fmt: skip
            assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")
        assert home.ask("bo", "GET", "/v1/documents").json()["data"] == []


def test_text_is_what_has_neither_nul_nor_half_a_pair() -> None:
    assert is_text("plain, é, 漢字, 🙂")
    assert not is_text("a\0b")
    assert not is_text("a\udfffb")
