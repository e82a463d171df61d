"""Where a process can be made to die: before and after each call that makes something last."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

KILLED, THROUGH = "killed", "through"
_FILE_CALLS = ("fsync", "replace", "mkdir", "unlink", "rmdir")


class Disk:
    """What a folder would be after a power cut: only what was synced is sure to be there.

    Until their folder is synced, removals count as done, and renames as done or not done: a disk
    may do either. New names count as not there.
    """

    def __init__(self, folder: Path, renames: bool) -> None:
        self._folder = folder
        self._renames = renames
        there = list(folder.rglob("*"))
        self._named = set(there)
        self._synced = {path.stat().st_ino for path in there}
        self._replaced: list[tuple[Path, bytes | None]] = []

    def synced(self, handle: int) -> None:
        """Note that a file or a folder was brought to the disk."""
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if path.is_dir():
            self._named = {each for each in self._named if each.parent != path} | {*path.iterdir()}
            self._replaced = [each for each in self._replaced if each[0].parent != path]
        else:
            self._synced.add(path.stat().st_ino)

    def replaces(self, path: Path) -> None:
        """Note that a file is about to be put in place of another, or where none was."""
        if self._renames:
            self._named.add(path)
        else:
            self._replaced.append((path, path.read_bytes() if path.exists() else None))

    def cut(self) -> None:
        """Take away what is not sure to be there."""
        for path, before in reversed(self._replaced):
            path.unlink()
            if before is not None:
                path.write_bytes(before)
                self._synced.add(path.stat().st_ino)
        for path in sorted(self._folder.rglob("*"), reverse=True):
            if path not in self._named:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            elif path.is_file() and path.stat().st_ino not in self._synced:
                os.truncate(path, path.stat().st_size // 2)


class Failpoints:
    """Counts boundaries, and kills this process at one of them. at: from 1; 0 for none."""

    def __init__(self, at: int) -> None:
        self._left = at
        self._disk: Disk | None = None

    def pass_by(self) -> None:
        """Come to a boundary."""
        self._left -= 1
        if self._left == 0:
            if self._disk is not None:
                self._disk.cut()
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: object, name: str) -> None:
        """Put a boundary before and one after every call of this function."""
        call = getattr(owner, name)

        def surrounded(*args: object, **kwargs: object) -> object:
            self.pass_by()
            given: object = call(*args, **kwargs)
            self.pass_by()
            return given

        setattr(owner, name, surrounded)

    def in_files(self, disk: Disk | None) -> None:
        """Put boundaries around what makes files last, names them and takes them away.

        disk: what the power is cut of at the boundary, None to leave all that was written.
        """
        if disk is not None:
            self._disk = disk
            self._watch(disk)
        for name in _FILE_CALLS:
            self.around(os, name)

    def _watch(self, disk: Disk) -> None:
        sync, replace = os.fsync, os.replace

        def synced(handle: int) -> None:
            sync(handle)
            disk.synced(handle)

        def replaced(source: Path, target: Path) -> None:
            disk.replaces(target)
            replace(source, target)

        setattr(os, "fsync", synced)  # noqa: B010 - not a name of ours to assign to
        setattr(os, "replace", replaced)  # noqa: B010


def end_writes_at(nbytes: int) -> None:
    """Have this process ended by the write that makes any file longer, part of it done."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, resource.RLIM_INFINITY))


@dataclass(frozen=True, slots=True)
class Order:
    """What a child does, where, and where it dies.

    at: the boundary, from 1; 0 for none. nbytes: how long files may get; -1 for any length.
    power_cut: what was not synced is lost as well, with or without renames; "" to lose nothing.
    """

    scenario: str
    folder: str
    at: int = 0
    nbytes: int = -1
    power_cut: Literal["", "renamed", "not renamed"] = ""


@dataclass(frozen=True, slots=True)
class Killer:
    """A process whose children are killed (`tests.laws.killed_process`)."""

    process: subprocess.Popen[str]

    def kill(self, order: Order) -> tuple[str, list[str]]:
        """Have an order carried out; gives how it ended and what it acknowledged before."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asdict(order)) + "\n")
        self.process.stdin.flush()
        told: list[str] = []
        for line in self.process.stdout:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "ended":
                assert rest in {KILLED, THROUGH}, rest
                return rest, told
            told.append(rest)
        raise AssertionError("the process whose child should have been killed has ended itself")


@contextmanager
def killing() -> Iterator[Killer]:
    """Start a process that carries out orders."""
    # A fork takes no threads along: there must be none.
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.laws.killed_process"], env=alone, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield Killer(process)
        finally:
            process.kill()
