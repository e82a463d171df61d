"""No link, image, tag or URL of a host that is not on the list survives an answer."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from generation.links import Links
from tests.generation.prompts import cuts

HOSTS = ("docs.example.com",)


def passed(text: str, sizes: list[int] | None = None, hosts: tuple[str, ...] = HOSTS) -> str:
    links = Links(hosts)
    pieces = cuts(text, sizes or [len(text) + 1])
    return "".join(links.feed(piece) for piece in pieces) + links.flush()


def addresses(markdown: str) -> list[str]:
    """Give every address that a Markdown renderer with raw HTML would open or load."""
    rendered = MarkdownIt("commonmark", {"html": True}).render(markdown)
    return re.findall(r"<[a-z][^>]*\s(?:href|src)\s*=\s*[\"']?([^\"'\s>]*)", rendered)


ATTACKS = [
    "[a](https://evil.example/x?q=secret)",
    "![a](https://evil.example/x.png)",
    '![a](https://evil.example/x.png "title")',
    "[a]( <https://evil.example/a b> )",
    "[a](//evil.example/x)",
    "[a](/admin/delete)",
    "[a](javascript:alert(1))",
    "![a](data:image/svg+xml;base64,PHN2Zz4=)",
    "[a](&#104;ttps://evil.example/)",
    "[a][r]\n\n[r]: https://evil.example/x",
    "![r]\n\n[r]:\n  <//evil.example/x>",
    "[^1]: https://evil.example",
    "<https://evil.example/x>",
    "<mailto:x@evil.example>",
    "<img src=https://evil.example/x.png>",
    "<IMG/src='//evil.example/x'>",
    '<a href="https://evil.example">ok</a>',
    "<svg><image href=//evil.example/></svg>",
    "<!-- --><iframe src=//evil.example></iframe>",
    "[![a](https://evil.example/i.png)](https://docs.example.com/)",
    "[a](https://docs.example.com@evil.example/)",
    "[a](https://docs.example.com.evil.example/)",
    "[a](https://docs.example.com\\@evil.example/)",
    "[a](https://docs.example.com'.evil.example/)",
    "[a](https://docs.example.com!.evil.example/)",
    "[a](https://docs.example.comé.evil.example/)",
    "[a](https://docs.example.com:443@evil.example/)",
    "[a](https://sub.docs.example.com/)",
    "[a](ftp://docs.example.com/)",
    "```\n[a](https://evil.example/)\n",
    "http://a.(//evil.example/x)",
    "javascript:(https://evil.example/)",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_of_a_foreign_host_is_rendered(attack: str) -> None:
    shown = passed(f"Look: {attack} end")
    assert [a for a in addresses(shown) if not a.startswith("https://docs.example.com/")] == []
    assert not re.search(r"(?<!docs\.example\.com/)\bhttps?://(?!docs\.example\.com/)", shown)
    assert addresses(passed(attack)) == addresses(passed(attack, [1]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://evil.example/x?q=1.", "see https[:]//evil[.]example/x?q=1."),
        ("[the page](http://evil.example)", "[the page] (http[:]//evil[.]example)"),
        ("www.evil.example and evil.example/p", "www[.]evil[.]example and evil[.]example/p"),
        ("//evil.example/x", "//evil[.]example/x"),
        ("http://3232235777/x", "http[:]//3232235777/x"),
    ],
)
def test_what_is_left_is_readable(text: str, shown: str) -> None:
    assert passed(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "[a](https://docs.example.com/x?y=1#z) and ![i](http://docs.example.com/i.png)",
        "https://docs.example.com. (https://Docs.Example.com:8443/a) **https://docs.example.com**",
        "docs.example.com/install is the page",
        "Version 3.5 and/or 1/2, e.g. main.py. Is it main.py? Note: a < b, 4:30 pm [1] [2].",
        "Write to help@example.com; if x<3 then y->z. Data: none; file: none",
    ],
)
def test_allowed_hosts_and_ordinary_text_survive(text: str) -> None:
    assert passed(text) == text


def test_without_a_list_no_host_survives() -> None:
    assert addresses(passed("[a](https://docs.example.com/)", hosts=())) == []


def test_a_citation_cannot_become_the_label_of_a_link() -> None:
    for after in ("(https://evil.example/)", ": https://evil.example/", "(/x)"):
        links = Links(())
        shown = "".join(
            [links.feed("so "), *links.mark(1), links.feed(after), links.flush(), "\n\n[1]"]
        )
        assert shown.startswith("so [1] ")
        assert addresses(shown) == []


ALPHABET = st.sampled_from(
    (
        "](",
        "[",
        "]",
        "(",
        ")",
        ":",
        "//",
        "http://",
        "https://docs.example.com",
        "<",
        ">",
        ".",
        " ",
        "evil.example",
        "www.",
        "/",
        "a",
        "!",
        "\n",
        "é",
        "img src=",
        "\\",
        "@",
        "&#",
        "data:",
        '"',
    )
)


@given(st.lists(ALPHABET, max_size=30).map("".join), st.lists(st.integers(1, 9), min_size=1))
def test_cutting_changes_nothing_and_nothing_foreign_is_rendered(
    text: str, sizes: list[int]
) -> None:
    shown = passed(text, sizes)
    assert shown == passed(text)
    hosts = {re.split(r"[/?#:]", a.partition("://")[2])[0] for a in addresses(shown)}
    assert hosts <= set(HOSTS)


@pytest.mark.parametrize("unit", ["a", "a.", "http:", "](", "www.", "//", "<a", "&#", "https://a."])
def test_a_long_word_takes_linear_time(unit: str) -> None:
    def spent_s(n_units: int) -> float:
        start = time.process_time()
        passed(unit * n_units)
        return time.process_time() - start

    assert spent_s(40_000) < 20 * max(spent_s(4_000), 0.005)
