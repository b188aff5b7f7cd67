"""Under every launcher the sweep is the same, and no stage is computed twice."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

import forked
from command_line import ROOT
from ragsweep.core.results import Result
from ragsweep.records.ledger import Ledger
from test_bad_jobs import LAUNCHERS, PLUGINS
from test_kills import TWINS

GRID = ["retriever=twins", "retriever.alpha=0.2,0.6", "top_k=3,5"]
DISTINCT = {"chunk": 1, "index": 2, "retrieve": 2, "fuse": 2}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    return scores(launched(tmp_path_factory.mktemp("alone"), "basic"))


def launched(folder: Path, launcher: str) -> list[Result]:
    if launcher in PLUGINS and importlib.util.find_spec(f"hydra_plugins.{PLUGINS[launcher]}") is None:
        pytest.skip(f"{PLUGINS[launcher]} is not installed")
    (folder / "conf" / "retriever").mkdir(parents=True)
    (folder / "conf" / "retriever" / "twins.yaml").write_text(TWINS)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "RAGSWEEP_"))}
    command = [sys.executable, str(ROOT / "run.py"), "-m", *GRID, *LAUNCHERS[launcher]]
    done = forked.library(command).run(
        command, cwd=folder, capture_output=True, env={**kept, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
        text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    ledger = Ledger(folder / ".ragsweep")
    (only,) = ledger.sweeps()
    found = [record.outcome for record in ledger.records(only.id)]
    assert len(found) == 4
    return [outcome for outcome in found if isinstance(outcome, Result)]


def scores(results: list[Result]) -> dict[str, dict[str, float]]:
    return {
        result.name: {
            name: one.value for name, one in result.summaries.items() if one.n_scored and not name.startswith("latency")
        }
        for result in results
    }


QUICK = {"joblib"}
"""The launcher that runs a small sweep on each change; all others do so each night."""


@pytest.mark.parametrize(
    "launcher", [pytest.param(name, marks=() if name in QUICK else pytest.mark.nightly) for name in LAUNCHERS]
)
def test_sweep_is_the_same_under_every_launcher_and_computes_no_stage_twice(
    launcher: str, tmp_path: Path, alone: dict[str, dict[str, float]]
) -> None:
    results = launched(tmp_path, launcher)
    assert scores(results) == alone
    executed = {stage: sum(result.stages.get(stage, {}).get("executed", 0) for result in results) for stage in DISTINCT}
    assert executed == DISTINCT
