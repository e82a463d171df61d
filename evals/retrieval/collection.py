"""A collection in BEIR's layout: documents, queries, and which document answers which."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents and queries by id, and judgements: query to document to how relevant (> 0).

    own_query: whether a query can be a document itself (ArguAna, Quora); that one is then left
    out of what its query finds, as the collections' authors do.
    Source: N. Thakur et al., BEIR, NeurIPS 2021 (datasets track), section 3.
    """

    name: str
    titles: Mapping[str, str]
    texts: Mapping[str, str]
    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]
    digest: str

    @property
    def own_query(self) -> bool:
        """Whether some query has the id of a document."""
        return not self.queries.keys().isdisjoint(self.texts.keys())


def load_collection(folder: Path, split: str = "test") -> Collection:
    """Read corpus.jsonl (or .gz), queries.jsonl and qrels/SPLIT.tsv; queries that are judged.

    Raises: ValueError naming the file and line that is not as it should be, or is missing.
    """
    corpus = next((folder / n for n in ("corpus.jsonl", "corpus.jsonl.gz")
                   if (folder / n).exists()), folder / "corpus.jsonl")  # fmt: skip
    digest = hashlib.sha256()
    titles, texts = {}, {}
    for line in _lines(corpus, digest):
        titles[line["_id"]] = line.get("title") or ""
        texts[line["_id"]] = line.get("text") or ""
    queries = {line["_id"]: line["text"] for line in _lines(folder / "queries.jsonl", digest)}
    qrels = _qrels(folder / "qrels" / f"{split}.tsv", digest)
    judged = {query: text for query, text in queries.items() if query in qrels}
    if not judged:
        raise ValueError(f"{folder}: none of {len(queries)} queries has a judgement in {split}")
    return Collection(folder.name, titles, texts, judged, qrels, digest.hexdigest())


def _lines(path: Path, digest: hashlib._Hash) -> Iterator[dict[str, str]]:
    if not path.exists():
        raise ValueError(f"{path} is missing")
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        for number, raw in enumerate(file, 1):
            digest.update(raw)
            if not raw.strip():
                continue
            try:
                line = json.loads(raw)
                if not isinstance(line["_id"], str):
                    raise ValueError("_id is not text")
                yield line
            except (KeyError, TypeError, ValueError) as failure:
                raise ValueError(f"{path}:{number}: needed an object with _id; {failure}") from None


def _qrels(path: Path, digest: hashlib._Hash) -> dict[str, dict[str, int]]:
    if not path.exists():
        raise ValueError(f"{path} is missing")
    digest.update(path.read_bytes())
    found: dict[str, dict[str, int]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file, delimiter="\t"), 1):
            if number == 1 and row and not row[-1].lstrip("-").isdigit():
                continue  # the heads of the columns
            try:
                query, document, relevance = row[0], row[1], int(row[2])
            except (IndexError, ValueError):
                raise ValueError(
                    f"{path}:{number}: needed query, document and a whole number, found {row}"
                ) from None
            if relevance > 0:
                found.setdefault(query, {})[document] = relevance
    return found
