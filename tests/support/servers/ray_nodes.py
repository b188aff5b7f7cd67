"""A real Ray cluster on this machine, in separate processes, whose nodes have separate folders.

    python ray_nodes.py '[{"RAGSWEEP_STORE": ...}, ...]'

Starts a node for each environment, prints the address, and ends when its standard input is closed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def main() -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    for environment in json.loads(sys.argv[1]):
        cluster.add_node(num_cpus=1, env_vars=environment, object_store_memory=100 * 2**20, include_dashboard=False)
    cluster.wait_for_nodes(120)
    print(cluster.address, flush=True)
    sys.stdin.read()
    cluster.shutdown()


@contextmanager
def ray_cluster(nodes: Sequence[Mapping[str, str]], environment: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Run a cluster with a node of one CPU for each of these environments; yield its address and its process."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__)), json.dumps(nodes)], env={**os.environ, **environment, **QUIET},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        lines = iter(process.stdout)
        address = next(line.strip() for line in lines if line.strip().rpartition(":")[2].isdigit())
        yield address, process.pid
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.stdout.close()


def workers(cluster: int, task: str = "_run_job") -> list[int]:
    """List the processes of a cluster that are running a task, by default a job of Hydra's launcher."""
    return [process for process, name in _below(cluster) if name.startswith(f"ray::{task}".encode())]


def cluster_nodes(cluster: int) -> list[int]:
    """List one process per node, the head's first."""
    return sorted(process for process, name in _below(cluster) if name.partition(b"\0")[0].endswith(b"/raylet"))


def below(process: int) -> list[int]:
    """List the descendants of a process."""
    return [child for child, _ in _below(process)]


def _below(top: int) -> list[tuple[int, bytes]]:
    """Return the descendants of a process, with their command lines."""
    parents, names = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                names[int(folder.name)] = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(folder.name)] = parent

    def is_below(process: int) -> bool:
        while process in parents and process != top:
            process = parents[process]
        return process == top

    return [(process, name) for process, name in names.items() if process != top and is_below(process)]


if __name__ == "__main__":
    main()
