"""Documents on behalf of callers: who may do what, and what is written down of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from acl.authorize import Authority
from acl.directory import find_principal
from acl.documents import document_by_public_id
from acl.errors import NotAllowed, UnknownPrincipal, UnknownResource
from acl.grants import give
from acl.keys import key_prefix, revoke_key
from acl.session import counters
from acl.tables import AuditRow
from acl.types import Action, Effect, Grant, Level, Resource
from pipeline.access import Rule
from pipeline.documents import Documents, Upload
from pipeline.errors import RulesRefused
from pipeline.ingest import Result
from pipeline.making import Made, Maker
from pipeline.naming import Where
from pipeline.rights import Line
from retrieval.chunk import Chunker
from retrieval.errors import ParseFailed
from retrieval.hashed import HashedEncoder
from retrieval.parse import ParseLimits
from retrieval.settings import RetrievalSettings
from tests.api.houses import Home, OpenSandbox, open_home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A house with people in it."""
    with open_home(tmp_path) as opened:
        yield opened


class CountingMaker(Maker):
    """Makes as the real one does, counts how often, and lets something happen meanwhile."""

    n_made = 0

    def __init__(self) -> None:
        encoder = HashedEncoder()
        settings = RetrievalSettings()
        chunker = Chunker(encoder.tokenizer, settings.passage_tokens, 0)
        super().__init__(OpenSandbox(ParseLimits()), chunker, encoder, settings)

    def make(self, *arguments: object, **named: object) -> Made:
        """Count and make."""
        self.n_made += 1
        return super().make(*arguments, **named)  # type: ignore[arg-type]


def _audit(home: Home) -> list[tuple[str, str, str]]:
    with home.house.database.reading(home.tenants["acme"]) as session:
        rows = session.scalars(select(AuditRow).order_by(AuditRow.id))
        return [(row.event, row.resource, row.outcome) for row in rows]


def _upload(
    home: Home, who: str, content: bytes = b"text", rule: Rule | None = None, path: str = "open"
) -> tuple[str, Result]:
    sent = Upload(path, "a.txt", content, rule=rule)
    stored = home.house.documents.upload(home.principal(who), sent)
    return stored.id, stored.result


def test_who_may_not_write_costs_no_making(home: Home) -> None:
    maker = CountingMaker()
    documents = Documents(home.house.database, home.house.authority, maker, home.house.audit)

    with pytest.raises(NotAllowed):
        documents.upload(home.principal("bo"), Upload("open", "a.txt", b"text"))
    with pytest.raises(UnknownResource):
        documents.upload(home.principal("bo"), Upload("closed", "a.txt", b"text"))
    assert maker.n_made == 0

    for _ in range(2):
        documents.upload(home.principal("wes"), Upload("open", "a.txt", b"text"))
    assert maker.n_made == 1


def test_a_right_that_goes_while_a_file_is_made_is_missed_at_the_write(home: Home) -> None:
    class Slow(CountingMaker):
        def make(self, *arguments: object, **named: object) -> Made:
            home.grant("user:wes", "write", "open", effect="deny")
            return super().make(*arguments, **named)

    documents = Documents(home.house.database, home.house.authority, Slow(), home.house.audit)

    with pytest.raises(NotAllowed):
        documents.upload(home.principal("wes"), Upload("open", "a.txt", b"text"))

    assert documents.list(home.principal("bo"), None, 9) == ()


def test_a_key_revoked_after_the_door_changes_nothing_inside(home: Home) -> None:
    wes = home.principal("wes")
    with home.house.database.writing(wes.tenant) as writing:
        revoke_key(writing, key_prefix(home.keys["wes"]))

    with pytest.raises(UnknownPrincipal):
        home.house.documents.upload(wes, Upload("open", "a.txt", b"text"))


def test_naming_readers_needs_manage_and_not_write_alone(home: Home) -> None:
    rule = Rule(read=("user:wes",))
    with pytest.raises(NotAllowed):
        _upload(home, "wes", rule=rule)
    home.grant("user:wes", "manage", "open")

    here, result = _upload(home, "wes", rule=rule)

    assert result is Result.CREATED
    assert home.house.documents.access(home.principal("wes"), here) == rule
    # The collection's readers still read it: nothing was cut.
    assert home.house.documents.get(home.principal("bo"), here).id == here


def test_the_same_file_with_other_readers_is_an_update_that_makes_nothing_anew(home: Home) -> None:
    home.grant("user:wes", "manage", "open")
    maker = CountingMaker()
    documents = Documents(home.house.database, home.house.authority, maker, home.house.audit)
    wes = home.principal("wes")
    rules = [None, Rule(read=("user:wes",)), Rule(read=("user:wes",)), None]

    stored = [documents.upload(wes, Upload("open", "a.txt", b"text", rule=each)) for each in rules]

    assert [each.result.value for each in stored] == [
        "created", "updated", "unchanged", "unchanged"
    ]  # fmt: skip
    assert maker.n_made == 1
    assert documents.access(wes, stored[0].id) == Rule(read=("user:wes",))


def test_another_title_is_an_update(home: Home) -> None:
    wes = home.principal("wes")
    titles = ["", "One", "One", "", "Two"]

    stored = [
        home.house.documents.upload(wes, Upload("open", "a.txt", b"text", title=each))
        for each in titles
    ]

    assert [each.result.value for each in stored] == [
        "created", "updated", "unchanged", "unchanged", "updated"
    ]  # fmt: skip
    assert home.house.documents.get(wes, stored[0].id).title == "Two"


def test_who_cuts_a_document_off_keeps_the_management_of_it(home: Home) -> None:
    home.grant("user:wes", "manage", "open")
    here, _ = _upload(home, "wes", rule=Rule(cut=True, read=("user:wes",)))
    wes = home.principal("wes")

    assert home.house.documents.access(wes, here) == Rule(
        cut=True, read=("user:wes",), write=("user:wes",), manage=("user:wes",)
    )
    with pytest.raises(UnknownResource):
        home.house.documents.get(home.principal("bo"), here)
    assert _upload(home, "wes", b"new text") == (here, Result.UPDATED)


def test_a_deny_of_write_on_the_document_itself_stops_a_new_version(home: Home) -> None:
    here, _ = _upload(home, "wes")
    with home.house.database.writing(home.tenants["acme"]) as writing:
        row = document_by_public_id(writing.session, here)
        assert row is not None
        wes = find_principal(writing.session, "user:wes").id
        give(writing, Resource(Level.DOCUMENT, row.id), Grant(wes, Action.WRITE, Effect.DENY))

    with pytest.raises(NotAllowed):
        _upload(home, "wes", b"new text")

    home.house.documents.set_access(home.principal("tess"), here, Rule())
    with pytest.raises(NotAllowed):
        _upload(home, "wes", b"new text")


def test_the_end_of_a_grant_survives_when_its_line_is_listed_again(home: Home) -> None:
    here = home.document("closed", "Pay", "The pay list.")
    tess, where = home.principal("tess"), Where(Level.DOCUMENT, here)
    line = Line("user:bo", Action.READ, Effect.ALLOW, 4e9)
    home.house.rights.give(tess, where, line)

    home.house.documents.set_access(tess, here, Rule(read=("user:bo", "user:wes")))

    ends = {each.principal: each.expires_s for each in home.house.rights.grants(tess, where)}
    assert ends == {"user:bo": 4e9, "user:wes": None}


def test_deleting_needs_write_and_manage_where_access_is_the_documents_own(home: Home) -> None:
    plain = home.document("open", "Gate", "The gate.")
    own = home.document("open", "Door", "The door.", read=["user:ana"])
    documents, wes = home.house.documents, home.principal("wes")

    documents.delete(wes, plain)
    with pytest.raises(NotAllowed):
        documents.delete(wes, own)
    documents.delete(home.principal("tess"), own)

    assert documents.list(home.principal("bo"), None, 9) == ()


def test_to_manage_is_not_to_read(home: Home) -> None:
    here = home.document("closed", "Pay", "The pay list.")
    mo = home.principal("mo")

    assert home.house.documents.access(mo, here) == Rule()
    for read in (home.house.documents.get, home.house.documents.text):
        with pytest.raises(UnknownResource):
            read(mo, here)


def test_a_manager_of_a_collection_names_only_whom_they_may_know(home: Home) -> None:
    here = home.document("closed", "Pay", "The pay list.")
    mo, documents = home.principal("mo"), home.house.documents

    with pytest.raises(RulesRefused, match="no such principal: user:bo"):
        documents.set_access(mo, here, Rule(read=("user:bo",)))
    documents.set_access(mo, here, Rule(read=("group:everyone", "user:mo")))

    assert documents.get(home.principal("bo"), here).id == here


def test_an_upload_that_can_not_be_parsed_leaves_the_old_version(home: Home) -> None:
    here, _ = _upload(home, "wes")

    with pytest.raises(ParseFailed):
        _upload(home, "wes", b"")

    assert home.house.documents.text(home.principal("bo"), here).text == "text"


def test_what_is_done_and_what_is_denied_is_written_down(home: Home) -> None:
    here, _ = _upload(home, "wes")
    with pytest.raises(NotAllowed):
        home.house.documents.delete(home.principal("bo"), here)
    with pytest.raises(UnknownResource):
        home.house.documents.get(home.principal("bo"), "doc_" + "0" * 22)
    home.house.documents.delete(home.principal("wes"), here)

    # Denials are written in batches, so they may come after what was done later.
    home.house.audit.flush()
    assert sorted(_audit(home)) == [
        ("document.delete", f"document:{here}", "denied"),
        ("document.delete", f"document:{here}", "done"),
        ("document.get", "document:doc_" + "0" * 22, "denied"),
        ("document.upload", f"document:{here}", "done"),
    ]


def test_a_denial_moves_no_counter_that_readers_rest_on(home: Home) -> None:
    here = home.document("closed", "Pay", "The pay list.")
    tenant = home.tenants["acme"]
    with home.house.database.reading(tenant) as session:
        before = counters(session)

    with pytest.raises(UnknownResource):
        home.house.documents.delete(home.principal("bo"), here)

    with home.house.database.reading(tenant) as session:
        assert counters(session) == before


def test_a_write_that_is_undone_leaves_no_scope_behind(home: Home) -> None:
    """Rights that were never committed must not be remembered under the old epoch."""
    here = home.document("closed", "Pay", "The pay list.")
    authority: Authority = home.house.authority
    tess = home.principal("tess")

    with pytest.raises(RulesRefused):
        home.house.documents.set_access(tess, here, Rule(read=("user:bo", "user:nobody")))

    assert len(authority.mint(home.principal("bo"))) == 0
