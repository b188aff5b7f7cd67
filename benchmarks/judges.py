"""Compare the time of four judged metrics with the ideal: distinct calls x latency / concurrency.

    PYTHONPATH=tests python benchmarks/judges.py [--questions 500] [--latency 0.2] [--concurrency 16] [--faults 0]

Faithfulness, context precision (three chunks), context recall and factual correctness, one after the other, as for a
config; each call of a metric needs the reply to the previous call; every reply is stored on arrival. The server
(tests/llm_server) runs in a separate process. The bar without faults is 1.15 x the ideal; the import of ragas,
which takes seconds, is reported separately.
"""

import argparse
import math
import multiprocessing
import resource
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from llm_server import TRANSIENT, LlmServer
from ragsweep.core.identity import Spec
from ragsweep.core.types import Case, Judgement
from ragsweep.parts.judges import OpenAIJudge
from ragsweep.parts.metrics import (
    RagasContextPrecision,
    RagasContextRecall,
    RagasFactualCorrectness,
    RagasFaithfulness,
)
from ragsweep.parts.metrics.ragas_calls import library
from ragsweep.stages.store import open_store
from ragsweep.stages.stored_replies import StoredReplies, reply_node

BAR = 1.15
LEFT_OUT = {"rate_limited_date", "big_body"}  # faults that wait for whole seconds, or send 50 MB
METRICS: tuple[Any, ...] = (RagasFaithfulness, RagasContextPrecision, RagasContextRecall, RagasFactualCorrectness)


def serve(pipe: Connection, latency: float, faults: float) -> None:
    """Run the server until it is stopped; then send the number of requests, and of successful ones, per question."""
    kinds = sorted(TRANSIENT.keys() - LEFT_OUT)
    shares = {kind: faults / len(kinds) for kind in kinds if faults}
    with LlmServer(latency=latency, faults=shares, hang=60, retry_after=0.2) as server:
        pipe.send(server.base_url)
        pipe.recv()
        paid = Counter(one.request.digest for one in server.answered)
        pipe.send((len(server.log), len(paid), sum(paid.values()), server.most_open))


def cases(count: int) -> list[Case]:
    """Make cases of an ordinary length: contexts of 200 words."""
    return [
        Case(
            f"What does part {n} do?",
            f"Part {n} turns the wheel. It was built in year {1900 + n}.",
            tuple(f"Page {n}.{page} of the manual: " + "the wheel is turned by a part. " * 28 for page in range(3)),
            f"It turns the wheel of machine {n}.",
        )
        for n in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--faults", type=float, default=0.0, help="share of requests that fail, of mixed kinds")
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=serve, args=(its, given.latency, given.faults))
    process.start()
    judge = OpenAIJudge(ours.recv(), "m", concurrency=given.concurrency, timeout=2, deadline=60)
    begin = time.perf_counter()
    library()
    print(f"importing ragas: {time.perf_counter() - begin:.1f} s")
    folder = tempfile.TemporaryDirectory()
    notes = StoredReplies(reply_node(Spec("judge", "1"), ""), open_store(Path(folder.name), print))
    asked, found = cases(given.questions), dict[str, dict[int, Judgement]]()
    begin, processor = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    for kind in METRICS:
        kind(judge).judge_cached(asked, found.setdefault(kind.name, {}).__setitem__, notes)
    seconds = time.perf_counter() - begin
    processor = resource.getrusage(resource.RUSAGE_SELF).ru_utime - processor
    ours.send("end")
    requests, distinct, answered, most = ours.recv()
    process.join()
    verdicts = [verdict for told in found.values() for verdict in told.values()]
    reasons = Counter(verdict.reason or "a value" for verdict in verdicts)
    assert len(verdicts) == given.questions * len(METRICS)
    assert all(math.isnan(verdict.value) == bool(verdict.reason) for verdict in verdicts)
    ideal = distinct * given.latency / given.concurrency
    print(f"{len(verdicts)} verdicts: {dict(reasons)}")
    print(f"{distinct} distinct calls, {given.latency * 1000:.0f} ms, {most} at a time")
    print(f"{seconds:.2f} s, ideal {ideal:.2f} s: {seconds / ideal:.3f} x (bar without faults: {BAR} x)")
    print(f"{processor / distinct * 1000:.2f} ms of the processor a call; {requests / distinct:.3f} requests a call")
    print(f"{answered - distinct} calls were answered well twice")


if __name__ == "__main__":
    main()
