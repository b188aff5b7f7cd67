"""A Hydra program that knows nothing of us searches with the plugin: alone, after a stop, with several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.test_utils.launcher_common_tests import BatchedSweeperTestSuite, LauncherTestSuite
from hydra.version import setbase

from hydra_plugins.ragsweep_optuna.sweeper import OptunaSweeper
from studies import LEFT, select, stored_trials, working

APP = """
import time
import hydra

@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config):
    time.sleep(config.wait)
    return (config.x - 3) ** 2 + config.kind.get("alpha", 1)

main()
"""
CONFIG = """
defaults: [_self_, {kind: plain}, {override hydra/sweeper: optuna}]
x: 1
wait: 0
hydra:
  sweeper:
    n_trials: 6
    plots: false
    params:
      kind: plain,convex
      x: range(0,90)
      kind.alpha: {over: "interval(0,1)", when: kind=convex}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "conf" / "kind").mkdir(parents=True)
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "conf" / "config.yaml").write_text(CONFIG)
    (tmp_path / "conf" / "kind" / "plain.yaml").write_text("name: plain\n")
    (tmp_path / "conf" / "kind" / "convex.yaml").write_text("name: convex\nalpha: 0.5\n")
    return tmp_path


def started(program: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "app.py", "-m", *arguments], cwd=program, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def said(program: Path, *arguments: str, status: int = 0) -> str:
    process = started(program, *arguments)
    out, error = process.communicate(timeout=180)
    assert process.returncode == status, out + error
    return out + error


def evaluated(program: Path) -> list[list[str]]:
    """List the overrides of each job."""
    return [one.facts["overrides"] for one in stored_trials(program / "study.db").values()]


def test_a_program_searches_goes_on_where_it_ended_and_says_what_it_found(program: Path) -> None:
    said(program)
    first = evaluated(program)
    assert len(first) == 6
    assert first[0] == []  # the default config
    assert all(("kind.alpha" in str(lines)) == ("kind=convex" in lines) for lines in first)
    said(program, "hydra.sweeper.n_trials=8", "hydra/launcher=joblib", "hydra.sweeper.n_jobs=2")
    assert evaluated(program)[:6] == first
    assert len(evaluated(program)) == 8
    found = [yaml.safe_load(path.read_text()) for path in program.rglob("optimization_results.yaml")]
    assert all(one["name"] == "optuna" and "x" in one["best_params"] for one in found)


@pytest.mark.parametrize(
    ("typed", "expected"), [("kind=plain,convx", "convx"), ("hydra/sweeper/sampler=grid", "has no end of values")]
)
def test_what_is_wrong_is_said_before_anything_is_launched(program: Path, typed: str, expected: str) -> None:
    assert expected in said(program, typed, status=1)
    assert not (program / "study.db").exists()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.nightly
def test_four_processes_share_a_study_and_one_that_is_killed_leaves_its_trial_to_the_others(program: Path) -> None:
    arguments = ["wait=0.5", "hydra.sweeper.n_trials=14"]
    processes = [started(program, *arguments) for _ in range(4)]
    try:
        until(lambda: (program / "study.db").exists() and (program / "study.db-wal").exists())
        until(lambda: bool(working(program / "study.db")))
        victim = next(one for one in processes if one.pid in working(program / "study.db"))
        victim.send_signal(signal.SIGKILL)
        ends = [(one, *one.communicate(timeout=180)) for one in processes]
    finally:
        for one in processes:
            one.kill()
    assert [one.returncode for one, _, error in ends if one is not victim] == [0, 0, 0], ends
    assert len(evaluated(program)) == len(set(map(tuple, evaluated(program)))) == 14
    assert select(program / "study.db", LEFT) == [(0,)]
    assert {one.state for one in stored_trials(program / "study.db").values()} == {"COMPLETE"}


def test_hydra_finds_the_sweeper() -> None:
    assert OptunaSweeper.__name__ in [one.__name__ for one in Plugins.instance().discover(Sweeper)]


GRID = [
    "hydra/sweeper=optuna", "hydra/sweeper/sampler=grid", "hydra.sweeper.default=false", "hydra.sweeper.storage=null",
    "hydra.sweeper.n_trials=100", "hydra.sweeper.max_failure_rate=1", "hydra.sweeper.plots=false",
]  # fmt: skip


@pytest.fixture
def oldest_rules() -> Iterator[None]:
    """Let jobs have folders of their own, as Hydra's suites take for granted: another test may have asked otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        setbase("1.1")
    yield
    setbase("1.3")


@pytest.mark.filterwarnings("ignore:Future Hydra versions")
@pytest.mark.usefixtures("oldest_rules")
@pytest.mark.parametrize(("launcher_name", "overrides"), [("basic", [*GRID, "hydra.sweeper.n_jobs=2"])])
class TestHydrasOwnBatches(BatchedSweeperTestSuite):
    """The suite that Hydra ships for sweepers that launch batches."""


@pytest.mark.filterwarnings("ignore:Future Hydra versions")
@pytest.mark.usefixtures("oldest_rules")
@pytest.mark.parametrize(("launcher_name", "overrides"), [("basic", [*GRID, "hydra.sweeper.n_jobs=100"])])
class TestHydrasOwnLaunching(LauncherTestSuite):
    """The suite that Hydra ships for launchers, through this sweeper."""
