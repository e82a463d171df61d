"""GET /v1/explain: for who manages the resource, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from acl.tables import AuditRow
from tests.api.houses import Home

CLOSED = "type=collection&path=closed"


def explain(home: Home, who: str, where: str, of: str, action: str = "read") -> dict[str, Any]:
    reply = home.ask(who, "GET", f"/v1/explain?{where}&principal={of}&action={action}")
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def test_a_manager_sees_through_which_group_somebody_reads(home: Home) -> None:
    home.grant("group:everyone", "read", "", effect="deny")
    found = explain(home, "tess", CLOSED, "user:ana")
    assert found["allowed"] is False
    assert [(g["where"], g["effect"], g["through"]) for g in found["grants"]] == [
        ("tenant", "deny", ["user:ana", "group:everyone"]),
        ("here", "allow", ["user:ana", "group:inner"]),
    ]


def test_what_stands_above_is_inherited_and_not_named(home: Home) -> None:
    """mo manages the folder alone: the grants on the tenant are not his to know."""
    home.group("board", "group:inner")
    home.grant("group:board", "read", "", effect="deny")
    found = explain(home, "mo", CLOSED, "group:inner")
    assert [(g["where"], g["effect"], g["through"]) for g in found["grants"]] == [
        ("inherited", "deny", []),
        ("here", "allow", ["group:inner"]),
    ]
    assert "board" not in str(found)


def test_groups_between_are_told_to_who_manages_the_tenant_alone(home: Home) -> None:
    home.group("cell", "user:bo")
    home.group("wing", "group:cell")
    home.grant("group:wing", "read", "closed")
    home.grant("user:bo", "write", "closed")  # so that mo may name bo
    assert explain(home, "mo", CLOSED, "user:bo")["grants"][0]["through"] == [
        "user:bo", "group:wing",
    ]  # fmt: skip
    assert explain(home, "tess", CLOSED, "user:bo")["grants"][0]["through"] == [
        "user:bo", "group:cell", "group:wing",
    ]  # fmt: skip


@pytest.mark.parametrize("who", ["ana", "bo", "wes"])
def test_without_manage_a_resource_is_as_good_as_missing(home: Home, who: str) -> None:
    there = home.ask(who, "GET", f"/v1/explain?{CLOSED}&principal=user:ana")
    missing = home.ask(who, "GET", "/v1/explain?type=collection&path=nowhere&principal=user:ana")
    assert missing.status_code == 404
    if who == "bo":
        assert (there.status_code, there.text) == (missing.status_code, missing.text)
    else:
        assert there.status_code in (403, 404)


def test_who_may_not_be_named_is_not_explained(home: Home) -> None:
    known = home.ask("mo", "GET", f"/v1/explain?{CLOSED}&principal=user:tess")
    unknown = home.ask("mo", "GET", f"/v1/explain?{CLOSED}&principal=user:nobody")
    assert (known.status_code, unknown.status_code) == (422, 422)
    assert known.text.replace("tess", "nobody") == unknown.text


def test_it_shows_rights_and_never_content_and_is_written_down(home: Home) -> None:
    home.document("closed", "Merger", "the merger is near")
    found = explain(home, "tess", CLOSED, "user:ana")
    assert "merger" not in str(found).lower()
    with home.house.database.reading(home.tenants["acme"]) as session:
        rows = session.query(AuditRow).filter(AuditRow.event == "rights.explain").all()
        assert [row.reason for row in rows] == ["user:ana read"]


@pytest.mark.parametrize(
    "query", ["", "principal=user:ana&action=eat", "principal=user:ana&principal=user:bo"]
)
def test_a_wrong_question_is_refused(home: Home, query: str) -> None:
    reply = home.ask("tess", "GET", f"/v1/explain?{CLOSED}&{query}")
    assert reply.status_code == 400
