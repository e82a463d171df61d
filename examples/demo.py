"""The demo: a company's files, two people, the same three questions, side by side.

Everything goes through the product's own doors: the command line brings the files in, a
server answers over REST to the stock OpenAI client, and each citation is opened.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import openai
import yaml
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

HERE = Path(__file__).resolve().parent
COMPANY = HERE / "company"
HOME = HERE.parent / ".demo"
TENANT = "calderhythe"
OSTIARY = str(Path(sys.executable).with_name("ostiary"))
ENVIRONMENT = {**os.environ, "OSTIARY_HOME": str(HOME / "home"), "OSTIARY_TENANT": TENANT}

console = Console(width=max(100, min(Console().width, 140)))


def main() -> None:
    """Run the demo from an empty machine, or again on what it left."""
    HOME.mkdir(exist_ok=True)
    company = COMPANY.relative_to(Path.cwd()) if COMPANY.is_relative_to(Path.cwd()) else COMPANY
    run("tenant", "add", TENANT)
    run("ingest", str(company), "--acl", str(company / "access.yaml"))
    questions = [q for q in yaml.safe_load((COMPANY / "questions.yaml").read_text()) if q.get("demo")]
    people = questions[0]["as"]
    names = yaml.safe_load((COMPANY / "access.yaml").read_text())["users"]
    server, url = serve()
    try:
        keys = {person: key_for(person, url) for person in people}
        for question in questions:
            side_by_side(url, keys, names, question)
        no_trace(url, keys, people)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)


def run(*arguments: str) -> str:
    """Run a command of ours and show it as one would type it."""
    console.print(f"[bold]$ ostiary {' '.join(arguments)}[/]", highlight=False)
    done = subprocess.run(  # noqa: S603 - our own command, fixed arguments
        [OSTIARY, *arguments], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True
    )
    console.print(done.stdout.rstrip(), highlight=False, markup=False)
    return done.stdout.strip()


def serve() -> tuple[subprocess.Popen[str], str]:
    """Start the server on a free port and wait until it says where it is."""
    console.print("[bold]$ ostiary serve --port 0[/]", highlight=False)
    log = (HOME / "server.log").open("w")
    server = subprocess.Popen(  # noqa: S603 - our own command, fixed arguments
        [OSTIARY, "serve", "--port", "0"], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None  # noqa: S101 - it was asked for
    for line in server.stderr:
        log.write(line)
        found = re.search(r"serves at (\S+)", line)
        if found:
            console.print(line.rstrip(), highlight=False, markup=False)
            return server, found[1]
    raise SystemExit(f"the server did not start; see {log.name}")


def key_for(person: str, url: str) -> str:
    """Give the key made for a person in an earlier run if it is still good, or a new one."""
    kept = HOME / "keys.json"
    keys: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
    if person in keys:
        answer = httpx.get(f"{url}/v1/models", headers={"Authorization": f"Bearer {keys[person]}"})
        if answer.status_code == 200:
            return keys[person]
    done = subprocess.run(  # noqa: S603 - our own command, fixed arguments
        [OSTIARY, "key", "add", f"user:{person}"],
        env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    keys[person] = done.stdout.strip()
    kept.touch(mode=0o600)
    kept.write_text(json.dumps(keys))
    return keys[person]


def side_by_side(
    url: str, keys: dict[str, str], names: dict[str, str], question: dict[str, Any]
) -> None:
    """Ask one question as each person and show both answers."""
    console.rule(f"[bold]{question['question']}")
    table = Table(expand=True, show_lines=True)
    cells = []
    for person, key in keys.items():
        table.add_column(names[person], ratio=1)
        cells.append(answer_of(url, key, question["question"]))
    table.add_row(*cells)
    console.print(table)


def answer_of(url: str, key: str, question: str) -> Group:
    """Ask as the holder of a key, open every citation, and lay it all out."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        answer = client.chat.completions.create(
            model="ostiary", messages=[{"role": "user", "content": question}]
        )
    ours: dict[str, Any] = (answer.model_extra or {})["ostiary"]
    parts: list[Any] = [Text(answer.choices[0].message.content or "", style="bold"), Text("")]
    for each in {c["number"]: c for c in ours["citations"]}.values():
        opened = httpx.get(f"{url}{each['url']}", headers={"Authorization": f"Bearer {key}"})
        opened.raise_for_status()
        page = f", page {each['page']}" if each["page"] else ""
        parts.append(Text(f"[{each['number']}] {each['title']}{page}", style="cyan"))
        passage = " ".join(opened.json()["text"].split())
        parts.append(Padding(Text(f"{passage[:150]}…", style="dim"), (0, 0, 0, 4)))
    stages = Table("stage", "budget", "spent", "said", box=None, padding=(0, 1), style="dim")
    for each in ours["stages"]:
        budget, spent = f"{each['budget_ms']:.0f} ms", f"{each['spent_ms']:.1f} ms"
        stages.add_row(each["name"], budget, spent, each["cut"])
    return Group(*parts, Text(""), stages)


def no_trace(url: str, keys: dict[str, str], people: list[str]) -> None:
    """Show that what a person may not read is, for that person, not there."""
    insider, outsider = people
    found = httpx.post(
        f"{url}/v1/search",
        json={"query": "general pay rise", "top_k": 1},
        headers={"Authorization": f"Bearer {keys[insider]}"},
    ).json()["results"][0]
    console.rule(f"[bold]What {outsider} may not see leaves no trace")
    headers = {"Authorization": f"Bearer {keys[outsider]}"}
    hidden = httpx.get(f"{url}/v1/documents/{found['document']}", headers=headers)
    absent = httpx.get(f"{url}/v1/documents/doc_{'0' * 22}", headers=headers)
    console.print(f"{found['title']!r}, which {insider} reads: {hidden.status_code} {hidden.text}")
    console.print(f"a document that does not exist:  {absent.status_code} {absent.text}")
    same = (hidden.status_code, hidden.text) == (absent.status_code, absent.text)
    if not same:
        raise SystemExit("the two differ: that is a leak")
    console.print("The two are the same, byte for byte.")


if __name__ == "__main__":
    main()
