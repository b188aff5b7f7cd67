"""A sweep that is killed at any moment is continued by the same command, and ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import mlflow
import pytest

from ragsweep.ledger import Ledger
from ragsweep.results import Result

ROOT = Path(__file__).parent.parent
COMMAND = [
    sys.executable, str(ROOT / "run.py"), "-m", "dataset.limit=40", "retriever=twins",
    "retriever.alpha=0,0.3,0.6,1.0", "top_k=3,5,10", "hydra/launcher=joblib",
    "hydra.launcher.n_jobs=2",
]  # fmt: skip
CONFIGS = 12
TWINS = """_target_: ragsweep.retrievers.HybridConvex
alpha: 0.5
legs:
  bm25: {_target_: ragsweep.retrievers.Bm25, k1: 1.2}
  vector: {_target_: ragsweep.retrievers.Bm25, k1: 1.9, b: 0.4}
"""


@dataclass(frozen=True)
class Ended:
    """What a sweep left behind: scores by config, and the state of every run."""

    scores: dict[str, dict[str, float]]
    statuses: dict[str, list[str]]
    parents: list[str]


def start(folder: Path) -> subprocess.Popen[bytes]:
    (folder / "conf" / "retriever").mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "retriever" / "twins.yaml").write_text(TWINS)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "RAGSWEEP_"))}
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            COMMAND, cwd=folder, env={**kept, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def ended(folder: Path) -> Ended:
    ledger = Ledger(folder / ".ragsweep")
    (sweep,) = ledger.sweeps()
    outcomes = [record.outcome for record in ledger.records(sweep.id)]
    assert all(isinstance(outcome, Result) for outcome in outcomes)
    scores = {
        outcome.name: {
            name: one.value
            for name, one in outcome.summaries.items()
            if one.n_scored and not name.startswith("latency")
        }
        for outcome in outcomes
    }  # fmt: skip
    client = mlflow.MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("ragsweep").experiment_id
    runs = client.search_runs([experiment], max_results=1000)
    children: dict[str, list[str]] = {}
    for run in runs:
        if run.data.tags["ragsweep.kind"] == "config":
            children.setdefault(run.info.run_name, []).append(run.info.status)
            shown = {name: run.data.metrics.get(name) for name in scores[run.info.run_name]}
            expected = {name: value for name, value in scores[run.info.run_name].items() if value == value}
            assert {name: value for name, value in shown.items() if value is not None} == pytest.approx(expected)
            assert {item.path for item in client.list_artifacts(run.info.run_id)} == {"config.yaml", "outcomes.parquet"}
    parents = [run.info.status for run in runs if run.data.tags["ragsweep.kind"] == "sweep"]
    return Ended(scores, children, parents)


def finish(folder: Path) -> Ended:
    """Repeat the command until it ends well: once, by the law."""
    process = start(folder)
    assert process.wait(timeout=300) == 0, (folder / "log.txt").read_text()
    return ended(folder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended, float]:
    folder = tmp_path_factory.mktemp("undisturbed")
    begun = time.monotonic()
    found = finish(folder)
    assert len(found.scores) == CONFIGS
    return folder, found, time.monotonic() - begun


def kill_and_resume(folder: Path, undisturbed: tuple[Path, Ended, float], seed: int) -> None:
    """Kill at a random moment: all processes at once, or the command alone while its workers go on."""
    original, oracle, seconds = undisturbed
    chance = random.Random(seed)
    if seed % 2:  # a warm store: the kill hits recording and tracking
        shutil.copytree(original / ".ragsweep" / "stages", folder / ".ragsweep" / "stages")
    process = start(folder)
    time.sleep(chance.uniform(0.3, 0.95) * seconds)
    (os.killpg if chance.random() < 0.7 else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    found = finish(folder)
    assert found.scores == oracle.scores
    assert found.statuses == {name: ["FINISHED"] for name in oracle.scores}
    assert found.parents == ["FINISHED"]
    assert "quarantine" not in (folder / "log.txt").read_text()
    left = list((folder / ".ragsweep" / "stages" / "temporary").iterdir())
    assert left == []
    with sqlite3.connect(folder / ".ragsweep" / "ledger.db") as connection:
        assert connection.execute("SELECT count(*) FROM claims").fetchone() == (0,)


def test_killed_sweep_is_continued(tmp_path: Path, undisturbed: tuple[Path, Ended, float]) -> None:
    kill_and_resume(tmp_path, undisturbed, 0)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 51))
def test_sweep_killed_at_fifty_moments_is_continued(
    seed: int, tmp_path: Path, undisturbed: tuple[Path, Ended, float]
) -> None:
    kill_and_resume(tmp_path, undisturbed, seed)


def test_finished_sweep_is_shown_and_not_run_again(undisturbed: tuple[Path, Ended, float]) -> None:
    folder, oracle, _ = undisturbed
    before = {path: path.stat().st_mtime_ns for path in (folder / "mlruns").rglob("*")}
    again = finish(folder)
    assert again == oracle
    assert {path: path.stat().st_mtime_ns for path in (folder / "mlruns").rglob("*")} == before
    assert "is finished already" in (folder / "log.txt").read_text()
    assert json.dumps(again.parents) == '["FINISHED"]'
