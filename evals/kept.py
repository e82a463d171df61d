"""Results of a long run, kept as they come: a run that broke off goes on where it was."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self


class Kept:
    """Results by id in a file of JSON lines that only its owner reads.

    The first line says what the results rest on (server, models, seed, data); a file that rests
    on anything else is begun anew: results of two runs are never mixed. A last line that was
    cut off by a kill is dropped.
    Raises: ValueError if another run writes there.

    done: results by id, from before and of now.
    """

    def __init__(self, path: Path, rests_on: Mapping[str, str]) -> None:
        self.done: dict[str, dict[str, object]] = {}
        head: dict[str, object] = {"rests_on": dict(rests_on)}
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._file: IO[str] = os.fdopen(handle, "r+", encoding="utf-8")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ValueError(f"another run writes to {path}") from None
        os.fchmod(handle, 0o600)
        lines = _read(self._file)
        for line in lines[1:] if lines and lines[0] == head else ():
            self.done[str(line["id"])] = line
        self._file.seek(0)
        self._file.truncate()
        for line in (head, *self.done.values()):
            self._write(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, name: str, result: Mapping[str, object]) -> None:
        """Keep a result; it is in the file when this returns."""
        self.done[name] = {**result, "id": name}
        self._write(self.done[name])

    def _write(self, line: Mapping[str, object]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()


def _read(file: IO[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for raw in file:
        try:
            line = json.loads(raw)
        except ValueError:
            break
        if not isinstance(line, dict):
            break
        found.append(line)
    return found
