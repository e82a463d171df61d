"""Ostiary as its users start it: commands and servers in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

OSTIARY = str(Path(sys.executable).with_name("ostiary"))
_COMMAND_S = 540


@dataclass(frozen=True, slots=True)
class Installed:
    """A home folder with the settings of one installation."""

    environment: dict[str, str]

    @classmethod
    def at(cls, home: Path, tenant: str, **settings: str) -> Installed:
        """Give an installation; `settings` are more environment variables."""
        plain = {name: text for name, text in os.environ.items() if not name.startswith("OSTIARY_")}
        kept = {name: os.environ[name] for name in ("OSTIARY_MODELS",) if name in os.environ}
        own = {"OSTIARY_HOME": str(home), "OSTIARY_TENANT": tenant}
        return cls({**plain, **kept, **own, **settings})

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [OSTIARY, *arguments], env=self.environment, capture_output=True, text=True,
            timeout=_COMMAND_S,
        )  # fmt: skip

    def say(self, *arguments: str) -> str:
        """Run a command that must work; gives what it printed."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Run a server on a free port; gives its address, and ends it with SIGTERM."""
        with subprocess.Popen(
            [OSTIARY, "serve", "--port", "0"], env=self.environment, stderr=subprocess.PIPE,
            text=True,
        ) as server:  # fmt: skip
            try:
                yield self._address(server)
            finally:
                server.terminate()
                server.wait(30)
        assert server.returncode in (0, -15), f"the server ended with {server.returncode}"

    def _address(self, server: subprocess.Popen[str]) -> str:
        assert server.stderr is not None
        said = []
        for line in server.stderr:
            said.append(line)
            if found := re.search(r"serves at (\S+)", line):
                # What it goes on to say must not fill the pipe and stop it.
                threading.Thread(target=server.stderr.read, daemon=True).start()
                return found[1]
        raise AssertionError(f"the server ended before it served: {''.join(said)}")
