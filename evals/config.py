"""What a run is asked to do, as a file says it or as a command's options do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

_URL = "http://127.0.0.1:8080"


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Quality(_Asked):
    """Collections in BEIR's layout. chunked: the product's passages too."""

    collections: tuple[Path, ...] = Field(min_length=1)
    encoder: str = "default"
    chunked: bool = False


class Rights(_Asked):
    """Permissions collections. n_checks: the first so many of each; 0 for all.

    tenant, url, manager: a running server that holds the one collection, and who asks it for
    explanations; without a tenant each gets a server of its own.
    """

    collections: tuple[Path, ...] = Field(min_length=1)
    n_checks: int = Field(0, ge=0)
    tenant: str = ""
    url: str = _URL
    manager: str = ""

    @model_validator(mode="after")
    def _one_running(self) -> Self:
        if self.tenant and len(self.collections) != 1:
            raise ValueError("a running server is judged by one collection")
        return self


class Answers(_Asked):
    """Question collections. n: so many of each, drawn by the seed; 0 for all.

    judge_url, judge_model, judge_key: an outside judge; it gets questions and answers.
    """

    collections: tuple[Path, ...] = Field(min_length=1)
    n: int = Field(50, ge=0)
    judge_url: str = ""
    judge_model: str = ""
    judge_key: SecretStr = SecretStr("")

    @model_validator(mode="after")
    def _whole_judge(self) -> Self:
        if bool(self.judge_url) != bool(self.judge_model):
            raise ValueError("a judge needs both an address and a model")
        return self


class Attacks(_Asked):
    """Attacks on a server of our own. only: their numbers; all if empty."""

    only: tuple[str, ...] = ()
    times: int = Field(1, ge=1)


class Own(_Asked):
    """Own questions, asked of a running server as the people they name."""

    questions: Path
    tenant: str
    url: str = _URL
    answers: bool = True


Suite = Quality | Rights | Answers | Attacks | Own


class Run(_Asked):
    """A run of suites, those that are named, in this order."""

    seed: int = 1
    quality: Quality | None = None
    rights: Rights | None = None
    answers: Answers | None = None
    attacks: Attacks | None = None
    own: Own | None = None

    def suites(self) -> dict[str, Suite]:
        """Give the suites asked for, by name."""
        named = {name: getattr(self, name) for name in type(self).model_fields if name != "seed"}
        return {name: suite for name, suite in named.items() if suite is not None}


def read_run(path: Path) -> Run:
    """Read a run's YAML; folders and files are meant from where it lies.

    Raises: ValueError that names what is wrong with it, or that it asks for nothing.
    """
    try:
        found = Run.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except ValidationError as failure:
        what = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in failure.errors()
        )
        raise ValueError(f"{path}: {what}") from None
    except yaml.YAMLError as failure:
        raise ValueError(f"{path} is no YAML: {failure}") from None
    if not found.suites():
        raise ValueError(f"{path} names no suite; there are {', '.join(_SUITES)}")
    placed = _from(path.parent, found)
    # Before the first suite runs for an hour.
    if missing := [each for each in _named(placed) if not each.exists()]:
        raise ValueError(f"{path} names {', '.join(map(str, missing))}, which is not there")
    return placed


def _from(place: Path, run: Run) -> Run:
    changed: dict[str, Suite] = {}
    for name, suite in run.suites().items():
        if isinstance(suite, Own):
            changed[name] = suite.model_copy(update={"questions": place / suite.questions})
        elif not isinstance(suite, Attacks):
            there = tuple(place / each for each in suite.collections)
            changed[name] = suite.model_copy(update={"collections": there})
    return run.model_copy(update=changed)


def _named(run: Run) -> Iterator[Path]:
    for suite in run.suites().values():
        if isinstance(suite, Own):
            yield suite.questions
        elif not isinstance(suite, Attacks):
            yield from suite.collections


_SUITES = tuple(name for name in Run.model_fields if name != "seed")
