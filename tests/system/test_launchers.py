"""Under every launcher the sweep is the same, and no stage is computed twice."""

import importlib.util
from pathlib import Path

import pytest

from ragsweep.core.results import Result
from support.commands import RUN, call
from test_bad_jobs import LAUNCHERS, PLUGINS, outcomes
from test_kills import write_twins

DISTINCT = {"chunk": 1, "index": 2, "retrieve": 2, "fuse": 2}


def launched(folder: Path, *launcher: str) -> dict[str, Result]:
    write_twins(folder)
    grid = ["retriever=twins", "retriever.alpha=0.2,0.6", "dataset.limit=40", "tracking=none"]
    done = call(folder, RUN, "-m", *grid, *launcher)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {name: outcome for name, outcome in outcomes(folder).items() if isinstance(outcome, Result)}
    assert len(found) == 2
    return found


def scores(results: dict[str, Result]) -> dict[str, dict[str, float]]:
    return {
        name: {key: one.value for key, one in result.summaries.metrics.items() if one.n_scored and "latency" not in key}
        for name, result in results.items()
    }


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_sweep_is_the_same_under_every_launcher_and_computes_no_stage_twice(launcher: str, tmp_path: Path) -> None:
    if launcher in PLUGINS and importlib.util.find_spec(f"hydra_plugins.{PLUGINS[launcher]}") is None:
        pytest.skip(f"{PLUGINS[launcher]} is not installed")
    for name in ("expected", "launched"):
        (tmp_path / name).mkdir()
    results = launched(tmp_path / "launched", *LAUNCHERS[launcher])
    assert scores(results) == scores(launched(tmp_path / "expected"))
    executed = {
        stage: sum(result.run.stages.get(stage, {}).get("executed", 0) for result in results.values())
        for stage in DISTINCT
    }
    assert executed == DISTINCT
