"""Under every launcher the sweep is the same, and no stage is computed twice."""

import importlib.util
from pathlib import Path

import pytest

from support.commands import RUN, Ended, ended, printed, write_twins
from test_bad_jobs import LAUNCHERS, PLUGINS

DISTINCT = {"chunk": 1, "index": 2, "retrieve": 2, "fuse": 2}


def launched(folder: Path, *launcher: str) -> Ended:
    folder.mkdir()
    printed(folder, RUN, "-m", *write_twins(folder), "retriever.alpha=0.2,0.6", "tracking=none", *launcher)
    found = ended(folder)
    assert len(found.scores) == 2
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_sweep_is_the_same_under_every_launcher_and_computes_no_stage_twice(launcher: str, tmp_path: Path) -> None:
    if launcher in PLUGINS and importlib.util.find_spec(f"hydra_plugins.{PLUGINS[launcher]}") is None:
        pytest.skip(f"{PLUGINS[launcher]} is not installed")
    found = launched(tmp_path / "launched", *LAUNCHERS[launcher])
    assert found.scores == launched(tmp_path / "expected").scores
    assert {stage: found.executed[stage] for stage in DISTINCT} == DISTINCT
