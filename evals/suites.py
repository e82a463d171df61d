"""The suites, each from what it is asked to do to its report; a run of several makes one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from acl.directory import find_tenant
from evals import answered as worth
from evals import rights as judging
from evals.answering import answer_set
from evals.attacks.reporting import report_of
from evals.attacks.suite import ATTACKS, Fought, fight
from evals.checks import keys_of, load_rights, stored
from evals.config import Answers, Attacks, Own, Quality, Rights, Suite
from evals.drafting import Corpus, draft
from evals.opinion import Judge
from evals.own import Question, ask_all, judged, read_questions
from evals.questions import load_questions
from evals.report import Report
from evals.retrieval.collection import load_collection
from evals.retrieval.quality import chosen_elsewhere, glance, judge
from pipeline.build import build_encoder, build_engine, build_reranker
from pipeline.migrate import open_database
from pipeline.settings import load_settings

Told = Callable[[str], object]
_TIMEOUT_S = 60.0


def run_suite(suite: Suite, out: Path, seed: int, told: Told) -> Report:
    """Run a suite; what it keeps to go on with lies in `out`.

    Raises: ValueError for what is wrong with a folder or file it names; AclError for people or
        tenants that are not there; httpx.HTTPError, RuntimeError if a server fails.
    """
    match suite:
        case Quality():
            return quality(suite, seed, told)
        case Rights():
            return rights(suite, out, told)
        case Answers():
            return answers(suite, out, seed, told)
        case Attacks():
            return attacks(suite, told)
        case Own():
            return own(suite, seed, told)


def quality(asked: Quality, seed: int, told: Told) -> Report:
    """Measure each stage of retrieval on collections with judgements."""
    settings = load_settings()
    loaded = build_encoder(asked.encoder, settings.threads)
    reranker = None if settings.retrieval.reranker == "fusion" else build_reranker(settings)
    collections = [load_collection(folder) for folder in asked.collections]
    done = [
        judge(each, loaded, settings.retrieval, seed, chunked=asked.chunked, reranker=reranker,
              told=told)
        for each in collections
    ]  # fmt: skip
    told("Choosing weights")
    measures = [m for each in done for m in each.measures] + chosen_elsewhere(done, seed)
    made_of = {
        "encoder": loaded.name, "dense weight": f"{settings.retrieval.dense_weight:g}",
        "depth of legs": str(settings.retrieval.legs_depth),
        "reranker": settings.retrieval.reranker_model or settings.retrieval.reranker,
        **{each.name: f"sha256 {each.digest[:12]}" for each in collections},
    }  # fmt: skip
    left = () if reranker is not None else (
        "reranked: no reranker is set, so the order of fusion is what is served",
    )  # fmt: skip
    return Report("Quality of retrieval", seed, made_of, tuple(measures), left, (glance(measures),))


def rights(asked: Rights, out: Path, told: Told) -> Report:
    """Judge permissions collections, each on a server of its own or the one on a running one."""
    done: dict[str, list[judging.Doors]] = {}
    for folder in asked.collections:
        done[folder.name] = (
            _on_running(folder, asked, told)
            if asked.tenant
            else judging.judge_set(folder, out, asked.n_checks, told)
        )
    measures = [m for name, doors in done.items() for m in judging.measures_of(name, doors)]
    everything = [each for doors in done.values() for each in doors]
    if len(done) > 1:
        measures += judging.measures_of("all", everything)
    left = () if any(each.explained is not None for each in everything) else (
        "explanations: no manager was named to ask for them",
    )  # fmt: skip
    server = asked.url if asked.tenant else "its own for each set"
    made_of = {"server": server, "encoder": load_settings().retrieval.encoder}
    return Report("Rights", 0, made_of, tuple(measures), left, (judging.glance(measures),),
                  judging.faults(measures))  # fmt: skip


def answers(asked: Answers, out: Path, seed: int, told: Told) -> Report:
    """Ask question collections end to end, each on a server of its own."""
    sets = [load_questions(each) for each in asked.collections]
    with _judge(asked) as outside:
        done = {each.name: answer_set(each, out, asked.n, seed, told, outside) for each in sets}
    measures = [m for name, each in done.items() for m in worth.measures_of(name, each)]
    if len(done) > 1:
        measures += worth.measures_of("all", [pair for each in done.values() for pair in each])
    settings = load_settings()
    engine = settings.generation.base_url or "embedded"
    made_of = {
        "engine": f"{engine} {settings.generation.model}", "encoder": settings.retrieval.encoder,
        "judge": asked.judge_model or "none",
    }  # fmt: skip
    left = () if asked.judge_model else ("an outside model's judgement: none was named",)
    return Report("Answers", seed, made_of, tuple(measures), left, (worth.glance(measures),),
                  worth.faults(measures))  # fmt: skip


def attacks(asked: Attacks, told: Told) -> Report:
    """Attack a server of our own. Raises: KeyError for a number that no attack has."""
    fought: list[Fought] = []
    total = len(asked.only or ATTACKS)
    told("Starting")
    for each in fight(asked.only, asked.times):
        fought.append(each)
        told(f"{len(fought)} of {total} attacks")
    return report_of(fought, asked.times)


def own(asked: Own, seed: int, told: Told) -> Report:
    """Ask a running server questions of its owner's, as the people they name."""
    questions = read_questions(asked.questions)
    keys, name_of, _ = _of_tenant(asked.tenant, [each.asker for each in questions])
    # In another order each seed: what one question leaves in a cache must help no other.
    random.Random(seed).shuffle(questions)  # noqa: S311 - an order
    timeout_s = load_settings().timeout_s + 5
    with httpx.Client(base_url=asked.url, timeout=timeout_s) as client:
        asking = ask_all(client, questions, keys.__getitem__, name_of, answers=asked.answers)
        done = []
        for number, each in enumerate(asking, 1):
            done.append(each)
            told(f"{number} of {len(questions)} questions")
        head = {"Authorization": f"Bearer {keys[questions[0].asker]}"}
        model = client.get("/v1/models", headers=head)
    models = ", ".join(each["id"] for each in model.json()["data"])
    made_of = {"server": asked.url, "models": models, "questions": asked.questions.name}
    n_drafted = sum(each.drafted for each in questions)
    if n_drafted:
        made_of["drafted by an engine"] = f"{n_drafted} of {len(questions)} questions"
    return Report("Own questions", seed, made_of, tuple(judged(done, seed, answers=asked.answers)))


def drafted(tenant: str, url: str, asker: str, n: int, seed: int, told: Told) -> list[Question]:
    """Draft questions from what somebody may read on a running server, by the settings' engine.

    Raises: as `run_suite`; GenerationError if the engine fails.
    """
    keys, _, _ = _of_tenant(tenant, [asker])
    head = {"Authorization": f"Bearer {keys[asker]}"}

    async def drafting() -> list[Question]:
        told("Starting the engine")
        engine = build_engine(load_settings())
        try:
            with httpx.Client(base_url=url, headers=head, timeout=_TIMEOUT_S) as client:
                return await draft(Corpus(client), engine, asker, n, seed, told)
        finally:
            await engine.close()

    return asyncio.run(drafting())


def together(reports: Sequence[Report], seed: int) -> Report:
    """Make one report of several: tables first, then every measure under its suite's name."""
    return Report(
        "Evaluation", seed,
        {f"{r.suite.lower()}: {name}": value for r in reports for name, value in r.made_of.items()},
        tuple(m for r in reports for m in r.measures),
        tuple(f"{r.suite}: {each}" for r in reports for each in r.left_out),
        tuple(each for r in reports for each in r.glances),
        tuple(f"{r.suite}: {each}" for r in reports for each in r.faults),
    )  # fmt: skip


def _on_running(folder: Path, asked: Rights, told: Told) -> list[judging.Doors]:
    found = load_rights(folder)
    chosen = found.checks[: asked.n_checks] if asked.n_checks else found.checks
    who = [each.user for each in chosen] + ([asked.manager] if asked.manager else [])
    keys, name_of, n_passages = _of_tenant(asked.tenant, who)
    done = []
    with httpx.Client(base_url=asked.url, timeout=_TIMEOUT_S) as client:
        asking = judging.Asking(client, keys, name_of, n_passages, keys.get(asked.manager, ""))
        for each in judging.ask_running(asking, found, chosen):
            done.append(each)
            told(f"{folder.name}: {len(done)} of {len(chosen)} checks")
    return done


def _of_tenant(
    tenant: str, who: Sequence[str]
) -> tuple[Mapping[str, str], Mapping[str, str], Mapping[str, int]]:
    """Give keys of people, names of documents and counts of their passages."""
    settings = load_settings()
    database = open_database(settings)
    try:
        tenant_id = find_tenant(database, tenant)
        keys = keys_of(database, tenant_id, who, settings.secret_bytes())
        return keys, *stored(database, tenant_id)
    finally:
        database.close()


@contextmanager
def _judge(asked: Answers) -> Iterator[Judge | None]:
    if not asked.judge_url:
        yield None
        return
    key = asked.judge_key.get_secret_value()
    head = {"Authorization": f"Bearer {key}"} if key else {}
    with httpx.Client(base_url=asked.judge_url, headers=head, timeout=_TIMEOUT_S) as client:
        yield Judge(client, asked.judge_model)
