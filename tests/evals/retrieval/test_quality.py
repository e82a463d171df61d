"""Quality of retrieval, on a made-up collection whose right answers are known, and a real one."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.__main__ import app
from evals.report import read_report
from evals.retrieval import vectors
from evals.retrieval.collection import Collection, load_collection
from evals.retrieval.measures import difference, headline
from evals.retrieval.quality import chosen_elsewhere, glance, judge
from evals.retrieval.vectors import vectors_of
from retrieval.hashed import HashedEncoder
from retrieval.settings import RetrievalSettings
from retrieval.types import Candidate, Query

WORDS = [f"word{number}" for number in range(300)]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "user_cache_path", lambda _: tmp_path / "cache")


def made_up(name: str = "made-up", own_query: bool = False) -> Collection:
    """Documents of random words; each query is half the words of one of them."""
    chance = random.Random(name)  # noqa: S311 - repeatable
    texts = {f"d{n}": " ".join(chance.sample(WORDS, 20)) for n in range(120)}
    chosen = {f"d{n + 60}" if own_query else f"q{n}": f"d{n}" for n in range(25)}
    queries = {query: " ".join(texts[d].split()[:10]) for query, d in chosen.items()}
    if own_query:
        texts |= queries
    qrels = {query: {document: 1} for query, document in chosen.items()}
    return Collection(name, dict.fromkeys(texts, ""), texts, queries, qrels, "0" * 64)


def test_every_stage_finds_what_shares_the_words() -> None:
    done = judge(made_up(), HashedEncoder(), RetrievalSettings(), seed=1, chunked=True)
    by_name = {each.name: each for each in done.measures}

    for stage in ("lexical", "fused", "fused, product's passages"):
        assert by_name[f"made-up/{stage}/nDCG@10"].value > 0.95
    assert by_name["made-up/dense/nDCG@10"].value > 0.7
    assert by_name["made-up/lexical/nDCG@10"].n == 25


def test_under_a_scope_rankings_are_those_of_an_index_of_the_permitted_alone() -> None:
    done = judge(made_up(), HashedEncoder(), RetrievalSettings(), seed=1)
    same = [each for each in done.measures if each.name.endswith("same rankings")]

    assert same
    assert all(each.value == 1.0 for each in same)


class Contrary:
    """Ranks what fusion put last first."""

    kind = "contrary"

    def rerank(self, query: Query, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        assert query.text
        return tuple(reversed(candidates))


def test_a_reranker_is_measured_over_the_fusion_and_to_its_depth() -> None:
    settings = RetrievalSettings(rerank_depth=5)
    done = judge(made_up(), HashedEncoder(), settings, seed=1, reranker=Contrary())
    by_name = {each.name: each for each in done.measures}
    lost = by_name["made-up/reranked over fused/nDCG@10"]
    table = glance(done.measures)

    assert by_name["made-up/reranked/RR@10"].value == pytest.approx(1 / 5, abs=0.02)
    assert lost.high is not None
    assert lost.high < 0
    assert table.head[-1] == "reranked"
    assert glance(judge(made_up(), HashedEncoder(), settings, 1).measures).head[-1] == "fused"


def test_a_querys_own_document_is_not_found() -> None:
    collection = made_up(own_query=True)
    done = judge(collection, HashedEncoder(), RetrievalSettings(), seed=1)
    run = done.searched.lexical()

    assert collection.own_query
    assert all(query not in found for query, found in run.items())
    assert headline(run, collection.qrels) > 0.7


def test_a_weight_is_chosen_on_the_other_collections() -> None:
    judged = [
        judge(made_up(name), HashedEncoder(), RetrievalSettings(), seed=1) for name in ("a", "b")
    ]
    found = {each.name: each for each in chosen_elsewhere(judged, seed=1)}

    assert "dense weight" in found["a/fused, weight chosen on the others/nDCG@10"].note
    assert chosen_elsewhere(judged[:1], seed=1) == []


def test_two_runs_are_told_apart_only_beyond_chance() -> None:
    chance = random.Random(1)  # noqa: S311 - repeatable
    base = {f"q{n}": chance.random() for n in range(60)}
    noise = {query: value + chance.gauss(0, 0.1) for query, value in base.items()}
    better = {query: value + 0.1 + chance.gauss(0, 0.1) for query, value in base.items()}

    assert difference(noise, base, seed=1).p > 0.05
    gained = difference(better, base, seed=1)
    assert gained.p < 0.001
    assert gained.low < gained.mean < gained.high
    assert gained.low > 0
    assert difference(base, base, seed=1).p == 1.0


def test_vectors_are_kept_by_what_was_encoded_and_by_whom(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(300)]
    first = vectors_of(HashedEncoder(64), texts)
    kept = list((tmp_path / "cache").rglob("*.npy"))
    again = vectors_of(HashedEncoder(64), texts)
    wider = vectors_of(HashedEncoder(128), texts)
    vectors_of(HashedEncoder(64), ["text 0 and more", *texts[1:]])

    assert (first == again).all()
    assert wider.shape == (300, 128)
    assert len(kept) == 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == 5, "the second chunk was the same"


def test_the_command_writes_reports_that_only_their_owner_reads(tmp_path: Path) -> None:
    collection = made_up()
    folder = tmp_path / "made-up"
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": i, "title": "", "text": t}) for i, t in collection.texts.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    asked = [json.dumps({"_id": i, "text": t}) for i, t in collection.queries.items()]
    (folder / "queries.jsonl").write_text("\n".join(asked))
    judgements = [
        f"{q}\t{d}\t{r}" for q, found in collection.qrels.items() for d, r in found.items()
    ]
    (folder / "qrels/test.tsv").write_text("\n".join(judgements))
    arguments = ["quality", str(folder), "--encoder", "hashed", "--out", str(tmp_path / "out")]

    done = CliRunner().invoke(app, arguments)

    assert done.exit_code == 0, done.output
    report = read_report(tmp_path / "out/report.json")
    assert report.made_of["encoder"] == "hashed-64"
    assert "no reranker" in report.left_out[0]
    for name in ("report.json", "report.md", "report.html"):
        assert (tmp_path / "out" / name).stat().st_mode & 0o077 == 0
    assert "made-up" in (tmp_path / "out/report.md").read_text()
    assert "<svg" in (tmp_path / "out/report.html").read_text()


def test_a_folder_that_is_no_collection_is_told_on_a_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["quality", str(tmp_path), "--out", str(tmp_path / "out")])

    assert done.exit_code == 2
    assert "corpus.jsonl" in done.output


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.skipif("OSTIARY_DATA" not in os.environ, reason="OSTIARY_DATA is not set")
def test_quality_on_real_collections_passes_the_gate(tmp_path: Path) -> None:
    """What CI holds: two small collections, the real encoder, against the saved report."""
    folders = [str(Path(os.environ["OSTIARY_DATA"]) / "retrieval" / n) for n in ("adi", "med")]
    assert load_collection(Path(folders[0])).queries
    gates = Path(__file__).parents[3] / "evals/gates"
    out = tmp_path / "out"

    done = CliRunner().invoke(app, ["quality", *folders, "--out", str(out)])
    assert done.exit_code == 0, done.output
    held = [str(gates / "quality.json"), str(out / "report.json"), "--gate"]
    compared = CliRunner().invoke(app, ["compare", *held, str(gates / "quality.yaml")])

    assert compared.exit_code == 0, compared.output
