"""`ostiary ask`: streams an answer to the terminal, with its citations and stages."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def ask_server(question: str, url: str, key: str, console: Console) -> int:
    """Ask a server and show the answer as it comes. Gives the exit code."""
    # A client that costs a second to load is loaded only by those who ask.
    import openai

    client = openai.OpenAI(base_url=f"{url.rstrip('/')}/v1", api_key=key, max_retries=0)
    ours: dict[str, object] = {}
    try:
        stream = client.chat.completions.create(
            model="ostiary", messages=[{"role": "user", "content": question}], stream=True
        )
        for chunk in stream:
            for choice in chunk.choices:
                console.print(choice.delta.content or "", end="", markup=False, highlight=False)
            ours = (chunk.model_extra or {}).get("ostiary") or ours
    except openai.APIStatusError as failure:
        console.print(f"ostiary: {failure.status_code}: {failure.message}", style="bold red")
        return 1
    except openai.APIConnectionError:
        said = f"ostiary: no answer from {url}; is a server running there (ostiary serve)?"
        console.print(said, style="bold red", markup=False, soft_wrap=True)
        return 1
    except openai.APIError as failure:
        console.print(f"\nostiary: {failure.message}", style="bold red", markup=False)
        return 1
    finally:
        client.close()
    console.print()
    _show(ours, console)
    return 0


def _show(ours: dict[str, object], console: Console) -> None:
    citations, stages = ours.get("citations"), ours.get("stages")
    if isinstance(citations, list):
        seen: dict[int, dict[str, object]] = {each["number"]: each for each in citations}
        for number, each in sorted(seen.items()):
            page = f", page {each['page']}" if each.get("page") else ""
            line = f"[{number}] {each['title']}{page}  {each['url']}"
            console.print(line, markup=False, highlight=False, style="dim")
    if isinstance(stages, list):
        table = Table("stage", "budget ms", "spent ms", "cut", box=None, style="dim")
        for each in stages:
            budget, spent = f"{each['budget_ms']:.0f}", f"{each['spent_ms']:.1f}"
            table.add_row(each["name"], budget, spent, each["cut"])
        console.print(table)
