"""Another Hydra program searches with the plugin, and continues a search after a stop."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.test_utils.launcher_common_tests import BatchedSweeperTestSuite, LauncherTestSuite
from hydra.version import setbase

from hydra_plugins.optuna_sweeper.sweeper import OptunaSweeper
from support import nightly
from support.commands import call
from support.servers.studies import stored_trials

APP = """
import hydra

@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config):
    return (config.x - 3) ** 2 + config.kind.get("alpha", 1)

main()
"""
CONFIG = """
defaults: [_self_, {kind: plain}, {override hydra/sweeper: optuna}]
x: 1
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


def run(program: Path, *arguments: str, status: int = 0) -> str:
    done = call(program, "app.py", "-m", *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def evaluated(program: Path) -> list[list[str]]:
    """List the overrides of each job."""
    return [one.facts["overrides"] for one in stored_trials(program / "study.db").values()]


@pytest.mark.nightly
def test_program_searches_continues_where_it_ended_and_writes_its_best_config(program: Path) -> None:
    run(program)
    first = evaluated(program)
    assert len(first) == 6
    assert first[0] == []  # the default config
    assert all(("kind.alpha" in str(lines)) == ("kind=convex" in lines) for lines in first)
    run(program, "hydra.sweeper.n_trials=8", "hydra.sweeper.n_jobs=2")
    assert evaluated(program)[:6] == first
    assert len(evaluated(program)) == 8
    found = [yaml.safe_load(path.read_text()) for path in program.rglob("optimization_results.yaml")]
    assert all(one["name"] == "optuna" and "x" in one["best_params"] for one in found)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("kind=plain,convx", "convx"),
        nightly("hydra/sweeper/sampler=grid", "continuous or logarithmic interval"),
    ],
)
def test_error_is_reported_before_anything_is_launched(program: Path, typed: str, expected: str) -> None:
    assert expected in run(program, typed, status=1)
    assert not (program / "study.db").exists()


@pytest.mark.nightly
def test_sweeper_is_found_under_its_former_name(program: Path) -> None:
    former = "hydra.sweeper._target_=hydra_plugins.ragsweep_optuna.sweeper.OptunaSweeper"
    run(program, former, "hydra.sweeper.n_trials=2")
    assert len(evaluated(program)) == 2


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


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:Future Hydra versions")
@pytest.mark.usefixtures("oldest_rules")
@pytest.mark.parametrize(("launcher_name", "overrides"), [("basic", [*GRID, "hydra.sweeper.n_jobs=2"])])
class TestHydrasOwnBatches(BatchedSweeperTestSuite):
    """The suite that Hydra ships for sweepers that launch batches."""


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:Future Hydra versions")
@pytest.mark.usefixtures("oldest_rules")
@pytest.mark.parametrize(("launcher_name", "overrides"), [("basic", [*GRID, "hydra.sweeper.n_jobs=100"])])
class TestHydrasOwnLaunching(LauncherTestSuite):
    """The suite that Hydra ships for launchers, through this sweeper."""
