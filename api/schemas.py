"""Bodies as they come over the wire; routes turn them into domain types at once."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from acl.types import Action, Level
from api.errors import WireRefused
from pipeline.access import Rule
from pipeline.naming import Where

_MAX_INT64 = 2**63 - 1


class _Ours(BaseModel):
    """A body of our own API: what we don't know is refused by name."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _OpenAi(BaseModel):
    """A body of OpenAI's API: what we don't know is dropped and goes nowhere."""

    model_config = ConfigDict(extra="ignore", strict=True)


class SearchBody(_Ours):
    """POST /v1/search."""

    query: str
    top_k: int = 10


class TextPart(_OpenAi):
    """A part of a message's content; only text is taken."""

    type: Literal["text"]
    text: str


class ChatMessage(_OpenAi):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart] | None = None
    tool_calls: list[object] | None = Field(default=None, max_length=0)
    function_call: None = None

    @property
    def text(self) -> str:
        """The content as one text."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class StreamOptions(_OpenAi):
    """What a streaming caller wants besides the text."""

    include_usage: bool = False


class ChatBody(_OpenAi):
    """POST /v1/chat/completions."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    seed: int | None = Field(default=None, ge=-_MAX_INT64 - 1, le=_MAX_INT64)
    stop: str | list[str] | None = None


class ResourceBody(_Ours):
    """A resource as callers name it: exactly the field that its type needs."""

    type: Literal["tenant", "collection", "document", "group"]
    path: str | None = None
    id: str | None = None
    name: str | None = None

    def where(self) -> Where:
        """Give the place. Raises: WireRefused if another field is given or the one is missing."""
        needed = {"collection": "path", "document": "id", "group": "name"}.get(self.type)
        given = {"path": self.path, "id": self.id, "name": self.name}
        said = {field: value for field, value in given.items() if value is not None}
        if set(said) != ({needed} if needed else set()):
            wanted = f"{needed} and nothing else" if needed else "nothing else"
            raise WireRefused(f"a {self.type} is named by its type and {wanted}", "resource")
        return Where(Level(self.type), *said.values())


class GrantBody(_Ours):
    """POST /v1/grants."""

    resource: ResourceBody
    principal: str
    action: Literal["read", "write", "manage"]
    effect: Literal["allow", "deny"] = "allow"
    expires_s: float | None = Field(default=None, gt=0)


class ExplainQuery(_Ours):
    """GET /v1/explain, beside the resource."""

    principal: str
    action: Literal["read", "write", "manage"] = "read"

    @property
    def wanted(self) -> Action:
        """The action that is asked about."""
        return Action(self.action)


class AccessBody(_Ours):
    """PUT /v1/documents/{id}/acl. A list that is left out is empty."""

    read: list[str] = []
    write: list[str] = []
    manage: list[str] = []
    deny: list[str] = []
    cut: bool = False

    def rule(self) -> Rule:
        """Give the lists as a rule."""
        return Rule(
            read=tuple(self.read),
            write=tuple(self.write),
            manage=tuple(self.manage),
            deny=tuple(self.deny),
            cut=self.cut,
        )


class GroupBody(_Ours):
    """POST /v1/groups."""

    name: str
    display: str = Field(default="", max_length=200)
