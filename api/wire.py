"""OpenAI's shapes: a chat body in, completions and chunks out."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from acl.types import Principal
from api.body import checked
from api.errors import WireRefused
from api.schemas import ChatBody
from generation.types import Message, Role, Sampling, Usage
from pipeline.settings import Settings
from pipeline.types import Ask, Citation, Closing, Deadline, Spent
from retrieval.types import Passage

MODEL = "ostiary"

# Fields that would change what the answer means and that we do not have: only these values,
# which ask for nothing, are taken. Every other field we don't know is read by nobody.
_ONLY: dict[str, tuple[object, ...]] = {
    "n": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "audio": (),
    "modalities": (["text"],),
    "prediction": (),
    "response_format": ({"type": "text"},),
    "web_search_options": (),
}
_MAX_STOPS = 4


@dataclass(frozen=True, slots=True)
class ChatAsk:
    """A chat request as the pipeline takes it, and how its caller wants it delivered."""

    ask: Ask
    model: str
    streamed: bool
    usage_in_stream: bool


def read_chat(
    body: Mapping[str, object],
    principal: Principal,
    deadline: Deadline,
    settings: Settings,
    engine_model: str,
) -> ChatAsk:
    """Turn a chat body into an ask.

    Only named fields are read, so whatever would steer an engine (salts, slots, priorities,
    templates, transfer parameters) stays outside. There is one model: a client that was
    written for another service keeps the name it says, and is told the real one.
    Raises: WireRefused.
    """
    for field, values in _ONLY.items():
        if body.get(field) is not None and body[field] not in values:
            raise WireRefused(f"{field} is not supported here", field, code="unsupported_parameter")
    chat = checked(ChatBody, body)
    last = chat.messages[-1]
    if last.role != "user":
        raise WireRefused("the last message must be the user's", f"messages.{_end(chat)}.role")
    fitting(last.text, "messages", settings)
    said = [each.text for each in chat.messages if each.role in ("system", "developer")]
    turns = [each for each in chat.messages[:-1] if each.role in ("user", "assistant")]
    history = (Message(Role(each.role), each.text) for each in turns if each.text.strip())
    ask = Ask(
        principal,
        last.text,
        deadline,
        history=tuple(history),
        instructions="\n\n".join(each for each in said if each.strip()),
        sampling=_sampling(chat, settings),
    )
    wants_usage = chat.stream_options is not None and chat.stream_options.include_usage
    model = engine_model if chat.model == engine_model else MODEL
    return ChatAsk(ask, model, bool(chat.stream), wants_usage)


def fitting(question: str, param: str, settings: Settings) -> str:
    """Give the question back. Raises: WireRefused if it is empty (400) or too long (413)."""
    most = settings.max_question_chars
    if not question.strip():
        raise WireRefused("the question is empty", param)
    if len(question) > most:
        raise WireRefused(
            f"the question has {len(question)} characters, at most {most} are taken", param,
            status=413, code="too_large",
        )  # fmt: skip
    return question


def completion(ask: ChatAsk, text: str, closing: Closing) -> dict[str, object]:
    """Give the whole answer as a chat completion."""
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": _new_id(),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": ask.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": closing.finish.value,
            }
        ],
        "usage": _usage(closing),
        "ostiary": _ours(closing),
    }


class Chunks:
    """Writes the chunks of one streamed answer, as server-sent events."""

    def __init__(self, ask: ChatAsk) -> None:
        self._wants_usage = ask.usage_in_stream
        self._fixed: dict[str, object] = {
            "id": _new_id(),
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": ask.model,
        }
        if self._wants_usage:
            self._fixed["usage"] = None
        self._begun = False

    def words(self, text: str) -> bytes:
        """Give a chunk of text; the first one says whose it is."""
        delta: dict[str, object] = {"content": text}
        if not self._begun:
            delta, self._begun = {"role": "assistant", **delta}, True
        return event(self._chunk(delta, None))

    def closing(self, closing: Closing) -> Iterable[bytes]:
        """Give the chunks that end a stream: how it ended, its usage if asked for, [DONE]."""
        last = self._chunk({}, closing.finish.value)
        yield event({**last, "ostiary": _ours(closing)})
        if self._wants_usage:
            yield event({**self._fixed, "choices": [], "usage": _usage(closing)})
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: Mapping[str, object], finish: str | None) -> dict[str, object]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._fixed, "choices": [choice]}


def event(body: Mapping[str, object]) -> bytes:
    """Write one server-sent event. JSON as ASCII: no character of a text can end the event."""
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n".encode()


def stages(spent: Iterable[Spent]) -> list[dict[str, object]]:
    """Say what each stage was allowed and took, and what was cut."""
    return [
        {
            "name": each.stage.value,
            "budget_ms": each.budget_ms,
            "spent_ms": round(each.spent_ms, 2),
            "cut": each.cut,
        }
        for each in spent
    ]


def place(passage: Passage) -> dict[str, object]:
    """Say where a passage stands, and the address that opens it."""
    return {
        "document": passage.document,
        "title": passage.title,
        "passage": passage.ordinal,
        "page": passage.page,
        "start": passage.start,
        "end": passage.end,
        "url": f"/v1/documents/{passage.document}/passages/{passage.ordinal}",
    }


def _sampling(chat: ChatBody, settings: Settings) -> Sampling:
    asked = chat.max_completion_tokens or chat.max_tokens or settings.generation.max_tokens
    stop = (chat.stop,) if isinstance(chat.stop, str) else tuple(chat.stop or ())
    if len(stop) > _MAX_STOPS or not all(stop):
        raise WireRefused(f"stop takes up to {_MAX_STOPS} texts that are not empty", "stop")
    # Half of the context stays for the prompt, however long an answer a client would take.
    most = max(1, settings.generation.context_tokens // 2)
    return Sampling(
        max_tokens=min(asked, most),
        temperature=chat.temperature or 0.0,
        seed=chat.seed,
        stop=stop,
        top_p=1.0 if chat.top_p is None else chat.top_p,
        presence_penalty=chat.presence_penalty or 0.0,
        frequency_penalty=chat.frequency_penalty or 0.0,
    )


def _ours(closing: Closing) -> dict[str, object]:
    return {
        "citations": [_citation(each) for each in closing.citations],
        "refused": closing.refused,
        "stages": stages(closing.spent),
        "evidence": closing.n_evidence,
    }


def _citation(citation: Citation) -> dict[str, object]:
    return {
        "number": citation.number,
        "position": citation.position,
        "attributed": citation.attributed,
        **place(citation.passage),
    }


def _usage(closing: Closing) -> dict[str, int] | None:
    """Count tokens, never cached ones: they would tell who asked before (law 1).

    None where the engine did not tell; a fixed refusal asked no engine and cost nothing.
    """
    usage = closing.usage or (Usage(0, 0, None) if closing.refused else None)
    if usage is None:
        return None
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
    }


def _new_id() -> str:
    return f"chatcmpl-{secrets.token_hex(12)}"


def _end(chat: ChatBody) -> int:
    return len(chat.messages) - 1
