"""Measure rerankers that need no further model on SciFact, and write docs/measurements.md.

    RAGSWEEP_COLLECTIONS=... RAGSWEEP_STORE=... python benchmarks/rerank.py

The folder contains scifact in the format of BEIR. Stored results are reused.
"""

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.core.results import Result
from ragsweep.evaluation.config_graph import chunks_of
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.evaluation.evidence import cover
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.question_table import tabulate
from ragsweep.evaluation.scoring import compare
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import open_store
from ragsweep.sweep.composing.command import compose_jobs, read_command
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.running.session import Session
from tables import keep_results

METRICS = ["ndcg_at_10", "recall_at_10", "mrr"]
RETRIEVERS = ["vector", "bm25", "hybrid_rrf", "hybrid_convex"]
MIXES = [0, 0.1, 0.3, 0.5, 0.7, 0.9]
CANDIDATES = [10, 30, 50, 75, 100]


def prepare(session: Session, *overrides: str) -> Experiment:
    folder = Path(os.environ["RAGSWEEP_COLLECTIONS"]) / "scifact"
    given = ["dataset=beir", f"dataset.path={folder}", "dataset.split=test", "chunker=none", "embedder.dtype=float32"]
    command = read_command([*given, *overrides], multirun=False)
    return session.prepare(Job(compose_jobs(command)[0].config, " ".join(overrides), tuple(given)))


def moved(session: Session, experiment: Experiment, candidates: int) -> dict[str, float]:
    get, golden = session.evaluator.executor.get, experiment.dataset.golden
    coverage = cover(chunks_of(experiment.graph, get), golden)
    queries = tabulate(golden.questions).queries
    before, after = (get(node, queries) for node in (experiment.graph.first_stage, experiment.graph.ranking))
    return compare(before, after, coverage, after.first(candidates))


def row(session: Session, retriever: str, reranker: str, **parameters: Any) -> str:
    overrides = [f"reranker.{name}={value}" for name, value in parameters.items()]
    experiment = prepare(session, f"retriever={retriever}", f"reranker={reranker}", *overrides)
    result: Result = session.evaluator.evaluate(experiment)
    scores = " | ".join(f"{result.summaries.metrics[name].value:.4f}".lstrip("0") for name in METRICS)
    cells = [retriever, "none", "-", "-", scores, "-", "-", "-"]
    if reranker != "none":
        movement = moved(session, experiment, parameters["candidates"])
        probe = result.summaries.latency["rerank"]
        cells = [
            retriever, reranker, str(parameters["candidates"]), str(parameters["mix"]), scores,
            f"{movement['up']:.2f} / {movement['down']:.2f}", f"{movement['mean_change']:+.1f}",
            f"{probe['p50_ms']:.0f} / {probe['p95_ms']:.0f}",
        ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def quantiles(session: Session) -> str:
    parameters = ["reranker=late_interaction", "reranker.candidates=50"]
    movement = moved(session, prepare(session, "retriever=vector", *parameters), 50)
    scores = {name.removeprefix("score_p"): value for name, value in movement.items() if name.startswith("score_p")}
    return ", ".join(f"{percent}% {value:.3f}" for percent, value in scores.items())


def main() -> None:
    store = open_store(Path(os.environ.get("RAGSWEEP_STORE", ".ragsweep")) / "stages", print)
    executor = Executor(store)
    session, began = Session(Evaluator(executor)), time.time()
    lines = [
        f"`python benchmarks/rerank.py`, Python {platform.python_version()}, {os.cpu_count()} cores, "
        + ", ".join(f"{name} {version(name)}" for name in ("sentence-transformers", "torch"))
        + f"; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores while it ran, so read no latency off it.",
        "",
        "SciFact, test, 300 questions, 5,183 documents, chunker=none, float32. Late interaction by all-MiniLM-L6-v2.",
        "Evidence up / down: share of the evidences in either list that moved towards the top / away from it; places:"
        " by how many, on average. Milliseconds: reranking one question, chunks read beforehand, p50 / p95.",
        "",
        "| retriever | reranker | candidates | mix | nDCG@10 | recall@10 | MRR | evidence up / down | places | ms |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for retriever in RETRIEVERS:
        lines.append(row(session, retriever, "none"))
        lines += [row(session, retriever, "late_interaction", candidates=50, mix=mix) for mix in MIXES]
    for candidates in CANDIDATES:
        for mix in (0, 0.5):
            lines.append(row(session, "hybrid_convex", "late_interaction", candidates=candidates, mix=mix))
    counts = {stage: work.executed for stage, work in executor.work.items() if work.executed}
    lines += [
        "",
        f"Scores of the vector retriever's 50 candidates: {quantiles(session)}.",
        "",
        f"Stages computed: {', '.join(f'{stage} {count}' for stage, count in counts.items())}; "
        f"{time.time() - began:.0f} s in all, {int(np.sum([w.seconds for w in executor.work.values()]))} s in stages.",
        "",
    ]
    keep_results("rerank", lines)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
