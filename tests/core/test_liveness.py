"""Claims of processes on work: one contract for every place that keeps them, and the thread that beats."""

import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import pytest

from optuna_sweeper.processes import repeating
from optuna_sweeper.storage import open_storage
from optuna_sweeper.trial_claims import TrialClaims
from optuna_sweeper.trials import EVALUATION, Evaluation
from ragsweep.core.locks import Holder, Liveness
from ragsweep.records.claims import CONFIG, ClaimKey, Claims
from ragsweep.records.ledger_file import LedgerFile
from ragsweep.stages.leases import Leases
from ragsweep.stages.remote import open_remote
from support import wait_until
from support.servers import forked

Opened = tuple[Liveness[Any], Callable[[], Any]]
"""A place, and a function that returns the work there: a trial is another one after its release."""


def ledger(folder: Path, lapse: float) -> Opened:
    return Claims(LedgerFile(folder / "ledger.db"), lapse), lambda: ClaimKey(CONFIG, "sweep", 0)


def leases(folder: Path, lapse: float) -> Opened:
    remote = open_remote(f"file://{folder}", pytest.fail)
    assert remote
    return Leases(remote, lapse), lambda: "work"


def trials(folder: Path, lapse: float) -> Opened:
    storage = open_storage(f"sqlite:///{folder / 'study.db'}").optuna
    study = optuna.create_study(storage=storage, study_name="s", load_if_exists=True)

    def trial() -> Any:
        if running := study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
            return running[0]
        trial = study.ask()
        if EVALUATION not in trial.user_attrs:
            trial.set_user_attr(EVALUATION, Evaluation(trial, 0, (), "").facts)
        return trial

    return TrialClaims(study, lapse, is_shared=True), trial


PLACES = {place.__name__: place for place in (ledger, leases, trials)}
CLAIM = """
import socket, sys, time
from pathlib import Path
from test_liveness import PLACES
if sys.argv[3]:
    socket.gethostname = lambda: sys.argv[3]
liveness, work = PLACES[sys.argv[1]](Path(sys.argv[2]), 600)
print(liveness.claim(work()), flush=True)
time.sleep(600)
"""


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def claimed(place: str, folder: Path, host: str = "") -> Iterator[forked.Popen]:
    """Claim the work in another process, which seems to run on another machine if that is given."""
    command = [sys.executable, "-c", CLAIM, place, str(folder), host]
    with forked.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "None\n"
            yield process
        finally:
            process.kill()


def test_claimed_work_is_alive_for_every_process_until_it_is_released(place: str, tmp_path: Path) -> None:
    (one, work), (other, seen) = PLACES[place](tmp_path, 600), PLACES[place](tmp_path, 600)
    mine = work()
    assert not one.is_alive(mine)
    assert one.claim(mine) is None
    assert one.claim(mine) is None
    assert one.is_alive(mine)
    assert other.is_alive(seen())
    one.release(mine)
    again = seen()
    assert not other.is_alive(again)
    assert other.claim(again) is None


def test_work_of_another_process_is_refused_until_that_dies(place: str, tmp_path: Path) -> None:
    liveness, work = PLACES[place](tmp_path, 600)
    with claimed(place, tmp_path) as process:
        owner = liveness.claim(work())
        assert isinstance(owner, Holder)
        assert owner.process == process.pid
        assert liveness.is_alive(work())
    dead = work()
    assert not liveness.is_alive(dead)
    liveness.release(dead)
    assert liveness.claim(work()) is None


def test_work_of_a_machine_is_refused_until_it_is_silent(place: str, tmp_path: Path) -> None:
    (patient, work), (hasty, seen) = PLACES[place](tmp_path, 600), PLACES[place](tmp_path, 0.05)
    with claimed(place, tmp_path, "elsewhere"):
        owner = patient.claim(work())
        assert isinstance(owner, Holder)
        assert owner.host == "elsewhere"
        assert patient.is_alive(work())
    assert patient.is_alive(work())
    wait_until(lambda: not hasty.is_alive(seen()), 60)
    hasty.release(seen())
    assert hasty.claim(seen()) is None


class Counted(Liveness[str]):
    """A place whose every second heartbeat fails."""

    def __init__(self, beats: list[int], enough: threading.Event) -> None:
        super().__init__(0.001)
        self.beats, self.enough = beats, enough

    def claim(self, work: str) -> None:
        self.start()

    def release(self, work: str) -> None: ...

    def is_alive(self, work: str) -> bool:
        return True

    def beat(self) -> None:
        self.beats.append(len(self.beats))
        if len(self.beats) >= 4:
            self.enough.set()
        if len(self.beats) % 2:
            raise OSError("unreachable")


@pytest.mark.parametrize("how", ["stopped", "unreferenced"])
def test_one_thread_beats_in_spite_of_failures_until_its_place_is_stopped_or_unreferenced(how: str) -> None:
    beats, enough, before = list[int](), threading.Event(), set(threading.enumerate())
    counted = Counted(beats, enough)
    counted.claim("a")
    counted.claim("b")
    (thread,) = set(threading.enumerate()) - before
    assert enough.wait(60)
    if how == "stopped":
        counted.stop()
    else:
        del counted
    thread.join(60)
    assert not thread.is_alive()


def test_a_pause_without_end_ends_no_heartbeats() -> None:
    """With ``hydra.sweeper.lapse=inf``, a process on another machine never counts as dead."""
    with repeating(lambda: None, math.inf, "patient"):
        (thread,) = (each for each in threading.enumerate() if each.name == "patient")
        thread.join(0.1)
        assert thread.is_alive()
