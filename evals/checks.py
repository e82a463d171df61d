"""Rights checks over REST: is each allowed document found, does no forbidden one ever come."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from sqlalchemy import func, select

from acl.directory import find_principal
from acl.keys import create_key
from acl.session import Database
from acl.tables import DocumentRow
from retrieval.tables import ContentRow, PassageRow

# A server gives at most so many results by default.
DEPTH = 100
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Check:
    """One judgement: may this user read this document, asked by this query."""

    user: str
    query: str
    document: str
    allowed: bool


@dataclass(frozen=True, slots=True)
class RightsSet:
    """A permissions collection: readers by document, groups by user, and its checks."""

    tenant: str
    readers: Mapping[str, frozenset[str]]
    groups: Mapping[str, frozenset[str]]
    checks: tuple[Check, ...]

    def readable(self, user: str) -> frozenset[str]:
        """Give the documents that a user may read, by the collection's own rule."""
        who = {user, *self.groups.get(user, ())}
        return frozenset(name for name, readers in self.readers.items() if readers & who)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found. `rank` is the document's first place from 1, None if it is not there.

    `n_foreign` counts results of documents the user may not read. `n_short` is how many
    results were missing to the number asked for while permitted passages remained.
    """

    check: Check
    rank: int | None
    n_results: int
    n_foreign: int
    n_short: int

    @property
    def is_leak(self) -> bool:
        """Whether anything came that the user may not read."""
        return self.n_foreign > 0 or (self.rank is not None and not self.check.allowed)

    @property
    def is_miss(self) -> bool:
        """Whether an allowed document was not found."""
        return self.check.allowed and self.rank is None


def load_rights(folder: Path) -> RightsSet:
    """Load documents, principals and checks (JSONL) of a permissions collection."""
    documents = list(_lines(folder / "documents.jsonl"))
    groups = {
        str(line["user"]): frozenset(_texts(line["groups"]))
        for line in _lines(folder / "principals.jsonl")
    }
    checks = tuple(
        Check(str(line["user"]), str(line["query"]), str(line["doc"]), bool(line["allowed"]))
        for line in _lines(folder / "checks.jsonl")
    )
    readers = {str(each["id"]): frozenset(_texts(each["readers"])) for each in documents}
    return RightsSet(str(documents[0]["tenant"]), readers, groups, checks)


def run_checks(
    client: httpx.Client,
    rights: RightsSet,
    checks: Sequence[Check],
    key_of: Callable[[str], str],
    name_of: Mapping[str, str],
    n_passages: Mapping[str, int],
) -> Iterator[Checked]:
    """Ask a server each check's query as its user, and judge every result.

    Args:
        client: with the server's base URL.
        key_of: gives a user's API key.
        name_of: maps the server's document ids to the collection's.
        n_passages: passages of each document of the collection, for what "short" means.

    Raises: httpx.HTTPStatusError if the server does not answer a check.
    """
    for check in checks:
        reply = client.post(
            "/v1/search",
            json={"query": check.query, "top_k": DEPTH},
            headers={"Authorization": f"Bearer {key_of(check.user)}"},
        )
        reply.raise_for_status()
        found = [name_of.get(each["document"], "") for each in reply.json()["results"]]
        permitted = rights.readable(check.user)
        rank = found.index(check.document) + 1 if check.document in found else None
        wanted = min(DEPTH, sum(n_passages[name] for name in permitted))
        n_foreign = sum(name not in permitted for name in found)
        yield Checked(check, rank, len(found), n_foreign, max(0, wanted - len(found)))


def stored(database: Database, tenant: str) -> tuple[dict[str, str], dict[str, int]]:
    """Map public document ids to the ids they were ingested under, and those to passages."""
    with database.reading(tenant) as session:
        rows = session.execute(
            select(DocumentRow.public_id, ContentRow.source, func.count(PassageRow.id))
            .join(ContentRow, ContentRow.document_id == DocumentRow.id)
            .join(PassageRow, PassageRow.document_id == DocumentRow.id)
            .group_by(DocumentRow.public_id, ContentRow.source)
        ).all()
    name_of = {public: source.partition("/")[2] for public, source, _ in rows}
    return name_of, {source.partition("/")[2]: n for _, source, n in rows}


def keys_of(database: Database, tenant: str, who: Iterable[str], secret: bytes) -> dict[str, str]:
    """Make keys that live an hour, one a principal. Raises: UnknownPrincipal."""
    end = time.time() + _HOUR_S
    with database.writing(tenant) as writing:
        return {
            each: create_key(writing, find_principal(writing.session, each), secret, "evals", end)
            for each in sorted(set(who))
        }


def bound(n_events: int, n_checks: int) -> float:
    """Bound the rate of something that never happened in n checks, at 95 %.

    Source: Hanley and Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 1983.
    """
    return 3 / n_checks if n_events == 0 and n_checks else float("nan")


def _lines(path: Path) -> Iterator[dict[str, object]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def _texts(value: object) -> Iterable[str]:
    if not isinstance(value, list):
        raise ValueError(f"a list was expected, found {type(value).__name__}")
    return (str(each) for each in value)
