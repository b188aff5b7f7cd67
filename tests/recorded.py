"""A result with unusual values, a real tracking server to record it in, and what that contains."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragsweep.core.question_results import QuestionResults
from ragsweep.core.question_texts import from_texts, to_texts
from ragsweep.core.results import DatasetFacts, Result, Summary, TargetResult
from ragsweep.parts.tracking import Mlflow

NAN = math.nan
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "NO_PROXY": "127.0.0.1",
    "no_proxy": "127.0.0.1",
}


@contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """Run a tracking server on a free port and give its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/server.db", "--artifacts-destination", f"{folder}/files"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **QUIET}, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # the server and its workers: a session of their own
        server.wait(30)


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.poll() is None:
        try:
            opener.open(url, timeout=2)
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"mlflow server did not start:\n{log.read_text()[-2000:]}")


def summary(name: str, value: float = 0.5, low: float = 0.25, high: float = 0.75, scored: int = 2) -> Summary:
    return Summary(name, value, low, high, n_total=4, n_scored=scored, n_skipped=1, n_failed=3 - scored)


def changed_table(result: Result, columns: Mapping[str, Sequence[Any]]) -> QuestionResults:
    """Change columns of a result's flat table, where nested values are JSON texts."""
    return from_texts({**to_texts(result.outcomes), **columns})


def a_result(**changes: Any) -> Result:
    """Make a result; its ``outcomes`` may be given as a flat table."""
    nothing = summary("mrr", NAN, NAN, math.inf, scored=0)
    known = Result(
        signature="5" * 64,
        name="top_k=3",
        overrides=("top_k=3",),
        config={"top_k": 3, "retriever": {"legs": ("bm25", "vector")}, "name": "é"},
        parameters={"top_k": "3", "retriever.legs.a@b": "", "prompt": "short"},
        dataset=DatasetFacts("python", "c" * 64, "0123456789" * 6 + "abcd", 79, 4, 3, 1, {"no label": 2}),
        summaries={"ndcg_at_10": summary("ndcg_at_10"), "mrr": nothing},
        groups={"category": {"how-to": {"mrr": summary("mrr", 0.125)}, "c++": {"mrr": summary("mrr", 1.0)},
                             "c**": {"mrr": summary("mrr", 0.0)}, "none": {"mrr": nothing}}},
        outcomes=QuestionResults(
            {"question_id": ["a", "b"], "mrr": [0.5, NAN], "context": [["x:0-5"], []], "mixed": [1, "one"]}
        ),
        rankings={"ab12" * 16: "a Q0 x 1 1.5 top_k=3\n"},
        stages={},
        indexes={"index/vector": {"seconds": NAN, "bytes": 4.0}},
        first_stage={"mrr": nothing, "ndcg_at_10": summary("ndcg_at_10", 0.375)},
        reranking={"up": 0.5, "mean_change": NAN},
        targets=(
            TargetResult("ndcg_at_10", "fail", 0.5, 0.55, "fair", False, "act"),
            TargetResult("mrr", "not judged"),
        ),
        started=1_700_000_000.5,
        ended=1_700_000_002.25,
    )  # fmt: skip
    if isinstance(table := changes.get("outcomes"), dict):
        changes["outcomes"] = from_texts(table)
    return dataclasses.replace(known, **changes)


def client(tracker: Mlflow) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracker.uri)


def files(tracker: Mlflow, run: str, folder: str | None = None) -> set[str]:
    return {info.path for info in client(tracker).list_artifacts(run, folder)}


def content(tracker: Mlflow, run: str, name: str) -> bytes:
    return Path(client(tracker).download_artifacts(run, name)).read_bytes()
