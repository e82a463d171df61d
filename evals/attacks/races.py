"""Attacks on time: rights that end meanwhile, documents deleted, torn reads, floods."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import httpx

from acl.directory import create_collection, find_collection, find_principal
from acl.grants import give, revoke
from acl.types import Action, Effect, Grant, Level, Resource
from evals.attacks.case import Attack, Outcome
from evals.attacks.engine import prompt_of
from evals.attacks.ground import Ground

# No byte may leave on a check older than that; what was on its way takes a moment more.
_FLUSHED_S = 0.1 + 0.15


@contextmanager
def _streaming(ground: Ground, who: str, question: str) -> Iterator[httpx.Response]:
    turns = [{"role": "user", "content": question}]
    with ground.client.stream(
        "POST", f"{ground.url}/v1/chat/completions",
        json={"model": "ostiary", "messages": turns, "stream": True},
        headers={"Authorization": f"Bearer {ground.keys[who]}"},
    ) as answer:  # fmt: skip
        yield answer


def _mid_stream(ground: Ground, times: int) -> Outcome:
    """Take the right away while the answer streams: nothing may follow, and no good end."""
    n, n_events, control = 20 * times, 0, 0
    for number in range(n + 3):
        ground.engine.fresh()
        ground.engine.pause_s = 0.02
        ground.engine.says(*[f"word{each} " for each in range(60)], "end [1].")
        ground.member("group:inner", "user:bo", joins=True)
        revoked_s, late, whole = 0.0, 0, ""
        with _streaming(
            ground, "bo", f"the word for it is {ground.canaries[number % len(ground.canaries)]}"
        ) as answer:
            for line in answer.iter_lines():
                whole += line
                late += bool(revoked_s and "word" in line and time.monotonic() > revoked_s)
                if number < n and "word5 " in line:
                    ground.member("group:inner", "user:bo", joins=False)
                    revoked_s = time.monotonic() + _FLUSHED_S
        if number < n:
            n_events += bool(late or "[DONE]" in whole or '"stop"' in whole)
        else:
            control += "[DONE]" in whole
        if number >= n:
            ground.member("group:inner", "user:bo", joins=False)
    return Outcome(n, n_events, control)


def _before_answer(ground: Ground, times: int) -> Outcome:
    """Take the right away while the engine thinks: a whole answer must not leave."""
    n, n_events, control = 20 * times, 0, 0
    for number in range(n + 3):
        canary = ground.canaries[number % len(ground.canaries)]
        ground.engine.fresh()
        ground.member("group:inner", "user:bo", joins=True)
        started = threading.Event()
        ground.engine.answer = partial(_slowly, started, canary)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ground.chat, "bo", f"the word for it is {canary}")
            started.wait(10)
            if number < n:
                ground.member("group:inner", "user:bo", joins=False)
            said = asked.result().text
        if number < n:
            n_events += f"it is {canary}" in said
        else:
            control += f"it is {canary}" in said
            ground.member("group:inner", "user:bo", joins=False)
    return Outcome(n, n_events, control)


def _slowly(started: threading.Event, canary: str, body: dict[str, object]) -> list[str]:
    """Answer late, with a word that the question has if the evidence has it too."""
    started.set()
    time.sleep(0.15)
    return [f"it is {canary} [1]." if prompt_of(body).count(canary) > 1 else "Nothing [1]."]


def _deleted(ground: Ground, times: int) -> Outcome:
    """Delete a document and ask again, everywhere it may have been kept."""
    n, n_events, control = 0, 0, 0
    for number in range(40 * times):
        word = ground.canary()
        document = ground.put("open", f"gone-{number}", f"{word} {ground.prose(10)}")
        at = f"/v1/documents/{document}"
        ways: list[Callable[[], httpx.Response]] = [
            partial(ground.search, "bo", f"about {word}"),
            partial(ground.ask, "bo", "GET", f"{at}/text"),
            partial(ground.ask, "bo", "GET", f"{at}/passages/1"),
        ]
        control += all(word in way().text for way in ways)
        ground.ask("mo", "DELETE", f"/v1/documents/{document}").raise_for_status()
        for way in ways:
            n += 1
            n_events += word in way().text
        ground.engine.fresh()
        ground.chat("bo", f"about {word[:-1]}")
        n += 1
        n_events += word in ground.engine.sent()
    return Outcome(n, n_events, control)


def _new_enemy(ground: Ground, times: int) -> Outcome:
    """Take somebody out of a group, then add to what the group reads: the order must hold."""
    n, n_events, control = 40 * times, 0, 0
    for number in range(n):
        word, later = ground.canary(), ground.canary()
        ground.member("group:inner", "user:bo", joins=True)
        before = ground.put("closed", f"new-{number}", f"{word} {ground.prose(8)}")
        control += word in ground.search("bo", f"on {word}").text
        ground.member("group:inner", "user:bo", joins=False)
        after = ground.put("closed", f"newer-{number}", f"{later} {ground.prose(8)}")
        for each in (word, later):
            n_events += each in ground.search("bo", f"on {each}").text
        for document in (before, after):
            ground.ask("mo", "DELETE", f"/v1/documents/{document}")
    return Outcome(n, n_events, control)


def _torn(ground: Ground, times: int) -> Outcome:
    """Swap two rights in one write, again and again: no answer may rest on both or neither."""
    left, right = ground.canary(), ground.canary()
    ground.grant("user:mo", "write", "open")
    for path, word in (("swap/left", left), ("swap/right", right)):
        with ground.writing() as writing:
            create_collection(writing, path)
        ground.put(path, path.replace("/", "-"), f"swapped {word}")
    ground.grant("user:bo", "read", "swap/left")
    stop, n, n_events = threading.Event(), 200 * times, 0
    seen: set[str] = set()

    def swap() -> None:
        there, back = "swap/left", "swap/right"
        while not stop.is_set():
            with ground.writing() as writing:
                bo = Grant(find_principal(writing.session, "user:bo").id, Action.READ, Effect.ALLOW)
                at = [find_collection(writing.session, path).id for path in (there, back)]
                revoke(writing, Resource(Level.COLLECTION, at[0]), bo)
                give(writing, Resource(Level.COLLECTION, at[1]), bo)
            there, back = back, there
            time.sleep(0.002)

    with ThreadPoolExecutor(1) as pool:
        swapping = pool.submit(swap)
        for _number in range(n):
            text = ground.search("bo", "swapped", 100).text
            found = {word for word in (left, right) if word in text}
            n_events += len(found) == 2
            seen |= found
        stop.set()
        swapping.result()
    return Outcome(n, n_events, int(len(seen) == 2))


def _flood(ground: Ground, times: int) -> Outcome:
    """Let one tenant flood the server: the other's searches must all be answered.

    A count of refusals, not of time: how late they are is for `make bench-serve`.
    """
    stop = threading.Event()
    flooded: list[int] = []

    def flood() -> None:
        with httpx.Client(base_url=ground.url, timeout=60) as client:
            head = {"Authorization": f"Bearer {ground.keys['zoe']}"}
            while not stop.is_set():
                body = {"query": ground.canary(), "top_k": 10}
                flooded.append(client.post("/v1/search", json=body, headers=head).status_code)

    with ThreadPoolExecutor(60) as pool:
        for _ in range(60):
            pool.submit(flood)
        time.sleep(1)
        answers = [ground.search("bo", "heron") for _ in range(40 * times)]
        stop.set()
    n_refused = sum(each.status_code != 200 for each in answers)
    return Outcome(len(answers), n_refused, int(503 in flooded))


ATTACKS = (
    Attack("17", "a right that ends while the answer streams", _mid_stream),
    Attack("17b", "a right that ends before a whole answer leaves", _before_answer),
    Attack("18", "a deleted document kept somewhere", _deleted),
    Attack("19", "content added after somebody was taken out", _new_enemy),
    Attack("L7", "rights read while they are swapped", _torn),
    Attack("32", "another tenant's flood", _flood),
)
