"""A real SLURM on this machine: munged, slurmctld, and a slurmd for each node, on loopback and in a folder of its own.

Each node has one CPU and its own host name. The cluster needs root, and ``apt-get install slurm-wlm munge``. It has no
accounting, so ``sacct`` fails.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support import free_port, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "unshare")
NODES = ("node1", "node2")
CONF = """ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1
KillWait=2
MpiDefault=none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n/slurmd.pid
SlurmdLogFile={folder}/%n/slurmd.log
SlurmdSpoolDir={folder}/%n
MailProg=/bin/true
{nodes}
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=1"


@dataclass(frozen=True)
class Slurm:
    """A running cluster, and the environment variables that a command needs to use it."""

    environment: Mapping[str, str]

    def call(self, *command: str) -> str:
        """Call one of SLURM's commands and return what it prints."""
        return subprocess.run(
            command, env={**os.environ, **self.environment}, check=True, capture_output=True, text=True, timeout=60
        ).stdout

    def jobs(self, states: str = "PD,R,S,CG") -> dict[str, str]:
        """Return job number -> node for the jobs in the queue; "" for a job that waits."""
        listed = self.call("squeue", "--array", "--noheader", "--format=%i %N", f"--states={states}")
        return {job: "".join(node) for job, *node in map(str.split, listed.splitlines())}

    def processes(self, job: str) -> list[int]:
        """List the processes that run a job's task, without the processes that started them."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    words = (folder / "environ").read_bytes().split(b"\0")
                    name = (folder / "cmdline").read_bytes()
                except OSError:
                    continue
                number, _, place = job.partition("_")
                of_job = {f"SLURM_ARRAY_JOB_ID={number}".encode(), f"SLURM_ARRAY_TASK_ID={place}".encode()}
                if of_job <= set(words) and b"submitit.core._submit" in name and b"srun" not in name:
                    found.append(int(folder.name))
        return found

    def clear(self) -> None:
        """Cancel all jobs, and wait until they have ended."""
        self.call("scancel", "--user=root")
        wait_until(lambda: not self.jobs(), 60)


def why_not() -> str:
    """Return the reason why no cluster can run here; empty if one can."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"SLURM is not installed (apt-get install slurm-wlm munge): no {missing[0]}"
    if os.geteuid() != 0 or subprocess.run(["unshare", "--uts", "true"], check=False, capture_output=True).returncode:
        return "nodes with host names of their own need root"
    return ""


@contextmanager
def slurm_cluster() -> Iterator[Slurm]:
    """Run a cluster, and end all of its processes afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="slurm"))  # not in pytest's folder: the path of a socket must be short
    started: list[subprocess.Popen[bytes]] = []
    slurm = Slurm(_configure(folder))
    try:
        started.append(_start(folder, "munged", *_munge_options(folder / "munge")))
        wait_until((folder / "munge" / "socket").exists, 30)
        started.append(_start(folder, "slurmctld", "-D", **slurm.environment))
        for name in NODES:
            script = f"hostname {name} && exec slurmd -D -N {name}"
            started.append(_start(folder, "unshare", "--uts", "sh", "-c", script, **slurm.environment))
        wait_until(lambda: _idle(slurm) == len(NODES), 60)
        try:
            yield slurm
        finally:
            slurm.clear()
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(30)
            finally:
                process.kill()
        shutil.rmtree(folder)


def _configure(folder: Path) -> dict[str, str]:
    """Write the files of a cluster; return the environment variables that its programs need."""
    folder.chmod(0o755)
    for name in ("munge", "state", *NODES):
        (folder / name).mkdir(mode=0o711 if name == "munge" else 0o755)
    (folder / "munge" / "key").write_bytes(os.urandom(1024))
    (folder / "munge" / "key").chmod(0o400)
    port, *others = (free_port() for _ in range(1 + len(NODES)))
    nodes = "\n".join(NODE.format(name=name, port=other) for name, other in zip(NODES, others, strict=True))
    (folder / "slurm.conf").write_text(CONF.format(folder=folder, port=port, nodes=nodes, names=",".join(NODES)))
    return {"SLURM_CONF": str(folder / "slurm.conf")}


def _munge_options(folder: Path) -> list[str]:
    files = {"key": "key-file", "socket": "socket", "pid": "pid-file", "log": "log-file", "seed": "seed-file"}
    return ["--foreground", *(f"--{option}={folder / name}" for name, option in files.items())]


def _start(folder: Path, *command: str, **environment: str) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log, cwd="/")


def _idle(slurm: Slurm) -> int:
    try:
        return slurm.call("sinfo", "--noheader", "--Node", "--format=%T").split().count("idle")
    except subprocess.CalledProcessError:  # the controller does not answer yet
        return 0
