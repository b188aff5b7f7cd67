"""Compare the retrievers on real collections with published figures, and write docs/measurements.md.

    RAGSWEEP_COLLECTIONS=... python benchmarks/published.py

The folder contains BEIR folders (scifact, python_faq_en, python_faq_fr, cranfield, squad2_dev, piaf_1_1).
"""

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

from ragsweep.core.results import Result
from ragsweep.evaluation.experiment import Experiment
from ragsweep.sweep.composing.command import compose_jobs, read_command
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.running.session import Session
from tables import keep_results

METRICS = ["ndcg_at_10", "recall_at_10", "recall_at_100"]
SCIFACT = {
    "retriever=bm25": ".686 / .819 / .913",
    "retriever=vector": ".645 / .783 / .925",
    "retriever=hybrid_rrf": ".717 / - / -",
    "retriever=hybrid_convex": ".729 / - / -",
}
BM25 = {"python_faq_en": "english", "python_faq_fr": "french", "cranfield": "english", "squad2_dev": "english",
        "piaf_1_1": "french"}  # fmt: skip


def prepare(session: Session, folder: Path, *overrides: str) -> Experiment:
    precise = [] if any(text.startswith("embedder=") for text in overrides) else ["embedder.dtype=float32"]
    fixed = ["dataset.split=test", "chunker=none", *precise]
    given = ["dataset=beir", f"dataset.path={folder}", *fixed, *overrides]
    command = read_command(given, multirun=False)
    return session.prepare(Job(compose_jobs(command)[0].config, " ".join(overrides), tuple(given)))


def evaluate(session: Session, folder: Path, *overrides: str) -> Result:
    return session.evaluator.evaluate(prepare(session, folder, *overrides))


def row(result: Result, *cells: str) -> str:
    values = " / ".join(f"{result.summaries.metrics[name].value:.4f}".lstrip("0") for name in METRICS)
    asked = result.summaries.metrics["ndcg_at_10"].n_scored
    latency = result.summaries.metrics["latency_p95_ms"].value
    return "| " + " | ".join([*cells, values, str(asked), f"{latency:.1f}"]) + " |"


def main() -> None:
    collections = Path(os.environ["RAGSWEEP_COLLECTIONS"])
    began, session = time.time(), Session()
    lines = [
        f"`python benchmarks/published.py`, Python {platform.python_version()}, {os.cpu_count()} cores, "
        + ", ".join(f"{name} {version(name)}" for name in ("bm25s", "faiss-cpu", "sentence-transformers", "torch")),
        "",
        "## SciFact (5,183 documents, chunker=none, float32): nDCG@10 / recall@10 / recall@100",
        "",
        "| config | reference | measured | questions | p95 ms |",
        "| --- | --- | --- | --- | --- |",
    ]
    for override, reference in SCIFACT.items():
        lines.append(row(evaluate(session, collections / "scifact", override), f"`{override}`", reference))
    lower = evaluate(session, collections / "scifact", "retriever=vector", "embedder.dtype=bfloat16")
    lines.append(row(lower, "`retriever=vector embedder.dtype=bfloat16`", SCIFACT["retriever=vector"]))
    lines += ["", "## BM25 elsewhere (bm25s, k1 1.5, b .75, chunker=none)", "",
              "| collection | language | nDCG@10 / recall@10 / recall@100 | questions | p95 ms |",
              "| --- | --- | --- | --- | --- |"]  # fmt: skip
    for name, language in BM25.items():
        result = evaluate(session, collections / name, "retriever=bm25", f"retriever.language={language}")
        lines.append(row(result, name, language))
    lines += ["", f"All of it took {time.time() - began:.0f} s. References: MTEB's results for all-MiniLM-L6-v2 and for"
              " bm25s; the hybrids by hand with numpy from the same lists.", ""]  # fmt: skip
    keep_results("published", lines)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
