"""Commands on machines that share a study and the remote half of a store: each trial and stage once in all."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import sqlalchemy

from ragsweep.core.results import Result
from support.commands import begin, executed, finish, results, scores, write_twins
from support.servers.object_store import ObjectServer, object_server
from support.servers.postgresql_server import Database
from support.servers.studies import LEFT, TRIALS, by_job, query

__all__ = ["object_server"]

SPACE = ["chunker.size=400,800", "retriever.alpha=0.1,0.5,0.9", "top_k=2,5"]
TRIALS_IN_ALL = 12
SEARCH = ["hydra/sweeper=optuna", "hydra/sweeper/sampler=grid", f"hydra.sweeper.n_trials={TRIALS_IN_ALL}"]
Configs = dict[tuple[str, ...], Mapping[str, float]]


def start(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    return begin(folder, "-m", *write_twins(folder), *SPACE, "tracking=none", *more)


def by_config(found: list[Result]) -> Configs:
    configs = [one.run.config for one in found]
    names = [(str(one["chunker"]["size"]), str(one["retriever"]["alpha"]), str(one["top_k"])) for one in configs]
    return {name: scores(one) for name, one in zip(names, found, strict=True)}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """All configs, one after the other, in one process."""
    folder = tmp_path_factory.mktemp("alone")
    finish(start(folder), folder)
    found = results(folder)
    assert len(found) == TRIALS_IN_ALL
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("kill", [False, True])
def test_commands_on_one_study_share_trials_and_stages(
    kill: bool, alone: list[Result], object_server: ObjectServer, database: Database, tmp_path: Path
) -> None:
    url = database()
    shared = [*SEARCH, f"hydra.sweeper.storage='{url}'", f"store.remote={object_server.bucket()}"]
    folders = [tmp_path / "one", tmp_path / "other"]
    processes = [start(folder, *shared) for folder in folders]
    if kill:
        while _complete(url) < 3 and processes[0].poll() is None:
            time.sleep(0.05)
        os.kill(processes[0].pid, signal.SIGKILL)
        processes[0].wait()
        finish(processes[1], folders[1])
        processes[0] = start(folders[0], *shared)
    for process, folder in zip(processes, folders, strict=True):
        finish(process, folder)
    trials = by_job(query(url, TRIALS))
    assert list(trials) == list(range(TRIALS_IN_ALL))
    assert {one.state for one in trials.values()} == {"COMPLETE"}
    assert query(url, LEFT) == [(0,)]
    found = [results(folder) for folder in folders]
    assert by_config([*found[0], *found[1]]) == by_config(alone)
    if not kill:
        assert all(found)  # both worked
        assert len(found[0]) + len(found[1]) == TRIALS_IN_ALL
        assert executed([*found[0], *found[1]]) == executed(alone)


def _complete(url: str) -> int:
    try:
        return sum(one.state == "COMPLETE" for one in by_job(query(url, TRIALS)).values())
    except sqlalchemy.exc.ProgrammingError:  # no tables yet
        return 0
