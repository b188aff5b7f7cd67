"""Two nodes of a SLURM cluster with separate folders: one sweep in which each stage runs once, even if jobs are killed.

By night, as root, with ``apt-get install slurm-wlm munge``; without them it is skipped.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragsweep.stages.remote import Remote, open_remote
from support import wait_until
from support.commands import RUN, Ended, begin, ended, finish, printed, write_twins
from support.servers.object_store import ObjectServer, object_server
from support.servers.slurm_cluster import NODES, Slurm, slurm_cluster, why_not

pytest.importorskip("hydra_plugins.hydra_submitit_launcher")

__all__ = ["object_server"]

GRID = ["chunker.size=300,600", "retriever.alpha=0.1,0.5,0.6,0.9", "tracking=none"]
CONFIGS = 8
SLURM = ["hydra/launcher=submitit_slurm", "hydra.launcher.timeout_min=60", "hydra.launcher.max_num_timeout=2"]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    if reason := why_not():
        pytest.skip(reason)
    with slurm_cluster() as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The same sweep in one process, without a remote half."""
    folder = tmp_path_factory.mktemp("undisturbed")
    printed(folder, RUN, "-m", *write_twins(folder), *GRID)
    return ended(folder)


class Swept:
    """A command in a folder of its own, the remote half of its store, and the stores of the nodes."""

    def __init__(self, folder: Path, slurm: Slurm, url: str) -> None:
        remote = open_remote(url, pytest.fail)
        assert remote is not None
        self.remote: Remote = remote
        self.slurm, self.folder, self.nodes = slurm, folder / "command", folder / "nodes"
        self._more = [f"store.remote={url}", f"store.worker_path='{self.nodes}/${{oc.env:SLURMD_NODENAME,command}}'"]
        self.started: list[subprocess.Popen[bytes]] = []
        self.folder.mkdir()

    def start(self) -> subprocess.Popen[bytes]:
        more = [*GRID, *SLURM, *self._more]
        self.started.append(begin(self.folder, "-m", *write_twins(self.folder), *more, **self.slurm.environment))
        return self.started[-1]

    def work(self) -> tuple[subprocess.Popen[bytes], str]:
        """Start the command and wait until both nodes work at a job; return it, and one of the jobs."""
        process = self.start()
        wait_until(lambda: len(self.remote.names("leases/") or ()) > 5 and len(self.slurm.jobs("R")) == 2, 120)
        return process, min(self.slurm.jobs("R"))

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        finish(process, self.folder)
        assert self.remote.names("outcomes/") == []  # each was recorded
        wait_until(lambda: not self.slurm.jobs(), 60)  # SLURM lists a job until it has cleaned up after it
        assert [path.name for path in self.nodes.glob("*/ledger.db")] == []


@pytest.fixture
def swept(slurm: Slurm, object_server: ObjectServer, tmp_path: Path) -> Iterator[Swept]:
    made = Swept(tmp_path, slurm, object_server.bucket())
    yield made
    for process in made.started:  # of a test that has failed
        process.kill()
        process.wait()
    slurm.clear()


@pytest.mark.nightly
def test_nodes_with_separate_folders_compute_each_stage_once_in_all(swept: Swept, undisturbed: Ended) -> None:
    swept.finish(swept.start())
    found = ended(swept.folder)
    assert len(found.scores) == CONFIGS
    assert found == undisturbed
    assert {path.parents[1].name for path in swept.nodes.glob("*/stages/store.db")} == set(NODES)  # both worked
    assert "sacct" not in (swept.folder / "log.txt").read_text()


def kill(slurm: Slurm, job: str) -> None:
    (process,) = slurm.processes(job)
    os.kill(process, signal.SIGKILL)


def cancel(slurm: Slurm, job: str) -> None:
    slurm.call("scancel", job)


def preempt(slurm: Slurm, job: str) -> None:
    """Send what SLURM sends first; submitit queues the job again, and SLURM starts it after a minute or two."""
    (process,) = slurm.processes(job)
    os.kill(process, signal.SIGUSR2)
    wait_until(lambda: slurm.jobs().get(job) == "", 60)


@pytest.mark.nightly
@pytest.mark.parametrize("end", [kill, cancel, preempt])
def test_job_that_is_ended_is_run_again_and_nothing_is_lost(
    end: Callable[[Slurm, str], None], swept: Swept, undisturbed: Ended
) -> None:
    process, job = swept.work()
    end(swept.slurm, job)
    swept.finish(process)
    assert ended(swept.folder).scores == undisturbed.scores


@pytest.mark.nightly
def test_command_that_is_killed_is_continued_while_its_jobs_still_run(swept: Swept, undisturbed: Ended) -> None:
    process, _ = swept.work()
    process.kill()
    process.wait()
    assert swept.slurm.jobs()
    swept.finish(swept.start())
    assert ended(swept.folder).scores == undisturbed.scores


@pytest.mark.nightly
def test_command_that_is_interrupted_leaves_no_job_in_the_queue(swept: Swept, undisturbed: Ended) -> None:
    process, _ = swept.work()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    wait_until(lambda: not swept.slurm.jobs(), 60)
    swept.finish(swept.start())
    assert ended(swept.folder).scores == undisturbed.scores
