"""Compare the cost of a config in MLflow with the cheapest hand-written calls that write the same content.

    python benchmarks/mirror.py [--configs 100] [--uri http://127.0.0.1:5000]

By hand: create the run, one ``log_batch``, one dataset input, two artifacts from one folder, end the run. Both write
to one database in turn, under the same load. Ours also writes the ranking, once for all configs.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ragsweep.core.question_results import QuestionResults
from ragsweep.core.results import Artifacts, DatasetFacts, Result, Run, Summaries, Summary
from ragsweep.parts.tracking import Mlflow, RunPlacement, files

METRICS = [f"{kind}_at_{k}" for kind in ("ndcg", "recall", "precision", "map", "hit") for k in (1, 3, 5, 10)]
SETTINGS = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}


def a_result() -> Result:
    """Make a result of usual size: 40 parameters, about 150 metrics, 300 questions."""
    summaries = {name: Summary(name, 0.5, 0.4, 0.6, 300, 299, 1, 0) for name in METRICS}
    groups = {"category": {f"group {n}": dict(list(summaries.items())[:4]) for n in range(6)}}
    run = Run(
        signature="5" * 64,
        name="top_k=3",
        overrides=("top_k=3",),
        config={"top_k": 3, "headline": METRICS[:4]},
        parameters={f"part.setting_{n}": str(n) for n in range(40)},
        dataset=DatasetFacts("python", "c" * 64, "d" * 64, 5_183, 300, 299, 1),
        stages={},
        started=time.time() - 1,
        ended=time.time(),
    )
    columns = {"question_id": [f"q{n}" for n in range(300)], **{name: [0.5] * 300 for name in METRICS}}
    return Result(run, QuestionResults(columns), Summaries(summaries, groups))


RANKED = Artifacts(rankings={"a" * 64: "q Q0 d 1 1.0 top_k=3\n" * 3_000})


def by_hand(tracker: Mlflow, parent: str, result: Result) -> None:
    """Write with MLflow's client what ``log_result`` writes."""
    from mlflow import MlflowClient
    from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param

    client = MlflowClient(tracker.uri)
    tags = {"mlflow.parentRunId": parent, "ragsweep.kind": "config", "ragsweep.signature": result.run.signature,
            "ragsweep.job": "0", "mlflow.source.name": "hand", "mlflow.source.type": "LOCAL"}  # fmt: skip
    run = client.create_run(EXPERIMENT[tracker.uri], round(result.run.started * 1000), tags, result.name).info.run_id
    now = round(time.time() * 1000)
    metrics = [Metric(key, value, now, 0) for key, value in files.metrics(result).items()]
    client.log_batch(run, metrics, [Param(key, value) for key, value in result.run.parameters.items()])
    facts = json.dumps(vars(result.run.dataset), default=str)
    dataset = Dataset("python", "d" * 36, "hand", facts, profile=facts)
    inputs = [InputTag("mlflow.data.context", "evaluation"), InputTag("corpus_digest", "c" * 64)]
    client.log_inputs(run, [DatasetInput(dataset, inputs)])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.yaml").write_bytes(files.yaml(result.run.config))
        Path(folder, "outcomes.parquet").write_bytes(files.parquet(result))
        client.log_artifacts(run, folder)
    client.set_terminated(run, "FINISHED", round(result.run.ended * 1000))


EXPERIMENT: dict[str, str] = {}


def timed(work: Callable[[], object]) -> float:
    """Return the milliseconds that a call takes."""
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--configs", type=int, default=100)
    parser.add_argument("--uri")
    given = parser.parse_args()
    os.environ.update(SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        tracker, result = Mlflow(given.uri or f"sqlite:///{folder}/mlflow.db"), a_result()
        begun = timed(tracker.check)
        print(
            f"check {begun:.0f} ms, first use (MLflow's import, tables) {timed(lambda: tracker.find({})) / 1000:.1f} s"
        )
        parent = tracker.open_sweep("mirror", {}, {}, None)
        from mlflow import MlflowClient

        EXPERIMENT[tracker.uri] = MlflowClient(tracker.uri).get_run(parent).info.experiment_id
        hand: list[float] = []
        ours: list[float] = []
        for job in range(given.configs + 5):
            pair: list[tuple[list[float], Callable[[], object]]] = [
                (hand, partial(by_hand, tracker, parent, result)),
                (ours, partial(tracker.log_result, result, RunPlacement(parent, job), RANKED)),
            ]
            for times, work in pair if job % 2 else pair[::-1]:
                times.append(timed(work))
        medians = {"by hand": statistics.median(hand[5:]), "log_result": statistics.median(ours[5:])}
        print(", ".join(f"{name} {median:.1f} ms a config" for name, median in medians.items()))
        ratio = statistics.median(mine / theirs for mine, theirs in zip(ours[5:], hand[5:], strict=True))
        print(f"ratio {ratio:.2f} ({len(files.metrics(result))} metrics, {len(result.run.parameters)} parameters)")


if __name__ == "__main__":
    main()
