"""Four server processes over one database, told what to do by a line and answering with one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.api.houses import SECRET, Home
from tests.laws.changes import cast

N_PROCESSES = 4


@dataclass(frozen=True, slots=True)
class Reader:
    """A server process that asks itself as ana, again and again."""

    process: subprocess.Popen[str]

    def tell(self, command: str) -> str:
        """Give a command; gives its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


@dataclass(slots=True)
class Rounds:
    """What came of taking a right away and giving it back, again and again.

    Asked are moments of begin and end in ns and whether the secret was seen; without, the
    moments between which nobody had the right.
    """

    acknowledged_s: list[float] = field(default_factory=list)
    without: list[tuple[int, int]] = field(default_factory=list)
    asked: list[list[tuple[int, int, bool]]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    n_written: int = 0

    def inside(self) -> list[bool]:
        """Say for each request that lay wholly within a time without the right what it saw.

        One that began before the right was given back, and ended after, may well have used it.
        """
        return [
            saw
            for process in self.asked
            for began, ended, saw in process
            if any(start < began and ended < end for start, end in self.without)
        ]


@contextmanager
def reading(home: Home, url: str, folder: Path) -> Iterator[Reader]:
    """Start a process, and kill it in the end."""
    folder.mkdir()
    command = [sys.executable, "-m", "tests.laws.reader_process"]
    arguments = [url, str(folder), SECRET, home.keys["ana"], home.tenants["acme"]]
    with subprocess.Popen(
        [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield Reader(process)
        finally:
            process.kill()


def take_and_give(home: Home, folder: Path, n_rounds: int, n_between: int) -> Rounds:
    """Let four processes ask without a pause, while one writes documents and one takes rights.

    Args: n_between: requests that each process ends while the right is gone; two at least, as
        the first may have begun before.
    """
    cast(home)
    url = home.house.database.engine.url.render_as_string(hide_password=False)
    rounds, stop = Rounds(), threading.Event()

    def write() -> None:
        while not stop.is_set():
            home.document("open", f"Note {rounds.n_written}", f"note {rounds.n_written} of many")
            rounds.n_written += 1

    with ExitStack() as stack:
        readers = [
            stack.enter_context(reading(home, url, folder / f"process{n}"))
            for n in range(N_PROCESSES)
        ]
        writer = threading.Thread(target=write)
        writer.start()
        try:
            time.sleep(0.5)
            for number in range(n_rounds):
                taken = json.loads(readers[number % N_PROCESSES].tell("revoke"))
                _wait_for(readers, n_between)
                given = json.loads(readers[(number + 1) % N_PROCESSES].tell("give"))
                rounds.without.append((taken["acknowledged"], given["began"]))
                rounds.acknowledged_s.append((taken["acknowledged"] - taken["began"]) / 1e9)
                _wait_for(readers, 2)
        finally:
            stop.set()
            writer.join()
        for report in (json.loads(reader.tell("report")) for reader in readers):
            rounds.asked.append([(began, ended, saw) for began, ended, saw in report["asked"]])
            rounds.failed += report["failed"]
    return rounds


def _wait_for(readers: list[Reader], n_requests: int) -> None:
    """Wait until each has ended so many requests: from the second on they began after we came."""
    wanted = [int(reader.tell("count")) + n_requests for reader in readers]
    end = time.monotonic() + 60
    while any(int(r.tell("count")) < n for r, n in zip(readers, wanted, strict=True)):
        assert time.monotonic() < end, "a process answers nothing any more"
        time.sleep(0.01)
