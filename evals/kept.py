"""Results of a long run, kept as they come: a run that broke off goes on where it was."""

from __future__ import annotations

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

    done: results by id, from before and of now.
    """

    def __init__(self, path: Path, rests_on: Mapping[str, str]) -> None:
        self.done: dict[str, dict[str, object]] = {}
        head: dict[str, object] = {"rests_on": dict(rests_on)}
        lines = _read(path) if path.exists() else []
        for line in lines[1:] if lines and lines[0] == head else ():
            self.done[str(line["id"])] = line
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file: IO[str] = os.fdopen(handle, "w", encoding="utf-8")
        os.fchmod(handle, 0o600)
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


def _read(path: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for raw in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(raw)
        except ValueError:
            break
        if not isinstance(line, dict):
            break
        found.append(line)
    return found
