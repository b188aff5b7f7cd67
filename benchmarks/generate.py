"""Compare ways to run one local model by llama.cpp: tokens a second, memory, and whether answers depend on neighbours.

    RAGSWEEP_COLLECTIONS=... PYTHONPATH=src python benchmarks/generate.py [requests]

Every way answers the same questions of SQuAD 2.0, each with its paragraph, in a process of its own, one way after the
other in one run. "changed" counts the answers that differ from those of one request at a time, in another order of
requests. ``slots`` is llama.cpp's own batching of several requests, which ``llm=gguf`` does not use.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from ragsweep.core.types import Passage, Request
from ragsweep.parts.generators import Gguf
from ragsweep.parts.prompts import Prompt
from ragsweep.testing.requests import collect

NEW_TOKENS, WINDOW = 32, 2048
WAYS = {
    "one request, 1 thread": {"parallel": 1},
    "one request, 2 threads": {"parallel": 1, "threads": 2},
    "2 requests, 1 thread each": {"parallel": 2},
    "4 slots of one batch, 2 threads": {"slots": 4, "threads": 2},
}
"""Ways by name: settings of llm=gguf, or of llama.cpp's own batches."""


def read_requests(count: int) -> list[Request]:
    """Read questions with their paragraphs."""
    folder = Path(os.environ["RAGSWEEP_COLLECTIONS"]) / "squad2_dev"
    texts = {row["_id"]: row["text"] for row in map(json.loads, (folder / "corpus.jsonl").read_text().splitlines())}
    rows = [json.loads(line) for line in (folder / "golden.jsonl").read_text().splitlines()]
    asked = [row for row in rows if row["answerable"]]
    asked = asked[:: max(len(asked) // count, 1)][:count]
    return [
        Request(row["question"], (Passage(name, texts[name]),))
        for row in asked
        for name in row["relevant_chunk_ids"][:1]
    ]


def prompt() -> Prompt:
    """Return the default prompt."""
    settings = yaml.safe_load((Path(__file__).parents[1] / "conf/prompt/default.yaml").read_text())
    settings.pop("_target_")
    return Prompt(**settings)


def measure(way: str, count: int) -> dict[str, Any]:
    """Answer all requests in one way, in a random order."""
    settings = dict(WAYS[way])
    requests = list(enumerate(read_requests(count)))
    random.Random(way).shuffle(requests)
    slots = settings.pop("slots", 0)
    part = Gguf("smollm2", prompt(), max_new_tokens=NEW_TOKENS, window=WINDOW, **settings)
    begin = time.perf_counter()
    servers = [batched(part, slots)] if slots else part._servers
    loaded = time.perf_counter()
    asked = [request for _, request in requests]
    if slots:
        with ThreadPoolExecutor(slots) as threads:
            answers = list(threads.map(lambda request: part._answer(servers[0], request, 0), asked))
    else:
        answers = collect(part.generate, asked)
    seconds = time.perf_counter() - loaded
    texts = {number: answer.text for (number, _), answer in zip(requests, answers, strict=True)}
    return {
        "load": loaded - begin,
        "seconds": seconds,
        "read": sum(answer.usage.tokens_in for answer in answers) / seconds,
        "written": sum(answer.usage.tokens_out for answer in answers) / seconds,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
        "texts": [texts[number] for number in sorted(texts)],
    }


def batched(part: Gguf, slots: int) -> Any:
    """Load the model with llama.cpp's own batches of several requests."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path, settings.n_parallel, settings.n_ctx = str(part._file()), slots, slots * part.window
    settings.verbosity, settings.cache_ram_mib = -1, 0
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = part.threads
    return xllamacpp.Server(settings)


def main() -> None:
    """Measure each way in a process of its own, and print a table."""
    if len(sys.argv) > 2:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 24
    print("| way | requests a second | prompt tokens a second | new tokens a second | load s | memory MB | changed |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    first: list[str] = []
    for way in WAYS:
        command = [sys.executable, __file__, way, str(count)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        first = first or found["texts"]
        changed = sum(one != other for one, other in zip(first, found["texts"], strict=True))
        print(f"| {way} | {count / found['seconds']:.2f} | {found['read']:.0f} | {found['written']:.1f} |"
              f" {found['load']:.1f} | {found['memory']:.0f} | {changed} of {count} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
