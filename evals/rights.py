"""Rights at every door: search, opening and explanation must agree with what may be read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from scipy.stats import binomtest

from acl.types import Action
from evals.checks import Check, Checked, RightsSet, bound, load_rights, run_checks
from evals.kept import Kept
from evals.report import Better, Glance, Measure
from evals.server import Installation, installation

# What must never be seen.
NEVER = ("leak", "fewer results than there are", "allowed and not opened", "explained wrongly")

_JUDGE = "user:ostiary-judge"
_FILES = ("documents.jsonl", "principals.jsonl", "checks.jsonl")


@dataclass(frozen=True, slots=True)
class Doors:
    """What three doors said of one check.

    opened: whether the document could be opened. explained: what the explanation told the
    tenant's manager; None where nobody was there to ask.
    """

    checked: Checked
    opened: bool
    explained: bool | None

    @property
    def is_leak(self) -> bool:
        """Whether anything came, by search or by opening, that the user may not read."""
        return self.checked.is_leak or (self.opened and not self.checked.check.allowed)

    @property
    def is_shut_out(self) -> bool:
        """Whether an allowed document could not be opened."""
        return self.checked.check.allowed and not self.opened

    @property
    def disagrees(self) -> bool:
        """Whether the explanation said another thing than what is right."""
        return self.explained is not None and self.explained != self.checked.check.allowed


@dataclass(frozen=True, slots=True)
class Asking:
    """How a server is asked: keys by user, names of documents both ways, passages by name."""

    client: httpx.Client
    keys: Mapping[str, str]
    name_of: Mapping[str, str]
    n_passages: Mapping[str, int]
    judge_key: str = ""

    def ask(self, rights: RightsSet, check: Check) -> Doors:
        """Ask the doors. Raises: httpx.HTTPStatusError if one answers neither yes nor no."""
        found = next(run_checks(self.client, rights, [check], self.keys.__getitem__, self.name_of,
                                self.n_passages))  # fmt: skip
        public = next(p for p, name in self.name_of.items() if name == check.document)
        opened = self._get(f"/v1/documents/{public}", self.keys[check.user])
        if opened.status_code != 404:
            opened.raise_for_status()
        explained = None
        if self.judge_key:
            told = self._get("/v1/explain", self.judge_key, type="document", id=public,
                             principal=check.user, action="read")  # fmt: skip
            explained = bool(told.raise_for_status().json()["allowed"])
        return Doors(found, opened.status_code == 200, explained)

    def _get(self, path: str, key: str, **query: str) -> httpx.Response:
        return self.client.get(path, params=query, headers={"Authorization": f"Bearer {key}"})


def judge_set(
    folder: Path, out: Path, n_checks: int, told: Callable[[str], object], **settings: str
) -> list[Doors]:
    """Judge a permissions collection on a server of its own, filled by the users' commands.

    Args: out: where results are kept as they come. n_checks: the first so many; 0 for all.
    Raises: ValueError for a folder that is no such collection; RuntimeError if the server fails.
    """
    rights = _loaded(folder)
    chosen = rights.checks[:n_checks] if n_checks else rights.checks
    with Kept(out / f"{folder.name}.checks.jsonl", {"sha256": _digest(folder)}) as kept:
        if any(str(number) not in kept.done for number in range(len(chosen))):
            told(f"{folder.name}: people and documents")
            with installation(rights.tenant, **settings) as house:
                _fill(house, folder, rights.tenant)
                _ask_all(house, rights, chosen, kept, lambda n: told(
                    f"{folder.name}: {n} of {len(chosen)} checks"))  # fmt: skip
        return [_doors(check, kept.done[str(n)]) for n, check in enumerate(chosen)]


def ask_running(asking: Asking, rights: RightsSet, checks: Sequence[Check]) -> Iterator[Doors]:
    """Judge on a running server that holds the collection already."""
    return (asking.ask(rights, check) for check in checks)


def measures_of(name: str, done: Sequence[Doors]) -> list[Measure]:
    """Give the rates of a set; an upper bound at 95 % stands beside what never happened."""
    n = len(done)
    allowed = [each for each in done if each.checked.check.allowed]
    explained = [each for each in done if each.explained is not None]
    rates = [
        ("leak", sum(each.is_leak for each in done), n),
        ("fewer results than there are", sum(each.checked.n_short > 0 for each in done), n),
        ("allowed and not found in 100", sum(each.checked.is_miss for each in done), len(allowed)),
        ("allowed and not opened", sum(each.is_shut_out for each in done), len(allowed)),
        ("explained wrongly", sum(each.disagrees for each in explained), len(explained)),
    ]
    found = [_rate(f"rights/{name}/{what}", events, of) for what, events, of in rates if of]
    first = sum(each.checked.rank == 1 for each in allowed)
    if allowed:
        found.append(Measure(f"rights/{name}/allowed document first", first / len(allowed),
                             len(allowed)))  # fmt: skip
    return found


def glance(measures: Sequence[Measure]) -> Glance:
    """Give a row a set, a column a rate: events of trials."""
    sets = list(dict.fromkeys(each.name.split("/")[1] for each in measures))
    heads = list(dict.fromkeys(each.name.split("/")[2] for each in measures))
    by_name = {each.name: each for each in measures}
    rows = []
    for one in sets:
        cells = [by_name.get(f"rights/{one}/{head}") for head in heads]
        rows.append((one, *("" if m is None else f"{round(m.value * m.n)} of {m.n}"
                            for m in cells)))  # fmt: skip
    return Glance("Rights", ("set", *heads), tuple(rows))


def faults(measures: Sequence[Measure]) -> tuple[str, ...]:
    """Name what must never be seen and was."""
    return tuple(
        f"{m.name}: {m.note}" for m in measures if m.name.rpartition("/")[2] in NEVER and m.value
    )


def _rate(name: str, events: int, n: int) -> Measure:
    if events == 0:
        return Measure(name, 0.0, n, Better.LOWER, low=0.0, high=bound(0, n),
                       note="none; bound by the rule of three")  # fmt: skip
    ci = binomtest(events, n).proportion_ci(method="exact")
    return Measure(name, events / n, n, Better.LOWER, low=float(ci.low), high=float(ci.high),
                   note=f"{events} of {n}")  # fmt: skip


def _loaded(folder: Path) -> RightsSet:
    if missing := [name for name in _FILES if not (folder / name).exists()]:
        raise ValueError(f"{folder} is no permissions collection: no {', '.join(missing)}")
    return load_rights(folder)


def _fill(house: Installation, folder: Path, collection: str) -> None:
    house.say("user", "import", str(folder / "principals.jsonl"))
    house.say("user", "add", _JUDGE.partition(":")[2])
    # Who manages the tenant may name everybody in it.
    house.say("grant", _JUDGE, "manage", "tenant")
    house.say("ingest", str(folder / "documents.jsonl"), "--collection", collection)


def _ask_all(
    house: Installation,
    rights: RightsSet,
    chosen: Sequence[Check],
    kept: Kept,
    told: Callable[[int], object],
) -> None:
    keys = house.keys(_JUDGE, *(each.user for each in chosen))
    name_of, n_passages = house.stored()
    # On each document, for those that name their readers inherit nothing. To manage is not to
    # read: the judge may ask why, and sees nothing.
    asked = {each.document for each in chosen}
    house.give(_JUDGE, Action.MANAGE, (p for p, name in name_of.items() if name in asked))
    with house.serving() as url, httpx.Client(base_url=url, timeout=60) as client:
        asking = Asking(client, keys, name_of, n_passages, keys[_JUDGE])
        for number, check in enumerate(chosen):
            if str(number) not in kept.done:
                kept.add(str(number), _line(asking.ask(rights, check)))
            told(number + 1)


def _line(doors: Doors) -> dict[str, object]:
    found = {name: value for name, value in asdict(doors.checked).items() if name != "check"}
    return {**found, "opened": doors.opened, "explained": doors.explained}


def _doors(check: Check, line: Mapping[str, object]) -> Doors:
    numbers = {name: line[name] for name in ("rank", "n_results", "n_foreign", "n_short")}
    checked = Checked(check, **numbers)  # type: ignore[arg-type] # written by _line
    explained = line["explained"]
    return Doors(checked, bool(line["opened"]), None if explained is None else bool(explained))


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for name in _FILES:
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()
