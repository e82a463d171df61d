"""A long run goes on where it broke off, and never mixes two runs."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from evals.kept import Kept

REST = {"seed": "1"}


def test_a_run_goes_on_where_it_broke_off(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with Kept(path, REST) as kept:
        kept.add("one", {"value": 1})
        # What was added is there already for whoever is killed now.
        assert '"value": 1' in path.read_text()
    with path.open("a") as file:
        file.write('{"id": "two", "val')  # a kill in the middle of a line

    with Kept(path, REST) as again:
        assert again.done == {"one": {"id": "one", "value": 1}}
        again.add("two", {"value": 2})

    with Kept(path, REST) as third:
        assert list(third.done) == ["one", "two"]


def test_results_that_rest_on_something_else_are_not_taken_over(tmp_path: Path) -> None:
    with Kept(tmp_path / "run.jsonl", REST) as kept:
        kept.add("one", {"value": 1})

    with Kept(tmp_path / "run.jsonl", {"seed": "2"}) as other:
        assert other.done == {}


def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    with Kept(tmp_path / "run.jsonl", REST) as kept:
        kept.add("one", {"value": 1})
        with pytest.raises(ValueError, match="another run writes"):
            Kept(tmp_path / "run.jsonl", REST)
    with Kept(tmp_path / "run.jsonl", REST) as again:
        assert "one" in again.done


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("")
    path.chmod(0o644)
    with Kept(path, REST):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
