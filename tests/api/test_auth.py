"""Identity comes from the key and from nothing else in a request (attacks 11, 21, 22)."""

from __future__ import annotations

import time

import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from acl.directory import find_principal
from acl.keys import create_key, key_prefix, revoke_key
from tests.api.houses import OPERATOR, SECRET, Home

ROUTES = [
    ("POST", "/v1/search"), ("POST", "/v1/chat/completions"), ("GET", "/v1/models"),
    ("GET", "/v1/documents"), ("POST", "/v1/documents"), ("GET", "/v1/documents/x"),
    ("GET", "/v1/documents/x/text"), ("GET", "/v1/documents/x/passages/1"),
    ("GET", "/v1/documents/x/acl"), ("PUT", "/v1/documents/x/acl"),
    ("DELETE", "/v1/documents/x"), ("GET", "/v1/grants"), ("POST", "/v1/grants"),
    ("DELETE", "/v1/grants"), ("GET", "/v1/groups"), ("POST", "/v1/groups"),
    ("GET", "/v1/groups/x"), ("PUT", "/v1/groups/x/members/user:x"),
    ("DELETE", "/v1/groups/x/members/user:x"), ("GET", "/v1/explain"),
]  # fmt: skip


def test_every_route_with_data_turns_away_who_has_no_key_before_it_reads_anything(
    still_home: Home,
) -> None:
    responses = [still_home.ask(None, method, url, content=b"{broken") for method, url in ROUTES]

    assert {each.status_code for each in responses} == {401}
    assert len({each.text for each in responses}) == 1
    assert {each.headers["www-authenticate"] for each in responses} == {"Bearer"}


@pytest.mark.parametrize("url", ["/metrics", "/v1/memory"])
def test_what_is_the_operators_is_not_there_for_others(still_home: Home, url: str) -> None:
    responses = [still_home.ask(who, "GET", url) for who in (None, "bo", "mo", "tess")]

    assert {each.status_code for each in responses} == {404}
    assert len({each.text for each in responses}) == 1


def test_the_list_of_routes_above_is_whole(still_home: Home) -> None:
    told = {url.split("/x")[0].split("?")[0] for _, url in ROUTES}
    # The last two are the operator's: for everybody else, keys or none, there is nothing there.
    open_to_all = {"/healthz", "/readyz", "/metrics", "/v1/memory"}

    found = {
        (method, each.path)
        for each in iter_route_contexts(still_home.app.routes)
        if isinstance(each.original_route, APIRoute)
        for method in each.methods or ()
        if each.path is not None
    }
    assert len(found) == len(ROUTES) + len(open_to_all)
    assert told <= {path.split("/{")[0] for _, path in found}


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic {key}",
        "{key}",
        "Bearer {key}x",
        "Bearer ost_0_0",
        "Bearer \u00e9",
    ],
)
def test_whatever_is_wrong_with_a_key_the_answer_is_the_same(
    still_home: Home, authorization: str
) -> None:
    none = still_home.ask(None, "GET", "/v1/models")
    given = authorization.format(key=still_home.keys["bo"]).encode("latin-1")

    response = still_home.ask(None, "GET", "/v1/models", headers={b"Authorization": given})

    assert (response.status_code, response.text) == (401, none.text)
    assert response.json()["error"]["code"] == "invalid_api_key"


def test_two_authorization_headers_are_nobodys(still_home: Home) -> None:
    key = f"Bearer {still_home.keys['bo']}".encode()

    response = still_home.ask("bo", "GET", "/v1/models", headers={b"authorization": key})

    assert response.status_code == 401


def test_a_key_stops_at_the_next_request_when_it_is_revoked_or_ends(home: Home) -> None:
    with home.house.database.writing(home.tenants["acme"]) as writing:
        row = find_principal(writing.session, "user:bo")
        ended = create_key(writing, row, bytes.fromhex(SECRET), expires_s=time.time() - 1)
    home.keys["ended"] = ended
    assert home.ask("bo", "GET", "/v1/models").status_code == 200

    with home.house.database.writing(home.tenants["acme"]) as writing:
        assert revoke_key(writing, key_prefix(home.keys["bo"]))

    assert home.ask("bo", "GET", "/v1/models").status_code == 401
    assert home.ask("ended", "GET", "/v1/models").status_code == 401


def test_headers_and_bodies_that_name_a_person_or_tenant_name_nobody(home: Home) -> None:
    home.document("closed", "Pay", "The pay list names everybody.")
    spoof = {"X-Tenant": "rival", "X-User": "ana", "X-Forwarded-User": "ana"}
    body = {"query": "pay list"}

    plain = home.ask("bo", "POST", "/v1/search", json=body)
    spoofed = home.ask("bo", "POST", "/v1/search", json=body, headers=spoof)
    named = home.ask("bo", "POST", "/v1/search", json={**body, "user": "ana", "tenant": "acme"})

    assert plain.json()["results"] == spoofed.json()["results"] == []
    assert named.status_code == 400
    assert home.ask("ana", "POST", "/v1/search", json=body).json()["returned"] == 1


def test_a_key_of_another_tenant_sees_that_tenants_documents_alone(home: Home) -> None:
    home.document("open", "Gate", "The gate opens at nine.")

    found = home.ask("zoe", "GET", "/v1/documents").json()

    assert found["data"] == []


def test_the_operators_token_opens_metrics_and_nothing_else(still_home: Home) -> None:
    still_home.keys["operator"] = OPERATOR

    assert still_home.ask("operator", "GET", "/metrics").status_code == 200
    assert b"ostiary_stage_seconds" in still_home.ask("operator", "GET", "/metrics").content
    assert still_home.ask("operator", "GET", "/v1/models").status_code == 401
    unknown = still_home.ask("tess", "GET", "/nowhere")
    for who in ("tess", None):
        closed = still_home.ask(who, "GET", "/metrics")
        assert (closed.status_code, closed.text) == (404, unknown.text)
