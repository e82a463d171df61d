"""Wrong input at the command line: one clear line, exit code 1, and nothing else is harmed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pypdf import PdfWriter

from tests.journeys.running import Installed
from tests.retrieval.files import make_pdf

NO_ENGINE = {"OSTIARY_GENERATION__BASE_URL": "http://127.0.0.1:9/v1"}


def _made(folder: Path) -> Installed:
    home = Installed.at(folder, "acme", OSTIARY_RETRIEVAL__ENCODER="hashed", **NO_ENGINE)
    home.say("tenant", "add", "acme")
    home.say("user", "add", "ana")
    return home


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Installed:
    return _made(tmp_path / "home")


@pytest.fixture(name="still", scope="module")
def _still(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An installation for commands that are refused and change nothing."""
    return _made(tmp_path_factory.mktemp("still"))


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    files.mkdir()
    (files / "good.md").write_text("# Good\n\nThe gate opens at nine.")
    return files


def _locked(content: bytes) -> bytes:
    writer = PdfWriter(clone_from=io.BytesIO(content))
    writer.encrypt("password", algorithm="RC4-128")
    locked = io.BytesIO()
    writer.write(locked)
    return locked.getvalue()


def _refused(home: Installed, *arguments: str) -> str:
    done = home.run(*arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("ostiary: ")
    assert "Traceback" not in done.stderr
    return lines[0]


def _results(home: Installed, *arguments: str) -> dict[str, tuple[str, str]]:
    done = home.run("ingest", *arguments, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {Path(line["document"]).name: (line["result"], line["reason"]) for line in lines}


def test_a_bad_file_fails_alone_and_says_why(home: Installed, files: Path) -> None:
    (files / "empty.txt").touch()
    (files / "locked.pdf").write_bytes(_locked(make_pdf("A secret")))
    (files / "broken.docx").write_bytes(b"PK\x03\x04 not a Word file")
    (files / "nul.txt").write_bytes(b"a\x00b and more")

    results = _results(home, str(files), "--collection", "c")

    assert results["good.md"][0] == "created"
    assert results["nul.txt"][0] == "created"
    assert results["empty.txt"] == ("failed", "empty file: it has 0 bytes")
    assert results["locked.pdf"][0] == "failed"
    assert "encrypted" in results["locked.pdf"][1]
    assert results["broken.docx"][0] == "failed"
    assert home.run("ingest", str(files), "--collection", "c").returncode == 1


def test_a_loop_of_links_ends_and_links_are_passed_over(home: Installed, files: Path) -> None:
    (files / "sub").mkdir()
    (files / "sub/loop").symlink_to(files)
    (files / "link.md").symlink_to("good.md")

    assert _results(home, str(files), "--collection", "c") == {"good.md": ("created", "")}


def test_an_unknown_principal_refuses_the_run_before_anything_is_stored(
    home: Installed, files: Path
) -> None:
    sheet = files / "access.yaml"
    sheet.write_text("users: {bo: Bo}\ncollections: {.: {name: c, read: [group:ghosts]}}")
    lines = files / "lines.jsonl"
    lines.write_text(
        json.dumps({"id": "a", "text": "fine", "readers": ["user:ana"]}) + "\n"
        + json.dumps({"id": "b", "text": "fine", "readers": ["group:ghosts"]})
    )  # fmt: skip

    assert "no group named ghosts" in _refused(home, "ingest", str(files), "--acl", str(sheet))
    assert "ghosts" in _refused(
        home, "ingest", str(files), "--collection", "c", "--allow", "group:ghosts"
    )
    assert "ghosts" in _refused(home, "ingest", str(lines), "--collection", "c")
    # Not even the user of the sheet was made.
    assert "no user named bo" in _refused(home, "key", "add", "user:bo")
    assert _results(home, str(files), "--collection", "c")["good.md"][0] == "created"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("users: [1", "is not YAML: line 1"),
        ("readers: {}", "readers: Extra inputs are not permitted"),
        ("documents: {none.md: {}}", "none.md: there is no such file"),
        ("groups: {a: [group:b], b: [group:a]}", "cycle"),
        ("groups: {everyone: []}", "built in"),
        ("collections: {../up: {}}", "outside"),
        ("users: {'a b': x}", "is no name"),
    ],
)
def test_a_damaged_access_file_says_where(
    still: Installed, files: Path, text: str, said: str
) -> None:
    sheet = files / "access.yaml"
    sheet.write_text(text)

    assert said in _refused(still, "ingest", str(files), "--acl", str(sheet))


def test_damaged_lines_are_named_with_their_numbers(still: Installed, files: Path) -> None:
    lines = files / "lines.jsonl"
    lines.write_text('{"id": "a", "text": "fine"}\n{"id": "b"}\n{bad\n')

    said = _refused(still, "ingest", str(lines), "--collection", "c")

    assert "line 2: text: Field required" in said
    assert "line 3: is not JSON" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ingest", "nowhere", "--collection", "c"), "no such file or folder"),
        (("ingest", "."), "--collection NAME, or --acl access.yaml"),
        (("ingest", ".", "--collection", "/x"), "no collection path"),
        (("ingest", ".", "--collection", "c", "--tenant", "nobody"), "ostiary tenant add nobody"),
        (("grant", "user:zed", "read", "tenant"), "no user named zed"),
        (("grant", "user:ana", "read", "collection:none"), "no collection none"),
        (("grant", "user:ana", "read", "thing"), "collection:PATH"),
        (("revoke", "user:ana", "read", "tenant"), "has no allow of read"),
        (("key", "add", "group:everyone"), "can't hold a key"),
        (("key", "revoke", "none"), "no key none"),
        (("user", "add", "a*"), "is no name"),
        (("user", "delete", "zed"), "no user named zed"),
        (("ask", "anything"), "--key or OSTIARY_KEY"),
        (("tenant", "add", "*"), "is no name"),
    ],
)
def test_what_is_not_there_or_not_possible_is_said(
    still: Installed, arguments: tuple[str, ...], said: str
) -> None:
    assert said in _refused(still, *arguments)


def test_settings_and_models_are_named(still: Installed, files: Path, tmp_path: Path) -> None:
    def with_(**settings: str) -> Installed:
        return Installed({**still.environment, **settings})

    assert "OSTIARY_PORT" in _refused(with_(OSTIARY_PORT="abc"), "tenant", "list")
    assert "legs_depth" in _refused(with_(OSTIARY_RETRIEVAL__LEGS_DEPTH="5"), "tenant", "list")
    assert "needs at least 32" in _refused(with_(OSTIARY_SECRET="abc"), "key", "add", "user:ana")
    models = with_(OSTIARY_RETRIEVAL__ENCODER="default", OSTIARY_MODELS=str(tmp_path / "none"))
    said = _refused(models, "ingest", str(files), "--collection", "c")
    assert "ostiary models fetch" in said


def test_a_port_in_use_is_said_before_anything_is_loaded(still: Installed) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])

        assert f"can't listen on 127.0.0.1:{port}" in _refused(still, "serve", "--port", port)


def test_vectors_of_another_encoder_stop_a_server_and_name_both(
    home: Installed, files: Path, tmp_path: Path
) -> None:
    home.say("ingest", str(files), "--collection", "c")
    database = tmp_path / "home/ostiary.db"
    subprocess.run(
        ["python3", "-c", "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
         "c.execute(\"UPDATE index_version SET name = 'other@1'\"); c.commit()", str(database)],
        check=True,
    )  # fmt: skip

    for command in (["serve", "--port", "0"], ["ingest", str(files), "--collection", "c"]):
        said = _refused(home, *command)
        assert "other@1" in said
        assert "hashed-64" in said
        assert "ostiary index build" in said


def test_an_encoder_of_no_version_stops_a_server_and_names_both(
    home: Installed, files: Path
) -> None:
    home.say("ingest", str(files), "--collection", "c")
    home.environment["OSTIARY_RETRIEVAL__ENCODER"] = "hashed:96"
    said = _refused(home, "serve", "--port", "0")
    assert "names hashed:96" in said
    assert "hashed-64" in said


@pytest.fixture(name="tiny")
def _tiny(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("only root can mount a file system of one megabyte")
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]).returncode:
        pytest.skip("a file system of one megabyte can't be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_stops_an_ingest_and_keeps_what_was_reported(
    home: Installed, tiny: Path, files: Path
) -> None:
    small = Installed({**home.environment, "OSTIARY_HOME": str(tiny / "home")})
    small.say("tenant", "add", "acme")
    for number in range(60):
        text = " ".join(f"word{n * number}" for n in range(3000))
        (files / f"big{number:02}.txt").write_text(text)

    done = small.run("ingest", str(files), "--collection", "c", "--json")

    reported = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert "can't be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert 0 < len(reported) < 60
    assert all(line["result"] == "created" for line in reported)
    assert small.say("tenant", "list") == "acme"
    full = Installed({**small.environment, "OSTIARY_HOME": str(tiny / "other")})
    _fill(tiny)
    assert "can't" in _refused(full, "tenant", "list")


def _fill(folder: Path) -> None:
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 1024)
