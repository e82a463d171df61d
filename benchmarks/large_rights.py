"""What rights cost in a tenant of 100,000 access classes: compiled, minted, changed, remembered."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from unittest.mock import patch

from acl import authorize
from acl.authorize import Authority
from acl.documents import Access, place
from acl.grants import give, revoke, set_rules
from acl.groups import add_member, remove_member
from acl.session import Database, Writing, counters
from acl.tables import CollectionRow, PrincipalRow
from acl.types import Action, Effect, Grant, Level, Resource
from benchmarks.large_tenant import N_CLASSES, N_FOLDERS, N_GROUPS, N_RULES, Large
from benchmarks.report import Row, percentile, within

N_COLD, N_NEW, N_CHANGES, N_REMEMBERED = 15, 100, 20, 2_000
COLD_MS, NEW_MS, CHANGED_MS, REMEMBERED_US = 150, 10, 5, 20


def measured(database: Database, large: Large) -> list[Row]:
    """Measure in a tenant that `benchmarks.large_tenant` has built."""
    size = (
        f"{N_CLASSES:,} classes, {N_FOLDERS} folders, {N_GROUPS} nested groups, {N_RULES:,} rules"
    )
    cold = [_once_ms(lambda: Authority(database).mint(large.people[0])) for _ in range(N_COLD)]
    authority = Authority(database)
    authority.mint(large.people[0])
    new = [_once_ms(partial(authority.mint, who)) for who in large.people[1 : N_NEW + 1]]
    return [
        within(f"a scope compiled from SQL ({size}): p50", percentile(cold, 50), "ms", COLD_MS),
        Row("a scope compiled from SQL: worst", max(cold), "ms"),
        within("a scope of somebody new, from resident bitmaps: p95", percentile(new, 95), "ms",
               NEW_MS),
        *_after_changes(database, large, authority),
        _remembered(database, large, authority),
    ]  # fmt: skip


def _after_changes(database: Database, large: Large, authority: Authority) -> list[Row]:
    person, group, folder = large.people[0], large.groups[0], large.folders[5]
    allow, at = Grant(group, Action.READ, Effect.ALLOW), Resource(Level.COLLECTION, folder)
    own = Grant(person.id, Action.READ, Effect.ALLOW)
    with database.writing(large.tenant) as writing:
        document = place(writing, writing.session.get_one(CollectionRow, folder), Access())
        at_document = Resource(Level.DOCUMENT, document.id)

    def row(writing: Writing, number: int) -> PrincipalRow:
        return writing.session.get_one(PrincipalRow, number)

    def cut(writing: Writing, *, on: bool) -> None:
        there = writing.session.get_one(CollectionRow, folder)
        set_rules(writing, there, set(), on)

    last = large.groups[-1]
    changes: dict[str, tuple[Callable[[Writing], object], Callable[[Writing], object]]] = {
        "a grant on a collection given or revoked": (
            lambda w: give(w, at, allow), lambda w: revoke(w, at, allow)),
        "a grant on a document given or revoked": (
            lambda w: give(w, at_document, own), lambda w: revoke(w, at_document, own)),
        "a member added or removed": (
            lambda w: add_member(w, row(w, last), row(w, person.id)),
            lambda w: remove_member(w, row(w, last), row(w, person.id))),
        "a cut set or taken back": (lambda w: cut(w, on=True), lambda w: cut(w, on=False)),
    }  # fmt: skip
    rows = []
    for named, (there, back) in changes.items():
        took = []
        for _ in range(N_CHANGES):
            for change in (there, back):
                with database.writing(large.tenant) as writing:
                    change(writing)
                took.append(_once_ms(lambda: authority.mint(person)))
        if authority.mint(person).classes != Authority(database).mint(person).classes:
            raise RuntimeError(f"after {named} the scope is not what compiling anew gives")
        rows.append(Row(f"the scope after {named}: p50", percentile(took, 50), "ms"))
        rows.append(within(f"the scope after {named}: p95", percentile(took, 95), "ms", CHANGED_MS))
    return rows


def _remembered(database: Database, large: Large, authority: Authority) -> Row:
    """Time a scope that is remembered, without the one query for the counters."""
    person = large.people[0]
    with database.reading(large.tenant) as session:
        authority.mint_in(session, person)
        now = counters(session)
        with patch.object(authorize, "counters", lambda _: now):
            took = [
                _once_ms(lambda: authority.mint_in(session, person)) for _ in range(N_REMEMBERED)
            ]
    named = "a scope that is remembered, without the query for the counters: p95"
    return within(named, percentile(took, 95) * 1000, "us", REMEMBERED_US)


def _once_ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000
