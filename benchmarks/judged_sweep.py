"""Count the calls of a judged sweep over a real collection that is killed half-way: each distinct call is made once.

    PYTHONPATH=tests python benchmarks/judged_sweep.py --folder FOLDER [--questions 300] [--configs 51] [--kill 2000]

FOLDER has corpus.jsonl as BEIR's folders have, and golden.jsonl with id, question, answers and context_id.

A hybrid of two BM25 legs, with weights from 0 to 1; six chunks per question; an llm and a judge at one scripted
server (tests/llm_server). The command is killed after ``--kill`` requests and repeated. Only calls in
flight when it was killed may be repeated: as many as the concurrency allows.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from llm_server import LlmServer
from ragsweep.core.results import Result
from ragsweep.records.ledger import Ledger

ROOT = Path(__file__).parent.parent
TOP_K = 6
CONCURRENCY = 16
TWINS = """_target_: ragsweep.parts.retrievers.HybridConvex
alpha: 0.5
legs:
  bm25: {_target_: ragsweep.parts.retrievers.Bm25, k1: 1.2}
  vector: {_target_: ragsweep.parts.retrievers.Bm25, k1: 1.9, b: 0.2}
"""
UNWANTED = ("answer_relevancy", "answer_correctness", "factual_correctness", "semantic_similarity", "noise_sensitivity",
            "context_precision_without_reference", "context_recall")  # fmt: skip


def command(server: LlmServer, given: argparse.Namespace) -> list[str]:
    alphas = ",".join(f"{n / (given.configs - 1):g}" for n in range(given.configs))
    service = {"base_url": server.base_url, "model": "m", "key_env": "null", "concurrency": CONCURRENCY}
    calls = [f"{part}.{key}={value}" for part in ("llm", "judge") for key, value in service.items()]
    return [
        sys.executable, str(ROOT / "run.py"), "-m", "dataset=jsonl", "dataset.corpus=corpus.jsonl",
        "dataset.golden=golden.jsonl",
        f"dataset.limit={given.questions}", "chunker=none", "retriever=twins", f"retriever.alpha={alphas}",
        f"top_k={TOP_K}", "llm=openai", "judge=openai", "metrics=ragas",
        *(f"~metrics.ragas_{name}" for name in UNWANTED), "~metrics.semantic_similarity", *calls, "tracking=none",
        "targets=none",
    ]  # fmt: skip


def write(source: Path, folder: Path) -> None:
    """Convert a collection to our own format."""
    with (source / "corpus.jsonl").open() as lines, (folder / "corpus.jsonl").open("w") as file:
        for row in map(json.loads, lines):
            file.write(json.dumps({"id": row["_id"], "title": row["title"], "text": row["text"]}) + "\n")
    with (source / "golden.jsonl").open() as lines, (folder / "golden.jsonl").open("w") as file:
        for row in map(json.loads, lines):
            if row["answerable"]:
                said = {"references": row["answers"], "evidence": [{"document": row["context_id"]}]}
                file.write(json.dumps({"id": row["id"], "question": row["question"], **said}) + "\n")


def start(folder: Path, words: list[str]) -> subprocess.Popen[bytes]:
    (folder / "conf" / "retriever").mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "retriever" / "twins.yaml").write_text(TWINS)
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            words, cwd=folder, stdout=log, stderr=log, env={**os.environ, "NO_PROXY": "127.0.0.1"},
            start_new_session=True,
        )  # fmt: skip


def ended(folder: Path) -> list[Result]:
    ledger = Ledger(folder / ".ragsweep")
    found = [record.outcome for sweep in ledger.sweeps() for record in ledger.records(sweep.id)]
    return [outcome for outcome in found if isinstance(outcome, Result)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--configs", type=int, default=51)
    parser.add_argument("--kill", type=int, default=2000, help="after so many requests; 0: never")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, LlmServer() as server:
        folder, words, begin = Path(name), command(server, given), time.perf_counter()
        write(given.folder, folder)
        process = start(folder, words)
        while given.kill and process.poll() is None and len(server.log) < given.kill:
            time.sleep(0.01)
        if given.kill and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            print(f"killed after {len(server.log):,} requests, {len(ended(folder))} configs done")
            process = start(folder, words)
        status = process.wait()
        seconds = time.perf_counter() - begin
        results = ended(folder)
        report(results, server, given, seconds)
        if status:
            sys.exit((folder / "log.txt").read_text())


def report(results: list[Result], server: LlmServer, given: argparse.Namespace, seconds: float) -> None:
    answered = Counter(one.request.digest for one in server.answered)
    twice = sum(times - 1 for times in answered.values())
    scored = {name: sum(one.summaries.metrics[name].n_scored for one in results) for name in
              ("ragas_context_precision", "ragas_faithfulness")}  # fmt: skip
    contexts = scored["ragas_context_precision"] * TOP_K
    print(f"{len(results)} configs, {given.questions} questions, {seconds:.0f} s; verdicts: {scored}")
    print(f"context precision alone, asked anew for every config: {contexts:,} calls")
    print(f"asked in all: {len(server.log):,} requests, {len(answered):,} distinct, {twice} answered twice")
    assert len(results) == given.configs
    assert twice <= (CONCURRENCY if given.kill else 0)


if __name__ == "__main__":
    main()
