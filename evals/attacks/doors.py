"""Attacks on who is asking, and on rights: keys, identities, names, other ports, gained rights."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from acl.authorize import Authority
from acl.directory import create_collection, create_principal
from acl.documents import Access, place
from acl.errors import AclError
from acl.grants import give
from acl.groups import add_member
from acl.keys import verify_key
from acl.policy import verdict
from acl.tables import DocumentRow, PrincipalRow
from acl.types import Action, Effect, Grant, Kind, Level, Resource
from evals.attacks.case import Attack, Outcome
from evals.attacks.ground import Ground

_JWT = ("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbmEifQ.", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbmEifQ.AAAA")


def _policies(ground: Ground, times: int) -> Outcome:
    """Draw nested groups, denies and cuts at random; compiled scopes must say what casbin says."""
    chance = ground.chance
    with ground.writing() as writing:
        session = writing.session
        people = [create_principal(writing, Kind.USER, f"p{n}")[0] for n in range(12)]
        groups = [create_principal(writing, Kind.GROUP, f"g{n}")[0] for n in range(15)]
        for _ in range(60):
            try:
                add_member(writing, chance.choice(groups), chance.choice([*people, *groups]))
            except AclError:
                continue  # it would have closed a circle
        paths = ["p/a", "p/a/b", "p/a/b/c", "p/d", "p/d/e"]
        folders = [create_collection(writing, path) for path in paths]
        for folder in folders * 2:
            give(writing, Resource(Level.COLLECTION, folder.id), _random_grant(chance, groups))
        documents = []
        for _ in range(60):
            own = {_random_grant(chance, [*groups, *people]) for _ in range(chance.randrange(3))}
            access = Access(tuple(own), cut=chance.random() < 0.2)
            documents.append(place(writing, chance.choice(folders), access).id)
        names = [row.name for row in people]
    secret, n, n_events, control = ground.settings.secret_bytes(), 0, 0, 0
    keys = {name: ground.person(name) for name in names}
    for name in names[: 12 * times]:
        who = verify_key(ground.database, keys[name], secret, time.time)
        scope = Authority(ground.database).mint(who)
        with ground.database.reading(ground.tenants["acme"]) as session:
            for document in documents:
                row = session.get_one(DocumentRow, document)
                compiled = row.class_id in scope.classes
                resource = Resource(Level.DOCUMENT, document)
                asked = bool(verdict(session, who, Action.READ, resource, time.time()))
                n += 1
                n_events += compiled != asked
                control += asked
    return Outcome(n, n_events, control)


def _random_grant(chance: random.Random, principals: Sequence[PrincipalRow]) -> Grant:
    effect = Effect.DENY if chance.random() < 0.25 else Effect.ALLOW
    return Grant(chance.choice(principals).id, Action.READ, effect)


def _deputy(ground: Ground, times: int) -> Outcome:
    """Name somebody else in bodies, headers and cookies, and use the operator's token to read."""
    names = ("ana", "user:ana", "acme/ana")
    heads = ("X-User", "X-User-Id", "X-Remote-User", "X-Forwarded-User", "X-On-Behalf-Of",
             "X-Ostiary-User", "Impersonate-User", "X-Authenticated-User-Email",
             "Cookie")  # fmt: skip
    n, n_events = 0, 0
    word = ground.canaries[0]
    for head in heads * 3 * times:
        for name in names:
            body = {"query": "the word", "top_k": 100, "user": name, "principal": name}
            found = ground.ask("bo", "POST", "/v1/search", json=body, headers={head: name})
            n_events += any(each in found.text for each in ground.canaries)
            n += 1
    for token in (ground.settings.operator(), f"{ground.settings.operator()}:ana"):
        found = ground.ask(None, "POST", "/v1/search", json={"query": "x"},
                           headers={"Authorization": f"Bearer {token}"})  # fmt: skip
        n_events += found.status_code != 401
        n += 1
    return Outcome(n, n_events, int(word in ground.search("ana", f"word {word}", 100).text))


def _tokens(ground: Ground, times: int) -> Outcome:
    """Bend keys: ended, cut, changed by a bit, mixed of two, made up, not signed."""
    good, other = ground.keys["ana"], ground.keys["zoe"]
    ended = ground.person("late", ends_s=time.time() - 1)
    mark, prefix, rest = good.split("_", 2)
    bent = [ended, "", " ", "null", "Bearer", *_JWT, good[:-1], good + "x", good.upper(),
            f"{mark}_{prefix}_{other.split('_', 2)[2]}", f"{mark}_{other.split('_', 2)[1]}_{rest}",
            f"{mark}_{prefix}", f"{mark}_%_{rest}", f"{prefix}_{rest}", good[::-1]]  # fmt: skip
    bent += [good[:at] + chr(ord(good[at]) ^ 1) + good[at + 1 :] for at in range(0, len(good), 2)]
    n, n_events, bodies = 0, 0, set()
    for token in bent * 3 * times:
        head = {"Authorization": f"Bearer {token}".strip()}
        answer = ground.ask(None, "GET", "/v1/documents", headers=head)
        n += 1
        n_events += answer.status_code != 401
        bodies.add(answer.text)
    n_events += len(bodies) > 2  # no key, and a wrong key: nothing finer is told
    return Outcome(n, n_events, int(ground.ask("ana", "GET", "/v1/documents").status_code == 200))


def _backends(ground: Ground, times: int) -> Outcome:
    """Knock at doors that backends have, and look at which ports the server listens."""
    paths = ("/invocations", "/score", "/tokenize", "/detokenize", "/v1/completions", "/rerank",
             "/v1/embeddings", "/generate", "/v1/engines", "/debug", "/admin", "/docs", "/index",
             "/slots", "/props", "/pooling", "/v1/score", "/.env", "/ostiary.db")  # fmt: skip
    n, n_events = 0, 0
    for path in paths * times:
        for method in ("GET", "POST"):
            answer = ground.ask("bo", method, path, json={} if method == "POST" else None)
            n += 1
            n_events += answer.status_code not in {404, 405}
    port = int(ground.url.rpartition(":")[2])
    listening = _listening(ground.process.pid)
    n_events += len(listening - {("127.0.0.1", port)})
    return Outcome(n + 1, n_events, int(("127.0.0.1", port) in listening))


def _listening(pid: int) -> set[tuple[str, int]]:
    """Read from the kernel where a process listens."""
    own = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(str(link.readlink()))
        except OSError:
            continue  # closed meanwhile
    found = set()
    for family, table in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[at] for at in (1, 3, 9))
            if state == "0A" and f"socket:[{inode}]" in own:
                address, _, port = local.partition(":")
                found.add((_address(family, address), int(port, 16)))
    return found


def _address(family: int, text: str) -> str:
    raw = bytes.fromhex(text)
    words = [raw[at : at + 4][::-1] for at in range(0, len(raw), 4)]  # words of the machine's order
    return socket.inet_ntop(family, b"".join(words))


def _aliases(ground: Ground, times: int) -> Outcome:
    """Spell a closed folder, a group and a document otherwise: no spelling may open them."""
    folders = ("closed ", " closed", "CLOSED", "ｃｌｏｓｅｄ", "cl\u043esed", "open/../closed",
               "./closed", "closed/", "/closed", "closed\u200b", "closed\x00", "%63losed",
               "closed//", "clo\u00adsed", "open\\..\\closed")  # fmt: skip
    there = ground.documents["closed-1"]
    ids = (there.upper(), there + "/", there + "%00", f"%20{there}", f"../documents/{there}",
           there.replace("doc_", "DOC_"), there[:-1], f"{there}/..%2f{there}",
           there.replace("_", "\uff3f"))  # fmt: skip
    n, n_events = 0, 0
    for name in folders * 4 * times:
        answer = ground.upload("bo", name, "alias", "some text")
        n += 1
        n_events += answer.status_code in {200, 201}
        found = ground.ask("bo", "GET", "/v1/grants", params={"type": "collection", "path": name})
        n_events += found.status_code == 200
        n_events += ground.search("bo", f"word {ground.canaries[0]}").text.count(ground.canaries[0])
    for name in ids * 4 * times:
        n += 1
        n_events += ground.ask("bo", "GET", f"/v1/documents/{name}").status_code == 200
    control = ground.ask("ana", "GET", f"/v1/documents/{there}").status_code == 200
    return Outcome(n, n_events, int(control))


def _write_only(ground: Ground, times: int) -> Outcome:
    """Upload what may be there already, with a right to write and none to read: nothing is told."""
    n, n_events, control = 0, 0, 0
    for number in range(30 * times):
        text = f"{ground.canary()} {ground.prose(20)}"
        ground.put("drop", f"kept-{number}", text)
        pairs = [ground.upload("wes", "drop", f"kept-{number}", each)
                 for each in (text, f"{ground.canary()} {ground.prose(20)}")]  # fmt: skip
        said = [(each.status_code, each.json().get("outcome")) for each in pairs]
        n += 1
        n_events += said[0] != said[1]
        again = [ground.upload("wes", "open", f"mine-{number}", text).json().get("outcome")
                 for _ in range(2)]  # fmt: skip
        control += again[0] != again[1]
    return Outcome(n, n_events, control)


def _gained(ground: Ground, times: int) -> Outcome:
    """Try by every write to gain a right: grants, groups, readers, moves by upload."""
    there, own = ground.documents["closed-2"], ground.documents["open-2"]
    tries: list[tuple[str, str, dict[str, object]]] = [
        ("PUT", f"/v1/documents/{there}/acl", {"json": {"read": ["user:bo"]}}),
        ("PUT", f"/v1/documents/{own}/acl", {"json": {"read": ["user:bo"], "manage": ["user:bo"]}}),
        ("PUT", "/v1/groups/inner/members/user:bo", {}),
        ("PUT", "/v1/groups/inner/members/group:staff", {}),
        ("POST", "/v1/groups", {"json": {"name": "inner"}}),
        ("DELETE", f"/v1/documents/{there}", {}),
        ("POST", "/v1/documents", {"data": {"collection": "closed", "read": ["user:bo"]},
                                   "files": {"file": ("closed-2.txt", b"mine")}}),
        ("POST", "/v1/documents", {"data": {"collection": "open", "read": ["user:bo"]},
                                   "files": {"file": ("closed-2.txt", b"mine")}}),
    ]  # fmt: skip
    resources = ({"type": "tenant"}, {"type": "collection", "path": "closed"},
                 {"type": "document", "id": there}, {"type": "group", "name": "inner"})  # fmt: skip
    for action, resource in product(("read", "write", "manage"), resources):
        body = {"resource": resource, "principal": "user:bo", "action": action}
        tries.append(("POST", "/v1/grants", {"json": body}))
    n, n_events = 0, 0
    for who in ("bo", "zoe", "wes") * times:
        for method, path, more in tries:
            answer = ground.ask(who, method, path, **more)  # type: ignore[arg-type]
            # wes writes to `open`, and may upload there; readers are for managers to name.
            n += 1
            n_events += answer.is_success
        n_events += ground.ask(who, "GET", f"/v1/documents/{there}").status_code != 404
    control = ground.ask("ana", "GET", f"/v1/documents/{there}").status_code == 200
    return Outcome(n, n_events, int(control))


def _no_door(why: str) -> Outcome:
    return Outcome(0, why=why)


ATTACKS = (
    Attack("20", "random policies against casbin", _policies),
    Attack("21", "a deputy confused about who asks", _deputy),
    Attack("22", "keys ended, bent, mixed or made up", _tokens),
    Attack("23", "backends reached past the door", _backends),
    Attack("31", "other spellings of names and ids", _aliases),
    Attack("L3", "uploads that tell what is there", _write_only),
    Attack("L4", "rights gained by a write", _gained),
    Attack("L5", "impersonation upwards", lambda *_: _no_door("nobody can be impersonated yet")),
    Attack("L6", "old rights restored, stale tokens",
           lambda *_: _no_door("there is no restore and no token but keys yet")),
)  # fmt: skip
