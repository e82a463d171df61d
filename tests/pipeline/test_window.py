"""Looking into a running process from the same machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pipeline.window import look, window


@pytest.fixture(params=["h", "a-rather-long-name-of-a-folder/" * 5])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A home, also one whose path is longer than a socket's address."""
    folder = tmp_path / str(request.param)
    folder.mkdir(parents=True)
    return folder


def test_what_a_process_shows_is_seen_under_its_number_as_often_as_asked(home: Path) -> None:
    shown = iter([b"first", b"second" * 100_000])
    with window(home, lambda: next(shown)):
        assert look(home) == {os.getpid(): b"first"}
        assert look(home) == {os.getpid(): b"second" * 100_000}
    assert look(home) == {}


def test_only_the_owner_may_look(home: Path) -> None:
    with window(home, lambda: b""):
        path = home / "run" / f"{os.getpid()}.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE((home / "run").stat().st_mode) == 0o700


def test_a_failure_to_show_ends_neither_the_window_nor_the_process(home: Path) -> None:
    answers = iter([ZeroDivisionError(), None])

    def show() -> bytes:
        failure = next(answers)
        if failure is not None:
            raise failure
        return b"well"

    with window(home, show):
        assert look(home) == {os.getpid(): b""}
        assert look(home) == {os.getpid(): b"well"}


def test_what_a_killed_process_left_is_removed(home: Path) -> None:
    with window(home, lambda: b""):
        own = home / "run" / f"{os.getpid()}.sock"
        left = home / "run" / "999999.sock"
        os.link(own, left)
    # The socket behind the name is closed, as after a kill.
    assert look(home) == {}
    assert not left.exists()


def test_where_no_socket_can_be_made_the_process_runs_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("in the way")
    with window(tmp_path, lambda: b""):
        assert look(tmp_path) == {}
