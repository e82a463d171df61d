"""Settings: the one reader of the environment, and of the secrets in the home folder."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from platformdirs import user_data_path
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from acl.errors import StorageFull
from acl.salt import Sharing
from generation.settings import GenerationSettings
from pipeline.errors import SettingsRefused
from pipeline.types import Stage
from retrieval.settings import RetrievalSettings

_SECRET_BYTES = 32
# Of retrieval and generation: what is a list of texts.
_LISTS = frozenset({"link_hosts", "rerank_collections"})


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """Milliseconds that each stage may take; generate counts to the first token."""

    admit_ms: float
    embed_ms: float
    search_ms: float
    authorize_ms: float
    rerank_ms: float
    generate_ms: float

    def of(self, stage: Stage) -> float:
        """Give the budget of a stage in milliseconds."""
        value: float = getattr(self, f"{stage.value}_ms")
        return value


# DESIGN section 3: what each stage may take without and with a GPU.
PROFILES = {
    "cpu": BudgetSettings(10, 60, 60, 20, 400, 6000),
    "gpu": BudgetSettings(5, 10, 10, 5, 30, 300),
}


class Settings(BaseSettings):
    """Everything that can be set, from OSTIARY_... variables; nested names join with __.

    home: folder of the embedded database and the generated secrets.
    index_folder: where indexes are kept as files, rebuilt if lost; none: "index" in home.
    database_url: SQLAlchemy address; empty for SQLite in the home folder.
    secret: 64 hex characters; keys and salts rest on it. Empty: generated once in home.
    operator_token: opens /metrics; empty: generated once in home.
    profile: which stage budgets hold.
    timeout_s: the deadline of a search or a chat request.
    max_running, max_waiting: requests at work, and waiting, before new ones are shed.
    max_question_chars, max_depth: the largest question and the most results.
    evidence_depth: how many passages an answer may rest on; few suit the small embedded model.
    refuse_below: an answer is refused if no passage's cosine reaches this.
    evidence_margin: passages this much (cosine) behind the best one are no evidence.
    salt_sharing: who shares cached prefixes: equal readers, the same person, or nobody.
    threads: threads for bulk encoding and for the embedded engine; a question is encoded on one.
    max_upload_bytes: the largest file that is ingested.
    ram_nbytes: how many bytes of its own the process may hold; none: the limit of its cgroup or
        physical memory, less a tenth.
    refusal: the fixed text given when the evidence is too thin.
    """

    model_config = SettingsConfigDict(
        env_prefix="OSTIARY_", env_nested_delimiter="__", frozen=True, extra="forbid"
    )

    home: Path = Field(default_factory=lambda: user_data_path("ostiary"))
    index_folder: Path | None = None
    database_url: str = ""
    secret: SecretStr = SecretStr("")
    operator_token: SecretStr = SecretStr("")
    host: str = "127.0.0.1"
    port: int = 8080
    profile: Literal["cpu", "gpu"] = "cpu"
    timeout_s: float = Field(default=60.0, gt=0, le=600)
    max_running: int = Field(default=8, ge=1)
    max_waiting: int = Field(default=32, ge=0)
    max_question_chars: int = Field(default=4000, ge=1)
    max_depth: int = Field(default=100, ge=1, le=200)
    evidence_depth: int = Field(default=2, ge=1, le=20)
    refuse_below: float = 0.35
    evidence_margin: float = 0.25
    salt_sharing: Sharing = "scope"
    threads: int = Field(default_factory=lambda: max(1, os.cpu_count() or 1))
    max_upload_bytes: int = 50_000_000
    ram_nbytes: int | None = Field(default=None, ge=1)
    refusal: str = "The documents you may read do not answer this question."
    retrieval: RetrievalSettings = RetrievalSettings()
    generation: GenerationSettings = GenerationSettings()

    @field_validator("retrieval", "generation", mode="before")
    @classmethod
    def _lists_are_json(cls, group: object) -> object:
        """Read lists, which the library reads as JSON in models but not in dataclasses."""
        if not isinstance(group, dict):
            return group
        return {
            name: _listed(name, value) if name in _LISTS and isinstance(value, str) else value
            for name, value in group.items()
        }

    @model_validator(mode="after")
    def _legs_reach_the_deepest_search(self) -> Self:
        if self.retrieval.legs_depth < self.max_depth:
            raise ValueError(
                f"retrieval.legs_depth is {self.retrieval.legs_depth}, needs at least max_depth "
                f"({self.max_depth}): else a search could come up short"
            )
        return self

    @property
    def budgets(self) -> BudgetSettings:
        """The stage budgets of the chosen profile."""
        return PROFILES[self.profile]

    @property
    def url(self) -> str:
        """The database's address."""
        return self.database_url or f"sqlite:///{self.home / 'ostiary.db'}"

    def secret_bytes(self) -> bytes:
        """Give the secret that keys and salts rest on, at least 32 bytes.

        Raises: SettingsRefused if it is too short; StorageFull if it can't be kept.
        """
        text = self.secret.get_secret_value() or _kept(self.home / "secret")
        try:
            value = bytes.fromhex(text)
        except ValueError:
            value = b""
        if len(value) < _SECRET_BYTES:
            raise SettingsRefused(
                f"the secret has {len(value)} bytes in hexadecimal, needs at least {_SECRET_BYTES}"
            )
        return value

    def operator(self) -> str:
        """Give the token that opens the operator's routes."""
        return self.operator_token.get_secret_value() or _kept(self.home / "operator-token")


def load_settings(**overrides: object) -> Settings:
    """Read the settings from the environment. Raises: SettingsRefused naming each fault."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as failure:
        faults = "; ".join(
            f"OSTIARY_{'__'.join(str(part).upper() for part in fault['loc'])}: {fault['msg']}"
            for fault in failure.errors(include_input=False)
        )
        raise SettingsRefused(f"settings are wrong: {faults}") from None


def _listed(name: str, text: str) -> list[str]:
    """Give the texts of a JSON list. Raises: ValueError for anything else."""
    try:
        found = json.loads(text or "[]")
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(f'{name} needs a JSON list of texts, such as ["one", "two"]')
    return found


def _kept(path: Path) -> str:
    """Give the secret kept in a file that only its owner reads; made on first use."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _publish(path, secrets.token_hex(_SECRET_BYTES))
        return path.read_text().strip()
    except OSError as failure:
        raise StorageFull(f"can't write to {path.parent}: {failure.strerror}") from failure


def _publish(path: Path, text: str) -> None:
    # A link appears whole or not at all: of two processes that start at once, one makes the
    # secret and both read it. mkstemp gives a file that only its owner reads.
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)
