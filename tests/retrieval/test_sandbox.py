"""A bad file harms nothing but itself. These readers run in the worker: module-level, plain."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator

import pytest

from retrieval.errors import ParseFailed
from retrieval.parse import ParseLimits, parse
from retrieval.sandbox import Sandbox
from retrieval.types import Parsed
from tests.retrieval.files import make_docx

LIMITS = ParseLimits(time_s=1.0, memory_nbytes=256 * 2**20)


def obey(name: str, content: bytes, limits: ParseLimits) -> Parsed:
    """Do to the worker what the file's name says, and else read the file."""
    if name == "hang":
        time.sleep(60)
    elif name == "crash":
        os.abort()
    elif name == "quote":
        raise KeyError(content)
    elif name == "devour":
        return Parsed(name, "x" * (2 * limits.memory_nbytes), "text/plain")
    elif name == "confess":
        core = resource.getrlimit(resource.RLIMIT_CORE)
        return Parsed(f"{core} {'torch' in sys.modules}", str(os.getpid()), "text/plain")
    return parse(name, content, limits)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(LIMITS, obey) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hang", "longer than 1 s"),
        ("crash", "crashed"),
        ("devour", "more than 256 MiB"),
        ("quote", r"failed \(KeyError\)"),
    ],
)
def test_after_a_file_that_breaks_its_reader_the_next_one_is_read(
    sandbox: Sandbox, name: str, message: str
) -> None:
    with pytest.raises(ParseFailed, match=message) as caught:
        sandbox.parse(name, b"secret words")
    assert "secret" not in str(caught.value)
    assert sandbox.parse("a.txt", b"secret words").text == "secret words"


def test_the_worker_leaves_no_core_dumps_and_never_loads_torch(sandbox: Sandbox) -> None:
    told = sandbox.parse("confess", b"")
    assert told.title == "(0, 0) False"
    assert int(told.text) != os.getpid()


def test_a_word_file_that_is_a_bomb_is_refused_with_its_reason(sandbox: Sandbox) -> None:
    bomb = make_docx(**{"word/media/zeros.bin": bytes(30 * 2**20)})
    with pytest.raises(ParseFailed, match="inflates to more than"):
        sandbox.parse("bomb.docx", bomb)


def test_files_are_read_by_our_own_reader_unless_told_otherwise() -> None:
    with Sandbox(ParseLimits()) as sandbox:
        assert sandbox.parse("a.md", b"# Title\n\nwords").title == "Title"
