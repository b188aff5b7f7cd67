"""Replay streams of requests through shipped configs; count the alarms, and the requests until a drift is reported.

    RAGSWEEP_COLLECTIONS=... PYTHONPATH=tests:benchmarks RAGSWEEP_TRUSTED_PACKAGES=word_overlap \
        python benchmarks/watch.py [--streams 50] [--planted 10]

SQuAD 2.0's paragraphs; five samples of 300 questions are evaluated and bundled, with their references (BM25 and a
hashing embedder, fused, and a reranker of 10 ms). Each request is answered and traced once by the served
pipeline; streams are drawn from these: 200 requests, of some 110 to 170 questions that the reference does not have,
with popular ones repeated. Simulated drifts affect all of a stream, or 30 % of it. Requests with and without a drift,
and the times that replace the probe's in the references, are measured alternately, so that load affects all alike.
"""

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.evaluation.assembly import build_graph
from ragsweep.parts.tracking.served_traces import ServedTrace
from ragsweep.stats.drift import TOLERANCE
from ragsweep.sweep.composing.job import Job, PlainConfig
from ragsweep.sweep.running.session import Session
from ragsweep_serving.bundle import write_bundle
from ragsweep_serving.commands.watch_findings import compare_corpora
from ragsweep_serving.pipeline import ServedPipeline
from ragsweep_serving.reference import TOTAL, Reference, read_words, write_reference
from ragsweep_serving.tracing import describe
from ragsweep_serving.watching import RequestComparison, Requests, is_alarm
from support.commands import composed
from word_overlap import WordOverlap

REFERENCES, EVALUATED, SERVED, PROBED = 5, 300, 900, 50
LOOKS = (25, 50, 100, 150, 200)
NAMES = {
    "topic": ("unknown_words",),
    "language": ("language",),
    "stale": ("stale_share",),
    "stale, without --corpus": ("top_score", "gap", "unknown_words", "form", "empty_share"),
    "rerank x 2": ("latency/rerank",),
    "rerank x 3": ("latency/rerank",),
}
Rows = list[dict[str, Any]]
Stale = Callable[[Sequence[ServedTrace]], list[float]]


@dataclass
class Shipped:
    """A bundle with its reference, and the questions that were evaluated."""

    pipeline: ServedPipeline
    reference: Reference
    known: frozenset[str]
    evaluated: frozenset[str]


def read_rows(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write_rows(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def ship(folder: Path, documents: Rows, questions: Rows) -> Shipped:
    """Evaluate a config on questions, and bundle it with its reference."""
    folder.mkdir()
    write_rows(folder / "corpus.jsonl", documents)
    write_rows(folder / "golden.jsonl", questions)
    overrides = ["dataset=jsonl", f"dataset.corpus={folder}/corpus.jsonl", f"dataset.golden={folder}/golden.jsonl",
                 "retriever=hybrid_rrf", "embedder=hashing", "chunker=none", "depth=10", "top_k=5"]  # fmt: skip
    values = dict(composed(*overrides).values) | {
        "reranker": {"_target_": "word_overlap.WordOverlap", "candidates": 10}
    }
    session = Session()
    experiment = session.prepare(Job(PlainConfig(values, values, {}), "watched", tuple(overrides)))
    result, executor = session.evaluator.evaluate(experiment), session.evaluator.executor
    graph = build_graph(session.builder, result.run.config, experiment.dataset.corpus)
    write_bundle(folder / "bundle", result.run.config, experiment.dataset.corpus, graph, executor)
    write_reference(folder / "bundle", ("watched", "b", 1.0), result, experiment.dataset, (graph, executor))
    bundle = folder / "bundle"
    texts = frozenset(row["question"] for row in questions)
    return Shipped(ServedPipeline(bundle), Reference.read(bundle), read_words(bundle), texts)


def serve(shipped: Shipped, questions: Sequence[tuple[str, float]]) -> list[ServedTrace]:
    """Answer questions as a served model does, each with a given delay of the reranker; return their traces."""
    traces = []
    for text, WordOverlap.slowed in questions:
        found = shipped.pipeline.answer(text)
        traces.append(describe("watched", "b", (text, ()), time.time(), found))
    return traces


def timed(shipped: Shipped, traces: Sequence[ServedTrace]) -> Shipped:
    """Replace the probe's times in a reference with those of some requests."""
    numbers = dict(shipped.reference.numbers)
    count = len(shipped.reference.cluster)
    for name in [name for name in numbers if name.startswith("ms/")]:
        step = name.removeprefix("ms/")
        times = [one.milliseconds if step == TOTAL else
                 next((some.milliseconds for some in one.steps if some.name == step), math.nan)
                 for one in traces]  # fmt: skip
        numbers[name] = times + [math.nan] * (count - len(times))
    return replace(shipped, reference=replace(shipped.reference, numbers=numbers))


def draw(pool: Sequence[ServedTrace], shipped: Shipped, seed: int, count: int = LOOKS[-1]) -> list[ServedTrace]:
    """Draw a stream of questions that were not evaluated, some more popular than others."""
    random = np.random.default_rng(seed)
    new = [one for one in pool if one.question not in shipped.evaluated]
    popularity = random.pareto(3.0, len(new)) + 0.3
    return [new[n] for n in random.choice(len(new), count, p=popularity / popularity.sum())]


def mixed(usual: Sequence[ServedTrace], other: Sequence[ServedTrace], share: float, seed: int) -> list[ServedTrace]:
    is_other = np.random.default_rng(seed).random(len(usual)) < share
    return [two if chosen else one for one, two, chosen in zip(usual, other, is_other, strict=True)]


def alarms(
    shipped: Shipped, traces: Sequence[ServedTrace], stale: Callable[..., list[float]] | None = None
) -> list[str]:
    concerned = stale(traces) if stale else None
    compared = RequestComparison(Requests(traces, shipped.known), shipped.reference, TOLERANCE, concerned)
    return [one.name for one in compared.drifts(0.05) if is_alarm(one)]


def first_named(shipped: Shipped, traces: Sequence[ServedTrace], names: Sequence[str], stale: Stale | None) -> float:
    """Return the number of requests after which a look reports the drift; infinity if none does."""
    for look in LOOKS:
        if any(found.startswith(tuple(names)) for found in alarms(shipped, traces[:look], stale)):
            return look
    return float("inf")


def measure(streams: int, planted: int) -> tuple[list[list[str]], dict[tuple[str, float], list[float]]]:
    """Return the alarms of each stream without a drift, and by drift and share the requests until each report."""
    data = Path(os.environ["RAGSWEEP_COLLECTIONS"])
    documents = [{"id": row["_id"], "text": row["text"]} for row in read_rows(data / "squad2_dev/corpus.jsonl")]
    golden = [{"id": row["id"], "question": row["question"], "evidence": [{"document": row["context_id"]}]}
              for row in read_rows(data / "squad2_dev/golden.jsonl") if row["answerable"]]  # fmt: skip
    random = np.random.default_rng(1)
    asked = list(dict.fromkeys(row["evidence"][0]["document"] for row in golden))
    others = {name: [row[key] for row in read_rows(data / path)][:400] for name, path, key in (
        ("language", "piaf_1_1/golden.jsonl", "question"), ("topic", "cranfield/queries.jsonl", "text"))}  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples = [[golden[n] for n in random.permutation(len(golden))[:EVALUATED]] for _ in range(REFERENCES)]
        shipped = [ship(folder / str(n), documents, sample) for n, sample in enumerate(samples)]
        order = [golden[n]["question"] for n in random.permutation(len(golden))]
        texts, probes = order[:SERVED], order[SERVED : SERVED + PROBED]
        jobs = [("usual", text, 1.0) for text in texts] + [("probe", text, 1.0) for text in probes]
        jobs += [(f"rerank x {factor}", text, float(factor)) for factor in (2, 3) for text in texts[:300]]
        jobs += [(drift, text, 1.0) for drift, some in others.items() for text in some]
        jobs = [jobs[n] for n in random.permutation(len(jobs))]
        traces = serve(shipped[0], [(text, slowed) for _, text, slowed in jobs])
        pools = {kind: [one for one, job in zip(traces, jobs, strict=True) if job[0] == kind]
                 for kind in ("usual", "probe", "rerank x 2", "rerank x 3", *others)}  # fmt: skip
        shipped = [timed(one, pools["probe"]) for one in shipped]
        pool, raised, named = pools["usual"], [], {}
        for n in range(streams):
            one = shipped[n % REFERENCES]
            raised.append(alarms(one, draw(pool, one, n)))
        # without the newest third of the paragraphs that have questions
        kept = {row["id"] for row in documents} - set(asked[2 * len(asked) // 3 :])
        old = [row for row in golden if row["evidence"][0]["document"] in kept]
        stale = ship(folder / "stale", [row for row in documents if row["id"] in kept],
                     [old[n] for n in random.permutation(len(old))[:EVALUATED]])  # fmt: skip
        changes = compare_corpora(stale.pipeline.bundle.corpus, shipped[0].pipeline.bundle.corpus, "today")
        traces = serve(stale, [(text, 1.0) for text in (*texts[:600], *probes)])
        served, stale = traces[:600], timed(stale, traces[600:])
        for drift, names in NAMES.items():
            is_stale = drift.startswith("stale")
            for share in (1.0,) if is_stale else (1.0, 0.3):
                looks = named.setdefault((drift, share), [])
                for n in range(planted):
                    one = stale if is_stale else shipped[n % REFERENCES]
                    usual = draw(served if is_stale else pool, one, 1000 + n)
                    stream = usual if is_stale else mixed(usual, draw(pools[drift], one, 2000 + n), share, n)
                    looks.append(first_named(one, stream, names, changes.concerned if drift == "stale" else None))
    return raised, named


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--planted", type=int, default=10)
    options = parser.parse_args()
    raised, named = measure(options.streams, options.planted)
    false = list(filter(None, raised))
    print(f"{len(false)} of {options.streams} streams without drift: alarm {false}; load {os.getloadavg()[0]:.1f}")
    until = "requests until detection"
    print(f"| planted drift | share of the requests | detected within {LOOKS[-1]} requests "
          f"| median {until} | most {until} |")  # fmt: skip
    for (drift, share), looks in named.items():
        count = f"{sum(map(math.isfinite, looks))} of {len(looks)}"
        print(f"| {drift} | {share:.0%} | {count} | {np.median(looks):g} | {max(looks):g} |")


if __name__ == "__main__":
    main()
