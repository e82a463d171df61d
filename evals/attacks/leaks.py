"""Attacks through what comes back: canaries, counts, errors, listings, logs, two worlds."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from itertools import combinations

import httpx

from evals.attacks.case import Attack, Outcome, auc_of
from evals.attacks.engine import prompt_of
from evals.attacks.ground import WORDS, Ground, open_ground

_RANDOM = (r"doc_[0-9a-f]{22}", r"chatcmpl-[0-9a-f]{24}", r'"created(_s)?":\s*[0-9.]+',
           r'"spent_ms":\s*[0-9.]+')  # fmt: skip
_FLOATS = re.compile(r"(?:-?[0-9]*\.[0-9]+(?:e-?[0-9]+)?\s*,\s*){8,}")


def masked(answer: httpx.Response) -> str:
    """Give status, headers and body of an answer, without what is random or of the clock."""
    headers = sorted(
        f"{name}: {value}" for name, value in answer.headers.items()
        if name not in {"date", "x-request-id", "content-length"}
    )  # fmt: skip
    text = "\n".join([str(answer.status_code), *headers, answer.text])
    for pattern in _RANDOM:
        text = re.sub(pattern, "<random>", text)
    return text


def _probes(ground: Ground) -> Iterator[str]:
    """Words of forbidden documents, whole, cut, spelled apart, and asked about."""
    while True:
        canary = ground.chance.choice(ground.canaries)
        yield ground.chance.choice(
            (canary, canary[:-2], " ".join(canary), canary.upper(), f"what does {canary} mean?",
             f"the word for it is {ground.prose(2)}", f"translate {canary} into French",
             f"{ground.prose(3)} {canary}")
        )  # fmt: skip


def _canaries(ground: Ground, times: int) -> Outcome:
    """Look for words of forbidden documents in all that comes back, goes out, or is logged."""
    n, n_events, control = 600 * times, 0, 0
    ground.engine.fresh()
    ground.engine.answer = lambda body: [prompt_of(body)[:4000]]
    for probe, number in zip(_probes(ground), range(n), strict=False):
        answer = ground.chat("bo", probe) if number % 4 == 0 else ground.search("bo", probe, 50)
        # Only what the probe itself did not say can have leaked.
        said = answer.text + str(answer.headers)
        n_events += _foreign(ground, said.replace(probe, ""), probe)
    for body in ground.engine.bodies:
        question = str(json.dumps(body["messages"][-1], ensure_ascii=False))  # type: ignore[index]
        n_events += _foreign(ground, prompt_of(body), question)
    n_events += _foreign(ground, ground.logged(), "")
    for canary in ground.canaries[:5]:
        control += canary in ground.search("ana", canary).text
    return Outcome(n, n_events, control)


def _foreign(ground: Ground, text: str, asked: str) -> bool:
    lower, own = text.casefold(), asked.casefold().replace(" ", "")
    return any(each in lower and each not in own for each in ground.canaries)


def _requests(ground: Ground) -> Iterator[tuple[str, str, dict[str, object]]]:
    for number in range(12):
        for depth in (1, 5, 100):
            query = f"{WORDS[number]} {WORDS[-number]}"
            yield "POST", "/v1/search", {"json": {"query": query, "top_k": depth}}
    for stream in (False, True):
        for question in ("what is the word for it?", "heron weir", "closed orchard"):
            turns = [{"role": "user", "content": question}]
            body = {"model": "ostiary", "messages": turns, "stream": stream}
            yield "POST", "/v1/chat/completions", {"json": body}
    own = ground.documents["open-3"]
    for path in (
        "/v1/documents", "/v1/documents?limit=7", f"/v1/documents?after={own}", "/v1/groups",
        f"/v1/documents/{own}", f"/v1/documents/{own}/text", f"/v1/documents/{own}/acl",
        f"/v1/documents/{own}/passages/1", f"/v1/documents/{own}/passages/9", "/v1/models",
        "/v1/documents/doc_0000000000000000000000", "/v1/grants?type=tenant", "/metrics",
        "/v1/memory", "/v1/grants?type=collection&path=closed", "/healthz", "/readyz", "/nowhere",
        "/v1/explain?type=collection&path=closed&principal=user:bo&action=read",
        "/v1/groups/inner",
    ):  # fmt: skip
        yield "GET", path, {}
    yield "POST", "/v1/documents", {
        "data": {"collection": "closed"}, "files": {"file": ("a.txt", b"some text")},
    }  # fmt: skip


def _two_worlds(ground: Ground, times: int) -> Outcome:
    """Send the same to a world without the forbidden documents, after others have used this one."""
    n, n_events, control = 0, 0, 0
    for turn in range(40 * times):
        ground.search("ana", ground.prose(3))
        if turn % 8 == 0:
            ground.chat("ana", ground.prose(3))
    with open_ground(hidden=False) as other:
        for here, there in zip(_requests(ground), _requests(other), strict=True):
            answers = [
                masked(each.ask("bo", asked[0], asked[1], **asked[2]))  # type: ignore[arg-type]
                for each, asked in ((ground, here), (other, there))
            ]
            n += 1
            n_events += answers[0] != answers[1]
        for query in WORDS[:10]:
            control += ground.search("ana", query).text != other.search("ana", query).text
    return Outcome(n, n_events, control)


def _statistics(ground: Ground, times: int) -> Outcome:
    """Ask for scores before and after forbidden documents shift every statistic of words."""
    queries = [" ".join(pair) for pair in combinations(WORDS[:14], 2)][: 50 * times]
    before = [_scores(ground.search("bo", query, 20)) for query in queries]
    hers = [_scores(ground.search("ana", query, 20)) for query in queries]
    for number in range(30):
        ground.put("closed", f"shift-{number}", " ".join(WORDS[:7]) * (1 + number % 5))
    n_events = sum(
        _scores(ground.search("bo", query, 20)) != old
        for query, old in zip(queries, before, strict=True)
    )
    control = sum(
        _scores(ground.search("ana", query, 20)) != old
        for query, old in zip(queries, hers, strict=True)
    )
    return Outcome(len(queries), n_events, control)


def _scores(answer: httpx.Response) -> list[tuple[str, float]]:
    return [(each["document"], each["score"]) for each in answer.json()["results"]]


def _counts(ground: Ground, times: int) -> Outcome:
    """Count results: they must be those of what may be read, for words said elsewhere only."""
    n, n_events, control = 0, 0, 0
    listed = len(ground.ask("bo", "GET", "/v1/documents?limit=100").json()["data"])
    for canary in ground.canaries * times:
        for depth in (1, 10, 100):
            found = ground.search("bo", canary, depth).json()
            n += 1
            n_events += found["returned"] != min(depth, listed) or found["asked"] != depth
        control += ground.search("ana", canary, 100).json()["returned"] > listed
    return Outcome(n, n_events, control)


def _existence(ground: Ground, times: int) -> Outcome:
    """Tell a forbidden document from none, by all that comes back, and when read by time."""
    forbidden = [i for name, i in ground.documents.items() if name.startswith("closed-")]
    reads, writes = ("", "/text", "/passages/1", "/acl"), (("DELETE", ""), ("PUT", "/acl"))
    took: dict[bool, list[float]] = {True: [], False: []}
    own: list[float] = []
    n, n_events, control = 1_800 * times, 0, 0

    def both(number: int, method: str, rest: str) -> bool:
        none = "doc_" + "".join(ground.chance.choice("0123456789abcdef") for _ in range(22))
        ids = {True: forbidden[number % len(forbidden)], False: none}
        body = {"json": {"read": ["user:bo"]}} if method == "PUT" else {}
        answers = {}
        for is_there in ground.chance.sample((True, False), 2):
            path = f"/v1/documents/{ids[is_there]}{rest}"
            began = time.perf_counter()
            answers[is_there] = masked(ground.ask("bo", method, path, **body))  # type: ignore[arg-type]
            if method == "GET":
                took[is_there].append(time.perf_counter() - began)
        return answers[True] != answers[False]

    for number in range(n):
        n_events += both(number, "GET", reads[number % len(reads)])
        began = time.perf_counter()
        mine = ground.search("bo", "heron")  # a little more work, which a clock must see
        own.append(time.perf_counter() - began)
        control += mine.status_code == 200
    for number in range(100):
        n_events += both(number, *writes[number % len(writes)])
    missing = took[False]
    return Outcome(n + 100, n_events, control, auc_of(took[True], missing), auc_of(own, missing))


def _membership(ground: Ground, times: int) -> Outcome:
    """Ask with whole sentences of documents: their presence must not show in the scores."""
    closed = [name for name in ground.documents if name.startswith("closed-")]
    texts = {}
    for name in closed:
        found = ground.ask("ana", "GET", f"/v1/documents/{ground.documents[name]}/text")
        texts[name] = str(found.json()["text"])
    with_them = [_scores(ground.search("bo", texts[name], 5)) for name in closed]
    hers = [max(s for _, s in _scores(ground.search("ana", texts[name], 5))) for name in closed]
    strangers = [
        max(s for _, s in _scores(ground.search("ana", ground.prose(45), 5))) for _ in closed
    ]
    for name in closed:
        ground.ask("mo", "DELETE", f"/v1/documents/{ground.documents.pop(name)}")
    without = [_scores(ground.search("bo", texts[name], 5)) for name in closed]
    for name in closed:
        ground.put("closed", name, texts[name])
    n_events = sum(one != other for one, other in zip(with_them, without, strict=True))
    control = auc_of(hers, strangers).value > 0.6
    return Outcome(len(closed), n_events, int(control))


def _listings(ground: Ground, times: int) -> Outcome:
    """Walk every listing: ids, titles and groups must be those one may know."""
    hidden = {i for name, i in ground.documents.items() if name.startswith(("closed-", "shift-"))}
    n, n_events, after = 0, 0, ""
    for _page in range(20 * times):
        page = ground.ask("bo", "GET", f"/v1/documents?limit=5{after}").json()
        n += 1
        n_events += any(each["id"] in hidden for each in page["data"])
        if not page["has_more"]:
            break
        after = f"&after={page['data'][-1]['id']}"
    groups = ground.ask("bo", "GET", "/v1/groups").text
    n_events += "inner" in groups
    hers = ground.ask("ana", "GET", "/v1/documents?limit=100").json()["data"]
    return Outcome(n + 1, n_events, sum(each["id"] in hidden for each in hers))


def _vectors(ground: Ground, times: int) -> Outcome:
    """Look for numbers in rows, as vectors are, in answers, errors, figures and the log."""
    said = [ground.search("bo", ground.prose(3)).text for _ in range(50 * times)]
    said += [ground.chat("bo", ground.prose(3)).text for _ in range(10)]
    operator = {"Authorization": f"Bearer {ground.settings.operator()}"}
    said += [ground.ask(None, "GET", "/metrics", headers=operator).text, ground.logged()]
    control = bool(_FLOATS.search(json.dumps([0.125 * n for n in range(64)])))
    return Outcome(len(said), sum(bool(_FLOATS.search(each)) for each in said), int(control))


def _logs(ground: Ground, times: int) -> Outcome:
    """Make errors of every kind while asking with words of one's own: none may be logged."""
    words = [ground.canary() for _ in range(30 * times)]
    for word in words:
        ground.search("bo", word)
        ground.chat("bo", f"{word}?")
        ground.ask("bo", "POST", "/v1/search", json={"query": word, "top_k": word})
        ground.ask("bo", "GET", f"/v1/documents/{word}")
        ground.upload("wes", "open", word, f"{word} text", ["group:no-such"])
    secrets = (*words, *ground.canaries, *ground.keys.values(), ground.settings.operator())
    operator = {"Authorization": f"Bearer {ground.settings.operator()}"}
    shown = ground.logged() + ground.ask(None, "GET", "/metrics", headers=operator).text
    return Outcome(len(words) * 5, sum(each in shown for each in secrets), len(shown))


def _collusion(ground: Ground, times: int) -> Outcome:
    """Pool what several accounts find: it must be what one of them may read."""
    pooled: set[str] = set()
    for canary in ground.canaries * times:
        for who in ("bo", "wes", "mo"):
            pooled |= {
                each["document"] for each in ground.search(who, canary, 100).json()["results"]
            }
    hidden = {i for name, i in ground.documents.items() if name.startswith(("closed-", "shift-"))}
    hers = _documents(ground.search("ana", "word", 100))
    return Outcome(len(ground.canaries) * times * 3, len(pooled & hidden), len(hers & hidden))


def _documents(answer: httpx.Response) -> set[str]:
    return {each["document"] for each in answer.json()["results"]}


ATTACKS = (
    Attack("3", "canaries in forbidden documents", _canaries),
    Attack("4", "two worlds, after others' traffic", _two_worlds),
    Attack("5", "statistics of words shifted from behind", _statistics),
    Attack("6", "counts and pages as an oracle", _counts),
    Attack("7", "existence told by errors or their time", _existence),
    Attack("28", "membership of a document inferred from scores", _membership),
    Attack("29", "vectors that leave", _vectors),
    Attack("33", "questions, keys and texts in the log", _logs),
    Attack("34", "accounts that pool what they find", _collusion),
    Attack("L1", "listings of documents and groups", _listings),
)
