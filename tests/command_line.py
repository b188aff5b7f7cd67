"""Commands as a user types them, in a process and a folder of their own, and the MLflow runs that they leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import forked
from databases import add_tables

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

ROOT = Path(__file__).parents[1]
RUN = str(ROOT / "run.py")
TEXTS = {
    "cats": "The cat sleeps on the warm mat near the stove.",
    "dogs": "Dogs guard the yard and bark at strangers.",
    "bread": "Bread is baked from flour, water, salt and yeast.",
    "ships": "Ships carry goods across the sea from port to port.",
}
GOLDEN = [
    {"id": "q1", "question": "where does the cat rest", "category": "animals",
     "evidence": [{"document": "cats", "anchor": "warm mat"}]},
    {"id": "q2", "question": "what keeps the yard safe", "category": "animals",
     "evidence": [{"document": "dogs", "anchor": "guard the yard"}]},
    {"id": "q3", "question": "flour and water become what", "category": "food", "evidence": [{"document": "bread"}]},
    {"id": "q4", "question": "price of a ship", "category": "unanswerable", "answerable": False,
     "unanswerable_type": "out_of_database"},
]  # fmt: skip

Finished = subprocess.CompletedProcess[str]
Ragsweep = Callable[..., Finished]


def write_dataset(folder: Path, golden: Sequence[dict[str, object]] = GOLDEN) -> list[str]:
    """Write the small dataset and return the overrides that choose it."""
    corpus = [{"id": name, "text": text} for name, text in TEXTS.items()]
    for name, rows in (("corpus", corpus), ("golden", golden)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["dataset=jsonl", "dataset.corpus=corpus.jsonl", "dataset.golden=golden.jsonl", "retriever=bm25"]


def user_environment(**variables: str) -> dict[str, str]:
    """Return an environment as a user's, whatever the test run itself has set."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "RAGSWEEP_", "HYDRA_"))
    }
    return {**kept, "PYTHONWARNINGS": "ignore", "COLUMNS": "200", "OMP_NUM_THREADS": "1", **variables}


def call(folder: Path, *command: str, **variables: str) -> Finished:
    """Run Python with a command in a folder: ``RUN`` and overrides, or ``-m ragsweep`` and another command."""
    if RUN in command and not any(one.startswith(("tracking", "plan=")) for one in command):
        add_tables(folder)
    done: Finished = forked.library(command).run(
        [sys.executable, *command], cwd=folder, env=user_environment(**variables), capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    return done


@pytest.fixture
def environment() -> dict[str, str]:
    return user_environment()


@pytest.fixture
def ragsweep(tmp_path: Path) -> Ragsweep:
    """Run ``run.py`` in an empty folder."""
    return lambda *overrides, **variables: call(tmp_path, RUN, *overrides, **variables)


def mlflow_client(folder: Path) -> MlflowClient:
    from mlflow import MlflowClient

    return MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")


def runs(folder: Path, kind: str) -> list[Run]:
    """Find the runs of one kind, oldest first."""
    client = mlflow_client(folder)
    experiment = client.get_experiment_by_name("ragsweep")
    found = client.search_runs([experiment.experiment_id], f"tags.`ragsweep.kind` = '{kind}'")
    return sorted(found, key=lambda run: run.info.start_time)


def artifacts(folder: Path, run: Run, path: str = "") -> set[str]:
    client = mlflow_client(folder)
    found = set()
    for item in client.list_artifacts(run.info.run_id, path):
        found |= artifacts(folder, run, item.path) if item.is_dir else {item.path}
    return found
