"""Jobs of SLURM: one has ended when the queue no longer has it, and one that is taken back has not failed."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from ragsweep.sweep.running import slurm
from ragsweep.sweep.running.slurm import SlurmQueue, through_queue, withdrawable

pytest.importorskip("submitit")

Listed = Callable[[str], object]
SLURM = OmegaConf.create({"_target_": "hydra_plugins.hydra_submitit_launcher.submitit_launcher.SlurmLauncher"})


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Listed:
    """Stand for SLURM's commands, in scripts; return what sets the text that squeue prints (empty: it fails)."""
    text = tmp_path / "text"
    scripts = {"squeue": f"[ -s {text} ] && cat {text}", "scancel": f"echo $* >> {tmp_path}/cancelled"}
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "POLL", 0.0)
    return text.write_text


@pytest.fixture
def queue(listed: Listed) -> SlurmQueue:
    made = SlurmQueue()
    for job in ("7_0", "7_1"):
        made.register_job(job)
    return made


@pytest.mark.parametrize(
    "state", ["PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED", "REQUEUE_HOLD", "STAGE_OUT"]
)
def test_job_that_may_still_run_has_not_ended(state: str, queue: SlurmQueue, listed: Listed) -> None:
    listed(f"7_0 {state}\n7_1 FAILED\n")
    assert (queue.is_done("7_0"), queue.is_done("7_1")) == (False, True)
    assert queue.get_state("7_0") == state


@pytest.mark.parametrize(
    "answers",
    [
        [("7_0 RUNNING\n7_1 FAILED\n", False), ("8 RUNNING\n", True)],  # it is listed no more
        [("7_0 NODE_FAIL\n7_1 RUNNING\n", True), ("7_0 PENDING\n7_1 RUNNING\n", False)],  # it is queued again
        [("", False), ("7_0 RUNNING\n7_1 RUNNING\n", False), ("", False)],  # SLURM does not answer
    ],
)
def test_job_has_ended_by_the_last_answer(answers: list[tuple[str, bool]], queue: SlurmQueue, listed: Listed) -> None:
    for text, has_ended in answers:
        listed(text)
        assert queue.is_done("7_0") == has_ended


def test_state_of_an_ended_job_that_is_listed_no_more_is_kept(queue: SlurmQueue, listed: Listed) -> None:
    listed("7_1 OUT_OF_MEMORY\n")
    assert queue.is_done("7_1")
    listed("8 RUNNING\n")
    assert queue.get_state("7_1") == "OUT_OF_MEMORY"


def test_command_of_slurm_that_does_not_end_is_given_up(
    queue: SlurmQueue, listed: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(slurm, "PATIENCE", 0.2)
    assert not queue.is_done("7_0")


def test_command_of_slurm_that_is_missing_ends_no_job(queue: SlurmQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert not queue.is_done("7_0")


def test_launch_that_loses_a_job_waits_for_the_others(listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    from submitit import SlurmJob

    before, polls = SlurmJob.watcher, list[str]()

    def launch(jobs: object) -> list[Any]:
        for job in ("7_0", "7_1"):
            SlurmJob.watcher.register_job(job)
        listed("7_0 FAILED\n7_1 RUNNING\n")
        raise RuntimeError("7_0\nis lost\nits log")

    def end(seconds: float) -> None:
        polls.append("slept")
        listed("7_0 FAILED\n7_1 COMPLETED\n")

    # its own clock: in this process other threads may sleep as well
    monkeypatch.setattr(slurm, "time", SimpleNamespace(sleep=end, monotonic=time.monotonic))
    with pytest.raises(RuntimeError, match=r"^7_0 is lost$"):
        through_queue(SLURM, launch)([])
    assert polls == ["slept"]
    assert SlurmJob.watcher is before


def test_launch_that_is_interrupted_cancels_what_has_not_ended(listed: Listed, tmp_path: Path) -> None:
    from submitit import SlurmJob

    def launch(jobs: object) -> list[Any]:
        for job in ("7_0", "7_1", "7_2"):
            SlurmJob.watcher.register_job(job)
        listed("7_0 COMPLETED\n7_1 RUNNING\n7_2 PENDING\n")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        through_queue(SLURM, launch)([])
    assert (tmp_path / "cancelled").read_text().split() == ["7_1", "7_2"]


def test_other_launchers_are_left_alone() -> None:
    launch: Any = object()
    assert through_queue(OmegaConf.create({"_target_": "a.JoblibLauncher"}), launch) is launch


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[BaseException], None]]:
    """Stand for submitit's handler of the signal by which SLURM takes a job back: return what sets what it raises."""
    raised = list[BaseException]()

    def handle(number: int, frame: object) -> None:
        raise raised[-1]

    before = signal.signal(signal.SIGUSR2, handle)
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    yield raised.append
    signal.signal(signal.SIGUSR2, before)


@pytest.mark.parametrize("fault", [SystemExit(-1), RuntimeError("timed-out too many times")])
def test_exception_of_a_withdrawn_job_passes(fault: BaseException, warned: Callable[[BaseException], None]) -> None:
    warned(fault)
    caught = list[BaseException]()

    def run() -> None:
        try:
            signal.raise_signal(signal.SIGUSR2)
        except (Exception, SystemExit) as seen:  # as a job's failures are caught
            caught.append(seen)

    with pytest.raises(type(fault)) as ended:
        withdrawable()(run)()
    assert ended.value is fault
    assert caught == []


def test_what_a_job_itself_raises_is_its_own(warned: Callable[[BaseException], None]) -> None:
    handler = signal.getsignal(signal.SIGUSR2)
    with pytest.raises(SystemExit), withdrawable():
        raise SystemExit(3)
    assert signal.getsignal(signal.SIGUSR2) is handler
