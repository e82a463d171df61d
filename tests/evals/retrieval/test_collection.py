"""Collections in BEIR's layout, also those that are not as they should be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from evals.retrieval.collection import load_collection


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "qrels").mkdir(exist_ok=True)
    usual = {
        "corpus.jsonl": '{"_id": "d1", "title": "Gate", "text": "opens"}\n'
        '{"_id": "d2", "text": "b"}\n',
        "queries.jsonl": '{"_id": "q1", "text": "gate?"}\n{"_id": "q2", "text": "unjudged"}\n',
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n",
    }
    for name, text in {**usual, **{n.replace("__", "/"): t for n, t in files.items()}}.items():
        (folder / name).write_text(text)
    return folder


def test_documents_and_judged_queries_are_read(tmp_path: Path) -> None:
    found = load_collection(write(tmp_path / "small"))

    assert (found.name, found.titles["d1"], found.texts["d2"]) == ("small", "Gate", "b")
    assert found.queries == {"q1": "gate?"}
    assert found.qrels == {"q1": {"d1": 2}}, "what is judged 0 is not relevant"


def test_a_packed_corpus_and_qrels_without_heads_are_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "packed", **{"qrels__test.tsv": "q1\td1\t1\n"})
    plain = (folder / "corpus.jsonl").read_bytes()
    (folder / "corpus.jsonl").unlink()
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(plain))

    found = load_collection(folder)

    assert (len(found.texts), found.qrels["q1"]) == (2, {"d1": 1})


def test_the_digest_is_that_of_all_that_was_read(tmp_path: Path) -> None:
    one = load_collection(write(tmp_path / "one"))
    same = load_collection(write(tmp_path / "same"))
    other = load_collection(write(tmp_path / "other", **{"qrels__test.tsv": "q1\td2\t1\n"}))

    assert one.digest == same.digest != other.digest


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("corpus.jsonl", '{"_id": "d1"}\n{"id": "d2"}\n', r"corpus.jsonl:2: needed an object"),
        ("corpus.jsonl", "[1]\n", r"corpus.jsonl:1: needed an object"),
        ("queries.jsonl", "no json\n", r"queries.jsonl:1"),
        ("qrels__test.tsv", "a\tb\tc\nq1\td1\n", r"test.tsv:2: needed query, document"),
        ("queries.jsonl", json.dumps({"_id": "q9", "text": "x"}), "none of 1 queries"),
    ],
)
def test_a_fault_is_told_with_its_file_and_line(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    folder = write(tmp_path / "wrong", **{name: text})
    with pytest.raises(ValueError, match=told):
        load_collection(folder)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "none")
    (folder / "qrels/test.tsv").unlink()
    with pytest.raises(ValueError, match=r"test.tsv is missing"):
        load_collection(folder)
