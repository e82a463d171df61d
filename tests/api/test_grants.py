"""/v1/grants and /v1/groups over HTTP."""

from __future__ import annotations

import pytest

from tests.api.houses import Home

CLOSED = {"type": "collection", "path": "closed"}
LINE = {"resource": CLOSED, "principal": "group:everyone", "action": "read"}


def test_a_grant_is_given_listed_in_force_and_revoked(home: Home) -> None:
    here = home.document("closed", "Pay", "The pay list.")
    address = "/v1/grants?type=collection&path=closed"

    first = home.ask("mo", "POST", "/v1/grants", json=LINE)
    again = home.ask("mo", "POST", "/v1/grants", json=LINE)
    listed = home.ask("mo", "GET", address).json()["data"]
    seen = home.ask("bo", "GET", f"/v1/documents/{here}").status_code
    line = "&principal=group:everyone&action=read"
    revoked = home.ask("mo", "DELETE", address + line)

    assert (first.status_code, again.status_code, seen) == (201, 200, 200)
    assert first.json() == {
        "object": "grant", "resource": CLOSED, "principal": "group:everyone", "action": "read",
        "effect": "allow", "expires_s": None,
    }  # fmt: skip
    assert first.json() in listed
    assert (revoked.status_code, revoked.content) == (204, b"")
    assert home.ask("bo", "GET", f"/v1/documents/{here}").status_code == 404
    assert home.ask("mo", "DELETE", address + line).status_code == 404


def test_grants_stand_on_tenants_documents_and_groups_too(home: Home) -> None:
    here = home.document("closed", "Pay", "The pay list.")
    places = [{"type": "tenant"}, {"type": "document", "id": here}]

    for place in places:
        given = home.ask("tess", "POST", "/v1/grants", json={
            "resource": place, "principal": "user:bo", "action": "read", "effect": "deny",
            "expires_s": 4e9,
        })  # fmt: skip
        assert (given.status_code, given.json()["resource"]) == (201, place)
    group = home.ask("tess", "POST", "/v1/grants", json={
        "resource": {"type": "group", "name": "inner"}, "principal": "user:mo", "action": "manage",
    })  # fmt: skip

    assert group.status_code == 201
    assert home.ask("mo", "GET", "/v1/groups/inner").json()["members"] == ["user:ana"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({**LINE, "action": "own"}, "action"),
        ({**LINE, "effect": "maybe"}, "effect"),
        ({**LINE, "expires_s": 0}, "expires_s"),
        ({**LINE, "resource": {"type": "collection"}}, "resource"),
        ({**LINE, "resource": {"type": "tenant", "path": "closed"}}, "resource"),
        ({**LINE, "resource": {"type": "document", "path": "closed"}}, "resource"),
        ({**LINE, "resource": {"type": "index"}}, "resource.type"),
        ({**LINE, "tenant": "rival"}, "tenant"),
    ],
)
def test_a_grant_that_is_not_understood_names_the_field(
    still_home: Home, body: dict[str, object], param: str
) -> None:
    response = still_home.ask("mo", "POST", "/v1/grants", json=body)

    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    "query",
    ["", "type=collection", "type=collection&path=a&path=b", "type=tenant&x=1",
     "type=collection&path=%00"],
)  # fmt: skip
def test_a_query_that_is_not_understood_is_refused(still_home: Home, query: str) -> None:
    assert still_home.ask("mo", "GET", f"/v1/grants?{query}").status_code == 400


def test_who_may_see_a_place_but_not_manage_it_is_told_so(still_home: Home) -> None:
    for place in ("type=collection&path=open", "type=tenant"):
        assert still_home.ask("bo", "GET", f"/v1/grants?{place}").status_code == 403
    assert still_home.ask("bo", "GET", "/v1/grants?type=collection&path=closed").status_code == 404


def test_groups_are_made_filled_and_shown_by_who_manages_them(home: Home) -> None:
    made = [
        home.ask("tess", "POST", "/v1/groups", json={"name": "staff", "display": "All staff"})
        for _ in range(2)
    ]
    put = home.ask("tess", "PUT", "/v1/groups/staff/members/user:bo")
    nested = home.ask("tess", "PUT", "/v1/groups/inner/members/group:staff")
    cycle = home.ask("tess", "PUT", "/v1/groups/staff/members/group:inner")

    assert [each.status_code for each in made] == [201, 200]
    assert (put.status_code, nested.status_code, cycle.status_code) == (204, 204, 422)
    assert home.ask("tess", "GET", "/v1/groups/staff").json() == {
        "object": "group", "name": "staff", "display": "All staff", "manages": True,
        "members": ["user:bo"],
    }  # fmt: skip
    assert home.ask("bo", "GET", "/v1/groups/staff").json() == {
        "object": "group", "name": "staff", "display": "All staff", "manages": False,
    }  # fmt: skip
    names = [each["name"] for each in home.ask("bo", "GET", "/v1/groups").json()["data"]]
    assert names == ["everyone", "inner", "staff"]
    gone = home.ask("tess", "DELETE", "/v1/groups/staff/members/user:bo")
    assert gone.status_code == 204
    assert home.ask("bo", "GET", "/v1/groups/staff").status_code == 404


def test_a_member_takes_nobody_in_and_makes_no_group(home: Home) -> None:
    assert home.ask("ana", "PUT", "/v1/groups/inner/members/user:ana").status_code == 403
    assert home.ask("ana", "POST", "/v1/groups", json={"name": "mine"}).status_code == 403
    assert home.ask("tess", "POST", "/v1/groups", json={"name": "a b"}).status_code == 422
    assert home.ask("tess", "PUT", "/v1/groups/inner/members/user:nobody").status_code == 422
    assert home.ask("tess", "DELETE", "/v1/groups/inner/members/user:bo").status_code == 404
