"""A sweep that is killed at any moment is continued by the same command, and ends as if nothing had happened."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from ragsweep.records.ledger import Ledger
from support import wait_until
from support.commands import RUN, begin, mlflow_client, results, scores, user_environment, write_twins
from support.servers import forked

JOBLIB = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
"""Starts two processes beside the command's own: by night, with many configs."""
FEW, MANY = "0.3,0.6", ",".join(f"{n / 30:.2f}" for n in range(30))  # alphas, a config each


@dataclass(frozen=True)
class Ended:
    """What a sweep left behind: scores by config, and the state of every run."""

    scores: dict[str, dict[str, float]]
    statuses: dict[str, list[str]]
    parents: list[str]


def start(folder: Path, alphas: str) -> subprocess.Popen[bytes] | forked.Popen:
    grid = ["-m", *write_twins(folder), f"retriever.alpha={alphas}"]
    if alphas == MANY:
        return begin(folder, *grid, *JOBLIB, own_session=True)
    with (folder / "log.txt").open("ab") as log:
        return forked.Popen(
            [sys.executable, RUN, *grid], cwd=folder, stdout=log, stderr=log, start_new_session=True,
            env=user_environment(),
        )  # fmt: skip


def ended(folder: Path) -> Ended:
    found = {f"#{n} {one.name}": scores(one) for n, one in enumerate(results(folder), 1)}
    client = mlflow_client(folder)
    experiment = client.get_experiment_by_name("ragsweep").experiment_id
    runs = client.search_runs([experiment], max_results=1000)
    children: dict[str, list[str]] = {}
    for run in runs:
        if run.data.tags["ragsweep.kind"] == "config":
            children.setdefault(run.info.run_name, []).append(run.info.status)
            shown = {name: value for name, value in run.data.metrics.items() if name in found[run.info.run_name]}
            assert {"context_recall", "context_ndcg"} <= shown.keys()
            assert shown == pytest.approx({name: found[run.info.run_name][name] for name in shown})
            logged = {item.path for item in client.list_artifacts(run.info.run_id)}
            assert logged - {"questions.json"} == {"config.yaml", "outcomes.parquet"}
    parents = [run.info.status for run in runs if run.data.tags["ragsweep.kind"] == "sweep"]
    return Ended(found, children, parents)


def finish(folder: Path, alphas: str) -> Ended:
    """Repeat the command until it ends well: once, by the law."""
    process = start(folder, alphas)
    assert process.wait(timeout=300) == 0, (folder / "log.txt").read_text()
    return ended(folder)


class Undisturbed(NamedTuple):
    """A sweep that nobody killed, and how long it took."""

    folder: Path
    ended: Ended
    seconds: float
    alphas: str


@pytest.fixture(scope="module")
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    forked.run([sys.executable, "-c", ""])  # what all processes are forked from is there when the clock starts
    folder, begun = tmp_path_factory.mktemp("undisturbed"), time.monotonic()
    found = finish(folder, request.param)
    assert len(found.scores) == len(request.param.split(","))
    return Undisturbed(folder, found, time.monotonic() - begun, request.param)


MOMENTS = [*((FEW, seed) for seed in (0, 1)), *((MANY, seed) for seed in range(2, 52))]


@pytest.mark.nightly
@pytest.mark.parametrize(("undisturbed", "seed"), MOMENTS, indirect=["undisturbed"])
def test_sweep_killed_at_a_random_moment_is_continued(seed: int, tmp_path: Path, undisturbed: Undisturbed) -> None:
    """All processes are killed at once, or the command alone while its workers go on."""
    original, oracle, seconds, alphas = undisturbed
    chance = random.Random(seed)
    if seed % 2:  # a warm store: the kill hits recording and tracking
        shutil.copytree(original / ".ragsweep" / "stages", tmp_path / ".ragsweep" / "stages")
    process = start(tmp_path, alphas)
    time.sleep(chance.uniform(0.3, 0.95) * seconds)
    with suppress(ProcessLookupError):  # it was quicker than the one before
        (os.killpg if chance.random() < 0.7 else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    found = finish(tmp_path, alphas)
    assert found.scores == oracle.scores
    assert found.statuses == {name: ["FINISHED"] for name in oracle.scores}
    assert found.parents == ["FINISHED"]
    assert "quarantine" not in (tmp_path / "log.txt").read_text()
    left = list((tmp_path / ".ragsweep" / "stages" / "temporary").iterdir())
    assert left == []
    with sqlite3.connect(tmp_path / ".ragsweep" / "ledger.db") as connection:
        assert connection.execute("SELECT count(*) FROM claims").fetchone() == (0,)


@pytest.mark.nightly
def test_workers_of_a_killed_command_end_with_their_job(tmp_path: Path) -> None:
    process, ledger = start(tmp_path, MANY), Ledger(tmp_path / ".ragsweep")
    wait_until(lambda: any(ledger.records(sweep.id) for sweep in ledger.sweeps()), 60)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not is_running(process.pid), 60)


def is_running(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.nightly
@pytest.mark.parametrize("undisturbed", [FEW], indirect=True)
def test_finished_sweep_is_shown_and_not_run_again(undisturbed: Undisturbed) -> None:
    folder, oracle, _, alphas = undisturbed
    before = {path: path.stat().st_mtime_ns for path in (folder / "mlruns").rglob("*")}
    again = finish(folder, alphas)
    assert again == oracle
    assert {path: path.stat().st_mtime_ns for path in (folder / "mlruns").rglob("*")} == before
    assert "is already finished" in (folder / "log.txt").read_text()
    assert again.parents == ["FINISHED"]
