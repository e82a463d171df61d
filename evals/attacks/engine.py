"""An engine that writes down all it is sent, and caches prefixes as real ones do."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Characters of a cache block.
BLOCK = 64


class RecordingEngine:
    """Speaks the OpenAI protocol on the loopback, as vLLM does.

    bodies: every chat body, in order. answer: gives the pieces of an answer to a body.
    pause_s: between two pieces. asker: who asks from now on, as the attack knows; the engine
    can't. foreign: of each prompt, how many more characters were held, under its salt and in
    whole blocks, than the asker's own prompts account for.
    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, object]] = []
        self.answer: Callable[[dict[str, object]], list[str]] = lambda _: ["It says so [1]."]
        self.pause_s = 0.0
        self.asker = ""
        self.foreign: list[int] = []
        self.url = ""
        self._held: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._lock = threading.Lock()

    def fresh(self) -> None:
        """Forget what was sent and how it was to be answered."""
        with self._lock:
            self.bodies.clear()
            self.foreign.clear()
        self.says("It says so [1].")
        self.pause_s = 0.0

    def says(self, *pieces: str) -> None:
        """Answer with these from now on."""
        self.answer = lambda _: list(pieces)

    def sent(self) -> str:
        """Give all that was sent, as one text."""
        with self._lock:
            return json.dumps(self.bodies, ensure_ascii=False)

    def note(self, body: dict[str, object]) -> int:
        """Write a body down; gives how many characters of its prompt were cached."""
        prompt = prompt_of(body)
        with self._lock:
            self.bodies.append(body)
            held = self._held[str(body.get("cache_salt", ""))]
            common = [(who == self.asker, _common(prompt, each) // BLOCK) for who, each in held]
            cached = max((n for _, n in common), default=0) * BLOCK
            own = max((n for is_own, n in common if is_own), default=0) * BLOCK
            held.append((self.asker, prompt))
            self.foreign.append(cached - own)
        return cached


def prompt_of(body: dict[str, object]) -> str:
    """Join the messages of a body."""
    messages = body.get("messages")
    parts = messages if isinstance(messages, list) else []
    return "\n".join(str(each.get("content", "")) for each in parts if isinstance(each, dict))


@contextmanager
def recording_engine() -> Iterator[RecordingEngine]:
    """Serve a recording engine from threads of this process."""
    engine = RecordingEngine()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _speaking_for(engine))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    engine.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield engine
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _common(one: str, other: str) -> int:
    n = min(len(one), len(other))
    return next((i for i in range(n) if one[i] != other[i]), n)


def _speaking_for(engine: RecordingEngine) -> type[BaseHTTPRequestHandler]:
    class Speaking(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            """Say nothing: what matters is written down."""

        def do_GET(self) -> None:
            model = {"id": "recorder", "object": "model", "created": 1, "owned_by": "evals"}
            self._whole({"object": "list", "data": [{**model, "max_model_len": 8192}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
            if "tokenize" in self.path:
                words = str(body.get("prompt", "")).split()
                self._whole({"tokens": list(range(len(words))), "count": len(words)})
                return
            cached = engine.note(body)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            try:
                for piece in engine.answer(body):
                    self._event({"delta": {"content": piece}, "finish_reason": None})
                    time.sleep(engine.pause_s)
                self._event({"delta": {"content": ""}, "finish_reason": "stop"})
                used = {"prompt_tokens": len(prompt_of(body)) // 4, "completion_tokens": 3}
                details = {"cached_tokens": cached // 4}
                total = used["prompt_tokens"] + 3
                self._send({"choices": [], "usage": {
                    **used, "total_tokens": total, "prompt_tokens_details": details}})  # fmt: skip
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:
                return  # the server has hung up, as it should when its client has

        def _event(self, choice: dict[str, object]) -> None:
            self._send({"choices": [{"index": 0, **choice}]})

        def _send(self, content: dict[str, object]) -> None:
            whole = {"id": "1", "object": "chat.completion.chunk", "created": 1,
                     "model": "recorder", **content}  # fmt: skip
            self.wfile.write(f"data: {json.dumps(whole)}\n\n".encode())
            self.wfile.flush()

        def _whole(self, content: dict[str, object]) -> None:
            text = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return Speaking
