"""A tenant's index in files: written atomically, opened by mapping, trusted only when whole.

folder/<tenant>/current.json names the incarnation, the content sequence and the parts; each
part is a folder of its own that never changes once it is named. Files are derived (law 9):
whatever is damaged, foreign or of another index version is passed over and built anew.
"""

from __future__ import annotations

import fcntl
import json
import logging
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from retrieval.index import DensePart
from retrieval.layout import Layout
from retrieval.lists.bytecodes import ByteCodes
from retrieval.part import Part
from retrieval.postings import LexicalPart
from retrieval.sealed import (
    Seal,
    loaded,
    refuse_damage,
    sync_folder,
    write,
    write_array,
)
from retrieval.tenant_index import TenantIndex

_log = logging.getLogger(__name__)

FORMAT = 1
_CURRENT, _LEXICAL = "current.json", "lexical-"


@dataclass(frozen=True, slots=True)
class IndexVersion:
    """What vectors and terms of an index are made by; files of another are not opened.

    encoder: name with fingerprint. lexicon: how words become terms.
    """

    encoder: str
    width: int
    lexicon: str
    dtype: str = "float32"
    normalised: bool = True


@dataclass(frozen=True, slots=True)
class _Found:
    """What current.json says, once it is known to be whole and ours."""

    sequence: int
    parts: list[tuple[str, str]]
    files: dict[str, Seal]


class SnapshotFolder:
    """Snapshots of the tenants of one database, of one index version.

    Args: folder: made with the first save; only its owner may look in.
    """

    def __init__(self, folder: Path, version: IndexVersion) -> None:
        self._folder = folder
        self._version = version

    @contextmanager
    def lease(self, tenant: str) -> Iterator[bool]:
        """Give whether this process alone may merge and save the tenant's index now."""
        home = self._home(tenant)
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (home / "lease").open("w") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True

    def sequence(self, tenant: str, incarnation: str) -> int | None:
        """Give the content sequence of the snapshot there is; None if there is none of ours."""
        found = self._found(tenant, incarnation)
        return None if found is None else found.sequence

    def opened_nbytes(self, tenant: str, incarnation: str) -> int:
        """Say what of the snapshot is read into memory when it is opened; 0 if there is none."""
        found = self._found(tenant, incarnation)
        files = {} if found is None else found.files
        # Ids and documents, both in order again and the orders; scales, errors and the dead.
        weights = {"ids.npy": 5, "classes.npy": 3, "scales.npy": 1, "errors.npy": 1}
        return sum(
            nbytes * weights.get(name.rpartition("/")[2], int("/" not in name))
            for name, (nbytes, _) in files.items()
        )

    def open(self, tenant: str, incarnation: str) -> TenantIndex | None:
        """Map the tenant's snapshot; None if there is none, or it is damaged or foreign.

        Every byte is read once to check it before any is trusted.
        """
        found = self._found(tenant, incarnation)
        if found is None:
            return None
        home = self._home(tenant)
        try:
            refuse_damage(home, found.files)
            parts = tuple(self._part(home, name, dead) for name, dead in found.parts)
        # Whatever is wrong with derived files, the database has what they were made from.
        except Exception as failure:
            _log.warning("index snapshot of %s is not used, it is built anew: %s", tenant, failure)
            return None
        return TenantIndex(found.sequence, self._version.width, parts)

    def save(self, tenant: str, incarnation: str, index: TenantIndex) -> TenantIndex:
        """Write the index, then name it as the current one; the caller holds the lease.

        Gives the same index with its parts mapped from the files.
        Raises: OSError if the disk is full or can't be written; the old snapshot stays.
        """
        home = self._home(tenant)
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        before = self._found(tenant, incarnation)
        known = {} if before is None else before.files
        files: dict[str, Seal] = {}
        parts: list[Part] = []
        for part in index.parts:
            # Another process may have swept away what we wrote: then it is written again.
            there = {n: s for n, s in known.items() if n.startswith(f"{part.saved}/")}
            if part.saved and there:
                files |= there
                parts.append(part)
            else:
                name = f"part-{secrets.token_hex(8)}"
                files |= _write_part(home, name, part)
                parts.append(replace(self._part(home, name, ""), dead=part.dead))
        named: list[tuple[str, str]] = []
        for part in parts:
            dead = f"dead-{secrets.token_hex(8)}.npy" if len(part.dead) else ""
            if dead:
                files[dead] = write_array(home / dead, part.dead)
            named.append((part.saved, dead))
        self._name_current(home, incarnation, _Found(index.sequence, named, files))
        _sweep(home, {each for pair in named for each in pair})
        return replace(index, parts=tuple(parts))

    def drop(self, tenant: str) -> None:
        """Delete the tenant's files; what is mapped stays readable to who mapped it."""
        shutil.rmtree(self._home(tenant), ignore_errors=True)

    def _home(self, tenant: str) -> Path:
        if not tenant or not all(c.isalnum() or c in "_-" for c in tenant):
            raise ValueError("a tenant's id can't be the name of a folder")
        return self._folder / tenant

    def _header(self, incarnation: str) -> dict[str, object]:
        return {"format": FORMAT, "incarnation": incarnation, **asdict(self._version)}

    def _found(self, tenant: str, incarnation: str) -> _Found | None:
        path = self._home(tenant) / _CURRENT
        try:
            held = json.loads(path.read_bytes())
            digest = held.pop("digest")
            if digest != _digest_of(held):
                raise ValueError("its checksum is wrong")
            header = held["header"]
            found = self._read(held)
        except FileNotFoundError:
            return None
        except Exception as failure:
            _log.warning("index snapshot of %s is not used: %s", tenant, failure)
            return None
        if header != self._header(incarnation):
            _log.info("index snapshot of %s is of another version or incarnation", tenant)
            return None
        return found

    def _read(self, held: dict[str, Any]) -> _Found:
        content = held["content"]
        return _Found(
            content["sequence"],
            [(name, dead) for name, dead in content["parts"]],
            {name: (nbytes, check) for name, (nbytes, check) in content["files"].items()},
        )

    def _name_current(self, home: Path, incarnation: str, found: _Found) -> None:
        held: dict[str, object] = {"header": self._header(incarnation), "content": asdict(found)}
        held = json.loads(json.dumps(held))
        written = json.dumps({**held, "digest": _digest_of(held)}, indent=1).encode()
        fresh = home / f"{_CURRENT}.{secrets.token_hex(4)}"
        write(fresh, written)
        sync_folder(home)
        fresh.replace(home / _CURRENT)
        sync_folder(home)

    def _part(self, home: Path, name: str, dead: str) -> Part:
        folder = home / name
        ids, documents, classes, starts = (
            loaded(folder / f"{column}.npy") for column in ("ids", "documents", "classes", "starts")
        )
        layout = Layout(ids, documents, classes, starts)
        vectors = np.asarray(np.load(folder / "vectors.npy", mmap_mode="r"), dtype=np.float32)
        if vectors.shape[1] != self._version.width:
            raise ValueError(f"vectors are {vectors.shape[1]} wide")
        codes = np.asarray(np.load(folder / "codes.npy", mmap_mode="r"))
        scales, errors = (np.load(folder / f"{name}.npy") for name in ("scales", "errors"))
        if codes.shape != vectors.shape or codes.dtype != np.int8:
            raise ValueError(f"codes are {codes.dtype} {list(codes.shape)}")
        terms: dict[str, NDArray[np.generic]] = {
            path.stem.removeprefix(_LEXICAL): np.load(path, mmap_mode="r")
            for path in sorted(folder.glob(f"{_LEXICAL}*.npy"))
        }
        return Part(
            layout,
            DensePart(layout, vectors, ByteCodes(codes, scales, errors)),
            LexicalPart.opened(layout, terms),
            loaded(home / dead) if dead else np.empty(0, dtype=np.int64),
            saved=name,
        )


def _write_part(home: Path, name: str, part: Part) -> dict[str, Seal]:
    folder = home / name
    folder.mkdir(mode=0o700)
    columns: Mapping[str, NDArray[np.generic]] = {
        "ids": part.layout.ids,
        "documents": part.layout.documents,
        "classes": part.layout.classes,
        "starts": part.layout.starts,
        "vectors": part.dense.vectors,
        "codes": part.dense.codes.codes,
        "scales": part.dense.codes.scales,
        "errors": part.dense.codes.errors,
        **{f"{_LEXICAL}{column}": held for column, held in part.lexical.columns().items()},
    }
    files: dict[str, Seal] = {}
    for column, held in columns.items():
        files[f"{name}/{column}.npy"] = write_array(folder / f"{column}.npy", held)
    sync_folder(folder)
    return files


def _digest_of(held: object) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(held, sort_keys=True).encode())


def _sweep(home: Path, named: set[str]) -> None:
    """Delete what the current snapshot does not name; who mapped it keeps it."""
    for path in home.iterdir():
        if path.name in named or path.name in {_CURRENT, "lease"}:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
