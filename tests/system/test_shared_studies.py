"""Several processes on one study, on SQLite and PostgreSQL: each trial starts exactly once, even if processes die."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hydra.errors import HydraException

from optuna_sweeper.storage import check_url, open_storage
from support import nightly, wait_until
from support.commands import user_environment
from support.servers import forked
from support.servers.postgresql_server import Database
from support.servers.studies import LEFT, TRIALS, by_job, query

pytestmark = pytest.mark.slow

WORKER = str(Path(__file__).parents[1] / "support" / "servers" / "study_worker.py")
STORAGES = ["sqlite", "postgresql"]
SLOW_ON_SERVER = ["sqlite", nightly("postgresql")]


Make = Callable[[], tuple[str, Path]]


@pytest.fixture
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Make an empty database of the kind that a test is run with, and a file to write into."""
    kind, counted = request.param, itertools.count()

    def make() -> tuple[str, Path]:
        folder = tmp_path / str(next(counted))
        folder.mkdir()
        if kind == "sqlite":
            return f"sqlite:///{folder / 'study.db'}", folder / "log"
        database: Database = request.getfixturevalue("database")
        return database(), folder / "log"

    return make


ENVIRONMENT = user_environment(PYTHONPATH=os.pathsep.join(sys.path))


@contextmanager
def worker(settings: dict[str, Any]) -> Iterator[forked.Popen]:
    """Start a process that searches; end it with the block."""
    process = forked.Popen(
        [sys.executable, WORKER, "search", json.dumps(settings)], env=ENVIRONMENT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def finish(process: forked.Popen) -> str:
    """Wait until a process has ended well, and return what it logged."""
    _, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return str(error)


def begun(log: Path) -> list[list[str]]:
    return [line.split(" ") for line in log.read_text().splitlines()] if log.exists() else []


def check_whole(url: str, trials: int) -> None:
    """Every job is evaluated once, and no trial is left."""
    found = by_job(query(url, TRIALS))
    assert list(found) == list(range(trials))
    assert len({one.facts["signature"] for one in found.values()}) == trials
    assert {one.state for one in found.values()} == {"COMPLETE"}
    assert query(url, LEFT) == [(0,)]
    assert query(url, "SELECT count(*) FROM trials WHERE state = 'COMPLETE'") == [(trials,)]
    assert query(url, "SELECT count(DISTINCT number) FROM trials") == query(url, "SELECT count(*) FROM trials")


def start(how: str, settings: object) -> list[dict[str, Any]]:
    """Run processes that a process of its own starts, and return a line of results for each round."""
    done = forked.run(
        [sys.executable, WORKER, how, json.dumps(settings)], env=ENVIRONMENT, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [{**json.loads(line), "error": done.stderr} for line in done.stdout.splitlines()]


# --- each trial is begun once, from an empty database (R2, R3) --------------------------------------------------


def search_together(fresh: Make, rounds: int, processes: int, queued: int, sampled: int) -> float:
    """Search with processes that start at once; return the longest time that one took to open its study."""
    places, trials = [fresh() for _ in range(rounds)], queued + sampled
    general = {"processes": processes, "queued": queued, "trials": trials}
    rounds_run = start("rounds", [general | {"url": url, "log": str(log)} for url, log in places])
    for (url, log), each in zip(places, rounds_run, strict=True):
        assert each["statuses"] == [0] * processes, each["error"]
        check_whole(url, trials)
        assert sorted(int(number) for number, *_ in begun(log)) == list(range(trials))
        first = list(by_job(query(url, TRIALS)).values())[:queued]
        assert [one.facts["overrides"] for one in first] == [[f"x={n}"] for n in range(queued)]
    return float(max(seconds for each in rounds_run for seconds in each["opened"]))


@pytest.mark.parametrize("fresh", STORAGES, indirect=True)
def test_processes_that_open_an_empty_database_at_once_all_live_and_begin_each_trial_once(fresh: Make) -> None:
    search_together(fresh, rounds=1, processes=4, queued=6, sampled=6)


@pytest.mark.nightly
@pytest.mark.parametrize("fresh", STORAGES, indirect=True)
def test_eight_processes_begin_each_of_800_trials_once(fresh: Make) -> None:
    search_together(fresh, rounds=20, processes=8, queued=400, sampled=400)


@pytest.mark.nightly
@pytest.mark.parametrize(("fresh", "rounds"), [("sqlite", 50), ("postgresql", 20)], indirect=["fresh"])
def test_eight_processes_start_on_nothing_again_and_again(
    rounds: int, fresh: Make, record_property: Callable[[str, object], None]
) -> None:
    record_property("slowest", search_together(fresh, rounds, processes=8, queued=0, sampled=8))


# --- killed, paused and interrupted processes (R4) --------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("fresh", STORAGES, indirect=True)
def test_a_process_killed_at_any_moment_loses_and_doubles_no_trial(fresh: Make) -> None:
    """One of four processes is killed within a second after the first trial was begun, twenty times."""
    chance, trials = random.Random(7), 40
    after = [chance.uniform(0, 1) for _ in range(20)]
    places = [fresh() for _ in after]
    general = {"processes": 4, "trials": trials, "wait": 0.1}
    rounds_run = start(
        "rounds",
        [general | {"url": url, "log": str(log), "kill": kill} for (url, log), kill in zip(places, after, strict=True)],
    )
    for (url, log), each in zip(places, rounds_run, strict=True):
        assert each["statuses"] == [signal.SIGKILL, 0, 0, 0], each["error"]
        check_whole(url, trials)
        numbers = [int(number) for number, *_ in begun(log)]
        assert set(numbers) == set(range(trials))
        assert len(numbers) <= trials + 1  # what the killed process was at is begun again, and nothing else


@pytest.mark.nightly
@pytest.mark.parametrize("fresh", STORAGES, indirect=True)
def test_paused_process_loses_its_trial_and_its_late_result_is_refused(fresh: Make) -> None:
    (url, log), lapse = fresh(), 1.0
    settings = {"url": url, "log": str(log), "trials": 2, "wait": 0.5, "lapse": lapse}
    with worker(settings) as paused:
        wait_until(lambda: begun(log), 120)
        paused.send_signal(signal.SIGSTOP)
        time.sleep(3 * lapse)
        with worker(settings) as awake:
            finish(awake)
        paused.send_signal(signal.SIGCONT)
        error = finish(paused)
    assert "was taken over by another process; this result is discarded" in error
    check_whole(url, 2)
    values = query(url, "SELECT value FROM trial_values")
    assert values == [(float(awake.pid),)] * 2  # a trial's value is who measured it
    assert [int(number) for number, *_ in begun(log)] == [0, 0, 1]


@pytest.mark.parametrize("fresh", SLOW_ON_SERVER, indirect=True)
def test_interrupted_process_leaves_its_trial_at_once_without_counting_an_attempt(fresh: Make) -> None:
    url, log = fresh()
    settings = {"url": url, "log": str(log), "trials": 2, "wait": 30}
    with worker(settings) as first:
        wait_until(lambda: begun(log), 120)
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)
        assert first.returncode != 0
    (trial,) = by_job(query(url, TRIALS)).values()
    assert (trial.state, trial.facts["attempt"], trial.facts["owner"]) == ("WAITING", 1, None)
    with worker({**settings, "wait": 0}) as last:
        finish(last)
    check_whole(url, 2)


@pytest.mark.nightly
def test_a_process_that_dies_at_any_commit_leaves_a_study_that_another_completes(tmp_path: Path) -> None:
    attempts = start("crashes", {"folder": str(tmp_path), "trials": 2, "queued": 1})
    for attempt in attempts:
        assert attempt["completed"], attempt
        check_whole(f"sqlite:///{tmp_path / str(attempt['commit']) / 'study.db'}", 2)
    assert [attempt["died"] for attempt in attempts] == [True] * (len(attempts) - 1) + [False]
    assert len(attempts) > 20


# --- one process ------------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_one_sentence_without_the_password() -> None:
    with pytest.raises(HydraException) as fault:
        open_storage("postgresql://me:hunter22@127.0.0.1:1/studies")
    message = str(fault.value)
    assert message.startswith("hydra.sweeper.storage: cannot use postgresql://me:***@127.0.0.1:1/studies: ")
    assert "hunter22" not in message
    assert "\n" not in message


def test_a_driver_that_is_not_installed_is_named_without_the_password() -> None:
    with pytest.raises(HydraException, match=r"the driver in postgresql\+none:// is unknown or not installed") as fault:
        open_storage("postgresql+none://me:hunter22@127.0.0.1:1/studies")
    assert "hunter22" not in str(fault.value)


def test_missing_driver_is_refused_with_the_command_that_installs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optuna_sweeper.storage.find_spec", lambda name: None)
    with pytest.raises(HydraException, match=r"pip install 'psycopg\[binary\]'"):
        check_url("postgresql://me@somewhere/studies")
