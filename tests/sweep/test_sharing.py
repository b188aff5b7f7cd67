"""Several commands at one search: they share its trials, its parent run and its ledger, and it is closed once."""

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragsweep.core.errors import InputError
from ragsweep.core.locks import LAPSE, Holder, myself
from ragsweep.core.results import Failure
from ragsweep.core.secrets import Secrets
from ragsweep.parts.tracking import NoTracking
from ragsweep.records.claims import COMMAND, ClaimKey
from ragsweep.records.ledger import FINISHED, RUNNING, Ledger, Sweep
from ragsweep.report.terminal import Terminal
from ragsweep.sweep.running import mlflow_sync
from ragsweep.sweep.running.recording import RunContext
from ragsweep.sweep.running.session import Session
from ragsweep.sweep.searching.search_run import Search
from support import wait_until
from support.commands import ROOT, RUN, artifacts, runs, write_dataset
from support.servers import forked
from support.servers.postgresql_server import Database, database
from support.servers.studies import LEFT, ended_jobs, select, working
from test_search_command import SEARCH

__all__ = ["database"]

Command = subprocess.Popen[str]


@contextmanager
def command(folder: Path, environment: dict[str, str], *arguments: str) -> Iterator[Command]:
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "run.py"), *arguments], cwd=folder, env={**environment, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # who runs the tests may ignore it
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def halted_within_a_trial(process: Command, study: Path) -> bool:
    """Stop a process within a trial, or let it go on if it holds a lock then: others would wait for that."""
    if process.pid not in working(study):
        return False
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    if process.pid in working(study) and ["WRITE", str(process.pid)] not in [one[3:5] for one in locks]:
        return True
    process.send_signal(signal.SIGCONT)
    return False


def check_joined(folder: Path, trials: int) -> None:
    """Study, ledger, MLflow and the results table hold the same trials, one to one."""
    study, ledger = folder / ".ragsweep" / "study.db", folder / ".ragsweep" / "ledger.db"
    numbers = [(number,) for number in range(trials)]
    assert ended_jobs(study) == list(range(trials))
    assert select(study, LEFT) == [(0,)]
    assert select(ledger, "SELECT job FROM records ORDER BY job") == numbers
    assert select(ledger, "SELECT count(*) FROM records WHERE tracked = 0") == [(0,)]
    assert select(ledger, "SELECT count(*) FROM claims") == [(0,)]
    assert select(ledger, "SELECT status FROM sweeps") == [(FINISHED,)]
    (parent,) = runs(folder, "sweep")
    assert parent.info.status == FINISHED
    assert "ragsweep.verdict" in parent.data.tags
    children = runs(folder, "config")
    assert sorted(int(run.data.tags["ragsweep.job"]) for run in children) == [number for (number,) in numbers]
    assert {run.info.status for run in children} == {FINISHED}
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    kept = dict(select(ledger, "SELECT job, run FROM records"))
    assert kept == {int(run.data.tags["ragsweep.job"]): run.info.run_id for run in children}
    path = parent.info.artifact_uri.removeprefix("file://")
    table = json.loads(Path(path, "results.json").read_text())
    assert len(table["configs"]) == trials
    assert "results.csv" in artifacts(folder, parent)


@pytest.mark.nightly
def test_commands_share_a_search_and_the_work_of_killed_ones(environment: dict[str, str], tmp_path: Path) -> None:
    typed = [*SEARCH, *write_dataset(tmp_path), "hydra.sweeper.n_trials=8"]
    study = tmp_path / ".ragsweep" / "study.db"
    with ExitStack() as stack:
        opener = stack.enter_context(command(tmp_path, environment, *typed))
        wait_until(lambda: halted_within_a_trial(opener, study), 150)
        others = [stack.enter_context(command(tmp_path, environment, *typed)) for _ in range(2)]
        wait_until(lambda: len(ended_jobs(study)) > 1, 150)
        opener.kill()
        said = [one.communicate(timeout=180) for one in others]
    assert [one.returncode for one in others] == [0, 0], said
    for out, _ in said:
        assert "context_ndcg" in out
    assert sum("CHOICE" in out for out, _ in said) == 1
    assert sum("the last process to finish writes the verdict" in out for out, _ in said) == 1
    check_joined(tmp_path, 8)


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_command_leaves_rest(number: signal.Signals, environment: dict[str, str], tmp_path: Path) -> None:
    typed = [*SEARCH, *write_dataset(tmp_path), "hydra.sweeper.n_trials=40"]
    study = tmp_path / ".ragsweep" / "study.db"
    with ExitStack() as stack:
        one, other = (stack.enter_context(command(tmp_path, environment, *typed)) for _ in range(2))
        wait_until(lambda: {one.pid, other.pid} & working(study), 150)
        one.send_signal(number)
        out, error = one.communicate(timeout=60)
        assert one.returncode == 128 + number, out + error
        out, error = other.communicate(timeout=180)
    assert other.returncode == 0, out + error
    check_joined(tmp_path, 40)


@pytest.mark.nightly
def test_machines_share_a_study_on_a_server(environment: dict[str, str], tmp_path: Path, database: Database) -> None:
    environment = {
        **environment, "STUDY": database().replace("postgres@", "postgres:hunter22@"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}",
    }  # fmt: skip
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        typed = [*SEARCH, *write_dataset(folder), "hydra.sweeper.storage=${oc.env:STUDY}", "hydra.sweeper.n_trials=12"]
    with ExitStack() as stack:
        machines = [stack.enter_context(command(folder, environment, *typed)) for folder in folders]
        said = [one.communicate(timeout=180) for one in machines]
    assert [one.returncode for one in machines] == [0, 0], said
    ledgers = [select(folder / ".ragsweep" / "ledger.db", "SELECT job FROM records") for folder in folders]
    assert sorted(job for ledger in ledgers for (job,) in ledger) == list(range(12))
    (parent,) = runs(tmp_path, "sweep")
    assert parent.info.status == FINISHED
    assert sorted(int(run.data.tags["ragsweep.job"]) for run in runs(tmp_path, "config")) == list(range(12))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"hunter22" in path.read_bytes()]
    if all(ledgers):
        assert all(" of 12; MLflow shows all" in out for out, _ in said)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hunter22@127.0.0.1:1/studies", "cannot use postgresql://me:***@127.0.0.1:1/studies"),
        ("sqlite:///notes.txt", "cannot use sqlite:///notes.txt: file is not a database"),
    ],
)
def test_an_unusable_storage_is_said_before_anything_is_written(
    url: str, shown: str, environment: dict[str, str], tmp_path: Path
) -> None:
    typed = [*SEARCH, *write_dataset(tmp_path), "hydra.sweeper.storage=${oc.env:STUDY}"]
    variables = {**environment, "STUDY": url}
    (tmp_path / "notes.txt").write_text("not a database", encoding="utf-8")
    done = forked.run(
        [sys.executable, RUN, *typed], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert shown in done.stderr
    assert "hunter22" not in done.stdout + done.stderr
    assert select(tmp_path / ".ragsweep" / "ledger.db", "SELECT * FROM sweeps") == []
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"hunter22" not in path.read_bytes()


@pytest.fixture
def opened(tmp_path: Path) -> tuple[Ledger, Sweep]:
    ledger = Ledger(tmp_path)
    return ledger, ledger.open_sweep("key", Sweep("", "search", "", ((),), ("trial 0",)))


def leave(ledger: Ledger, sweep: Sweep) -> str:
    search: Any = SimpleNamespace(ledger=ledger)
    return Search.leave(search, sweep)


def pretend(ledger: Ledger, sweep: Sweep, kind: str, number: int, host: str = "elsewhere", silent: float = 0.0) -> None:
    """Another process's claim."""
    with sqlite3.connect(ledger.path) as connection:
        values = (kind, sweep.id, number, host, 1, "", time.time() - silent)
        connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?, ?, 1)", values)
    connection.close()


def test_a_search_is_closed_by_the_last_that_leaves_it(opened: tuple[Ledger, Sweep]) -> None:
    ledger, sweep = opened
    assert sweep.key == "key"
    assert leave(ledger, sweep) == ""
    pretend(ledger, sweep, "command", 1)
    assert "process 1 on elsewhere" in leave(ledger, sweep)
    with sqlite3.connect(ledger.path) as connection:
        assert connection.execute("SELECT host FROM claims").fetchall() == [("elsewhere",)]
    connection.close()
    assert ledger.abandoned() == []  # there still is somebody at it
    assert ledger.claims.claim(ClaimKey(COMMAND, sweep.id)) == Holder("elsewhere", 1, "")
    ledger.claims.join_sweep(sweep.id)
    ledger.set_status(sweep.id, FINISHED)
    assert "already closed this search" in leave(ledger, sweep)


def test_who_has_long_been_silent_does_not_keep_a_search_open(opened: tuple[Ledger, Sweep]) -> None:
    ledger, sweep = opened
    pretend(ledger, sweep, "command", 1, silent=LAPSE + 1)
    assert ledger.claims.others(sweep.id) == []
    assert leave(ledger, sweep) == ""


def test_a_job_that_was_given_to_another_process_takes_no_late_result(opened: tuple[Ledger, Sweep]) -> None:
    ledger, sweep = opened
    failure = Failure("trial 0", (), {}, "no luck")
    pretend(ledger, sweep, "config", 0)
    assert ledger.claims.claim_job(sweep.id, 0) == Holder("elsewhere", 1, "")
    assert ledger.claims.claim_job(sweep.id, 0, assigned=True) is None
    pretend(ledger, sweep, "config", 0)
    with pytest.raises(InputError, match="taken over by another process"):
        ledger.write(sweep.id, 0, failure, fenced=True)
    ledger.claims.claim_job(sweep.id, 0, assigned=True)
    ledger.write(sweep.id, 0, failure, fenced=True)
    with pytest.raises(InputError, match="taken over by another process"):  # it is stored already
        ledger.write(sweep.id, 0, failure, fenced=True)
    assert len(ledger.records(sweep.id)) == 1
    assert ledger.sweep(sweep.id).status == RUNNING
    assert myself().process == os.getpid()


def test_abandoned_sweep_in_a_read_only_ledger_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a finished sweep could not be shown beside it."""
    ledger = Ledger(tmp_path)
    sweep = ledger.open_sweep("key", Sweep("", "s", "", ((),), ("a",)))
    ledger.claims.release(ClaimKey(COMMAND, sweep.id))
    monkeypatch.setattr("os.access", lambda *_: False)
    context = RunContext(Session(folder=tmp_path), NoTracking(), Terminal(io.StringIO(), bars=False), Secrets())
    assert not context.ledger.is_writable
    mlflow_sync.end_abandoned(context)
    assert [one.id for one in ledger.abandoned()] == [sweep.id]
