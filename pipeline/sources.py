"""What there is to ingest: files under paths, lines of JSONL, each with its stable key."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.access import AccessSheet, Rule
from pipeline.errors import RulesRefused
from retrieval.errors import ParseFailed

# What parsers read; other files in a folder are passed over, a named one is tried and told.
SUFFIXES = frozenset({".txt", ".md", ".markdown", ".html", ".htm", ".pdf", ".docx"})


@dataclass(frozen=True, slots=True)
class Text:
    """A document that comes as text with a title."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Item:
    """One document to ingest.

    `shown` names it in reports, `source` is its stable key, `rule` is None where the run
    says nothing about its own access: then what it has stays.
    """

    shown: str
    source: str
    collection: str
    rule: Rule | None
    load: Callable[[], bytes | Text]


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    text: str
    title: str = ""
    readers: tuple[str, ...] | None = None


def from_paths(paths: list[Path], collection: str, rule: Rule | None) -> list[Item]:
    """List the files under paths, each keyed by collection and path below what was named.

    Raises: RulesRefused if a path does not exist, or two files would have one key.
    """
    items = []
    for path in paths:
        if not path.exists():
            raise RulesRefused(f"{path}: there is no such file or folder")
        inside = [path] if path.is_file() else list(_walk(path))
        top = path.parent if path.is_file() else path
        for file in inside:
            key = f"{collection}/{_key(file.relative_to(top))}"
            items.append(_file(file, key, collection, rule))
    return _distinct(items)


def from_sheet(paths: list[Path], folder: Path, sheet: AccessSheet) -> list[Item]:
    """List the files under paths that lie in the access file's folder, with its rules.

    Raises: RulesRefused if a path lies outside.
    """
    items = []
    for path in paths:
        if not path.exists():
            raise RulesRefused(f"{path}: there is no such file or folder")
        for file in [path] if path.is_file() else _walk(path):
            try:
                below = _key(file.absolute().relative_to(folder.absolute()))
            except ValueError:
                raise RulesRefused(f"{file}: lies outside {folder}, the access file's") from None
            rule = sheet.documents.get(below, Rule())
            items.append(_file(file, f"{sheet.root}/{below}", sheet.collection_of(below), rule))
    return _distinct(items)


def from_jsonl(path: Path, collection: str, rule: Rule | None) -> list[Item]:
    """List the documents of a JSONL file: id, text, and optionally title and readers.

    `readers` ("user:NAME", "group:NAME") become read grants of the document, and cut it from
    what its collection allows: exactly they read it, whatever is given above.
    Raises: RulesRefused naming the lines that are wrong.
    """
    items, faults = [], []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as failure:
        raise RulesRefused(f"{path}: can't be read: {failure}") from failure
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            item = _Line.model_validate(json.loads(line))
        except ValidationError as failure:
            faults.append(f"line {number}: {first_fault(failure)}")
            continue
        except ValueError as failure:
            faults.append(f"line {number}: is not JSON: {failure}")
            continue
        own = rule if item.readers is None else Rule(read=item.readers, cut=True)
        text = Text(_line(item.title) or item.id, _clean(item.text))
        shown = f"{path.name}:{number} {item.id}"
        items.append(Item(shown, f"{collection}/{item.id}", collection, own, _given(text)))
    if faults:
        raise RulesRefused(f"{path}: nothing was ingested: " + "; ".join(faults[:10]))
    return _distinct(items)


def first_fault(failure: ValidationError) -> str:
    """Say in one line what is wrong first, and where."""
    first = failure.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def _walk(folder: Path) -> Iterator[Path]:
    # Links are passed over: a loop ends nowhere, and a link out of the folder would bring in
    # what nobody meant. A link that is named itself is followed.
    for top, folders, files in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(files):
            file = Path(top) / name
            passed = name.startswith(".") or file.is_symlink()
            if not passed and file.suffix.lower() in SUFFIXES:
                yield file
        folders[:] = [each for each in folders if not each.startswith(".")]


def _file(file: Path, key: str, collection: str, rule: Rule | None) -> Item:
    def load() -> bytes:
        try:
            return file.read_bytes()
        except OSError as failure:
            raise ParseFailed(f"can't be read: {failure.strerror}") from failure

    return Item(_clean(str(file)), key, collection, rule, load)


def _given(text: Text) -> Callable[[], Text]:
    return lambda: text


def _key(relative: Path) -> str:
    # One name has one key, however its accents are composed.
    return _clean(unicodedata.normalize("NFC", relative.as_posix()))


def _clean(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "")


def _line(title: str) -> str:
    return " ".join(_clean(title).split())[:300]


def _distinct(items: list[Item]) -> list[Item]:
    seen: dict[str, str] = {}
    for item in items:
        if item.source in seen and seen[item.source] != item.shown:
            raise RulesRefused(f"{item.shown} and {seen[item.source]} have one key, {item.source}")
        seen[item.source] = item.shown
    return list({item.source: item for item in items}.values())
