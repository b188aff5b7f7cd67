"""Measure cold start and requests per second of a shipped config, with MLflow's server and with the bare function.

    PYTHONPATH=tests python benchmarks/serve.py [--requests 200] [--clients 4] [--repeats 3]

Sweeps the bundled golden set, ships the configs, and sends each the golden questions: to the function that answers a
question from a bundle (``serving.pipeline``), to the model that MLflow loads in this process, and to ``mlflow models
serve``, from one client and from several. Cold start is the time to the first answer: of a new process that imports,
loads the bundle and answers; of the server from its start on. The three ways take turns; figures are medians.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ragsweep.records.ledger import Ledger
from ragsweep_serving.commands.ship import ship
from support.servers.served_model import ServedModel, served

ROOT = Path(__file__).parents[1]
SWEEP = ["retriever=bm25,vector,hybrid_rrf", "reranker=none,late_interaction"]
BARE = """
import sys
from pathlib import Path
from ragsweep_serving.pipeline import ServedPipeline
assert ServedPipeline(Path(sys.argv[1])).answer(sys.argv[2]).context
"""


def main() -> None:
    """Sweep, ship, measure, print a table in markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        subprocess.run([sys.executable, str(ROOT / "run.py"), "-m", *SWEEP], check=True, stdout=subprocess.DEVNULL)
        ledger = Ledger(Path(".ragsweep"))
        (sweep,) = ledger.sweeps()
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; requests a second, cold starts in seconds\n")
        print("| config | bare function | loaded by MLflow | served, 1 client |"
              f" served, {options.clients} clients | cold: bare | cold: served |")  # fmt: skip
        print("| --- " * 7 + "|")
        for n, record in enumerate(ledger.records(sweep.id), 1):
            ship([f"{sweep.id}#{n}", "--name", f"m{n}"])
            questions = [str(text) for text in record.outcome.questions["question"]]
            row = measure(f"models:/m{n}/1", questions, options)
            print(f"| {record.outcome.name} | " + " | ".join(f"{value:.3g}" for value in row) + " |", flush=True)


def measure(model: str, questions: list[str], options: argparse.Namespace) -> list[float]:
    """Return requests a second of the four ways, and both cold starts."""
    import mlflow
    import pandas

    from ragsweep_serving.pipeline import ServedPipeline

    registry = f"sqlite:///{Path.cwd() / 'mlflow.db'}"
    mlflow.set_tracking_uri(registry)
    bundle = Path(mlflow.artifacts.download_artifacts(model)) / "artifacts" / "bundle"
    pipeline, loaded = ServedPipeline(bundle), mlflow.pyfunc.load_model(model)
    asked = list(itertools.islice(itertools.cycle(questions), options.requests))
    rates: list[list[float]] = [[], [], [], []]
    cold: list[list[float]] = [[], []]
    for _ in range(options.repeats):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", BARE, str(bundle), asked[0]], check=True)
        cold[0].append(time.perf_counter() - begin)
        environment = {**os.environ, "MLFLOW_TRACKING_URI": registry}
        with served(sys.executable, model, Path.cwd(), environment, {"question": asked[0]}) as server:
            cold[1].append(server.cold)
            ways: list[tuple[Callable[[str], object], int]] = [
                (pipeline.answer, 1),
                (lambda text: loaded.predict(pandas.DataFrame({"question": [text]})), 1),
                (lambda text: request(server, text), 1),
                (lambda text: request(server, text), options.clients),
            ]
            for kept, (way, clients) in zip(rates, ways, strict=True):
                way(asked[0])
                kept.append(rate(way, asked, clients))
    return [statistics.median(values) for values in (*rates, *cold)]


def request(server: ServedModel, text: str) -> object:
    """Send one question."""
    return server.ask({"question": text})


def rate(way: Callable[[str], object], asked: list[str], clients: int) -> float:
    """Return the questions per second of several concurrent clients."""
    begin = time.perf_counter()
    if clients == 1:
        for text in asked:
            way(text)
    else:
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(way, asked))
    return len(asked) / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
