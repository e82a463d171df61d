"""Rules of the house that a reader of the source can check, and import-linter can't state."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatch

import pytest

from tests.architecture.source import (
    PACKAGES,
    ROOT,
    Source,
    calls,
    goes_past_sessions,
    imports,
    makes_scope,
    product,
    undocumented,
)

FENCES = {
    "casbin": ["acl/policy.py"],
    "faiss": ["retrieval/lists/*.py"],
    "numkong": ["retrieval/lists/bytecodes.py"],
    "sentence_transformers": ["retrieval/encode.py", "retrieval/rerank.py"],
    "xllamacpp": ["generation/embedded.py"],
    "pypdfium2": ["retrieval/parse*.py"],
    "docx": ["retrieval/parse*.py"],
    "bs4": ["retrieval/parse*.py"],
    "fastapi": ["api/*"],
    "starlette": ["api/*"],
}
# Written by Alembic, one for each step of the schema; their form is Alembic's.
SCHEMAS = ["pipeline/migrations/versions/*"]


def calling(name: str) -> Callable[[Source], bool]:
    """Say of a file whether it calls something of this name."""
    return lambda source: any(called == name for called, _ in calls(source))


def importing(name: str) -> Callable[[Source], bool]:
    """Say of a file whether it imports this module."""
    return lambda source: name in imports(source)


def missing(name: str) -> Callable[[Source], bool]:
    """Say of a file whether this is all that is public in it without a docstring."""
    return lambda source: undocumented(source) == [name]


def outside(allowed: list[str], rule: Callable[[Source], bool]) -> list[str]:
    """Name the files where something is done that only others may do."""
    return [
        source.path
        for source in product()
        if not any(fnmatch(source.path, pattern) for pattern in allowed) and rule(source)
    ]


def test_all_packages_are_read() -> None:
    assert {source.path.partition("/")[0] for source in product()} == set(PACKAGES)


def test_a_scope_is_made_in_one_place_only() -> None:
    assert outside(["acl/authorize.py"], makes_scope) == []
    assert makes_scope(Source("", (ROOT / "acl/authorize.py").read_text()))


def test_only_sessions_of_acl_commit() -> None:
    assert outside(["acl/session.py"], calling("commit")) == []
    assert outside([], calling("commit")) == ["acl/session.py"]


def test_only_acl_and_migrations_see_every_tenant() -> None:
    assert outside(["acl/*", "pipeline/migrations/*"], calling("unpinned")) == []
    assert outside([], calling("unpinned")) != []


def test_only_named_files_speak_to_the_database_past_our_sessions() -> None:
    """A statement without the tenant's criterion once showed another tenant's rows elsewhere."""
    allowed = [
        "acl/session.py",  # makes the sessions
        "acl/row_security.py",  # the wall itself, and the tenant's name at each begin
        "acl/hints.py",  # listens, reads no row
        "pipeline/migrate.py",  # schema and incarnation, no tenant's rows
    ]
    assert outside([*allowed, *SCHEMAS], goes_past_sessions) == []


def test_only_the_command_line_and_reports_print() -> None:
    assert (
        outside(["api/cli*.py", "evals/__main__.py", "evals/commands*.py"], calling("print")) == []
    )


@pytest.mark.parametrize("library", FENCES)
def test_a_library_is_imported_behind_its_fence_only(library: str) -> None:
    assert outside(FENCES[library], importing(library)) == []


def test_the_product_does_not_import_its_tests() -> None:
    assert outside([], importing("tests")) == []


def test_no_file_is_longer_than_300_lines() -> None:
    assert outside(SCHEMAS, lambda source: len(source.text.splitlines()) > 300) == []


def test_what_is_public_says_what_it_is() -> None:
    silent = outside(SCHEMAS, lambda source: undocumented(source) != [])

    assert [(s.path, undocumented(s)) for s in product() if s.path in silent] == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (makes_scope, "AccessScope(1)"),
        (makes_scope, "def f():\n    return types.AccessScope(1)"),
        (makes_scope, "from acl.types import AccessScope as Right"),
        (makes_scope, "dataclasses.replace(scope, classes=all_of_them)"),
        (makes_scope, "object.__new__(AccessScope)"),
        (calling("commit"), "with x:\n    self._session.commit()"),
        (calling("print"), "print(1)"),
        (goes_past_sessions, "from sqlalchemy import select, text"),
        (goes_past_sessions, "session.connection().exec_driver_sql('SELECT 1')"),
        (goes_past_sessions, "with self._database.engine.connect() as c: 1"),
        (goes_past_sessions, "with engine.begin() as c: 1"),
        (goes_past_sessions, "select(PassageRow.__table__.c.text)"),
        (goes_past_sessions, "from sqlalchemy.orm import Session\nSession(engine)"),
        (importing("faiss"), "def f():\n    import faiss.swigfaiss"),
        (importing("faiss"), "from faiss import IndexFlat"),
        (importing("faiss"), "import_module('faiss.contrib')"),
        (missing("A.f"), '"doc"\nclass A:\n    "doc"\n    def f(self): 1'),
        (missing("the module"), "def _f(): 1"),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_found(rule: Callable[[Source], bool], text: str) -> None:
    assert rule(Source("made/up.py", text))
    assert not rule(Source("made/up.py", '"""Says what it is."""\n'))
