"""Two nodes of a Ray cluster with separate folders: each stage of a sweep runs once, even if processes are killed."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ragsweep.stages.remote import open_remote
from support.commands import RUN, Ended, begin, ended, finish, printed, user_environment, write_twins
from support.servers.object_store import ObjectServer, object_server
from support.servers.postgresql_server import Database
from support.servers.ray_nodes import below, cluster_nodes, ray_cluster, workers

pytest.importorskip("hydra_plugins.hydra_ray_launcher")

__all__ = ["object_server"]

GRID = ["chunker.size=300,600", "retriever.alpha=0.1,0.3,0.5,0.6,0.7,0.9", "top_k=2,4"]
CONFIGS = 24
RAY = ["hydra/launcher=ray", "+hydra.launcher.ray.init.address=auto", "+hydra.launcher.ray.init.log_to_driver=false"]


@dataclass(frozen=True)
class Nodes:
    """A cluster of two nodes, and the folders of their stores."""

    address: str
    process: int
    folders: tuple[Path, ...]

    def forget(self) -> None:
        """Empty the nodes' stores, once their workers have ended."""
        end = time.monotonic() + 60
        while workers(self.process) and time.monotonic() < end:
            time.sleep(0.1)
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def two_nodes(folders: tuple[Path, ...], object_server: ObjectServer) -> Iterator[Nodes]:
    environment = {**user_environment(), **object_server.environment}
    with ray_cluster([{"RAGSWEEP_STORE": str(folder)} for folder in folders], environment) as (address, process):
        yield Nodes(address, process, folders)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, object_server: ObjectServer) -> Iterator[Nodes]:
    folders = tuple(tmp_path_factory.mktemp(name) / "store" for name in ("node", "node"))
    with two_nodes(folders, object_server) as made:
        yield made


def start(folder: Path, nodes: Nodes, *more: str) -> subprocess.Popen[bytes]:
    return begin(folder, "-m", *write_twins(folder), *GRID, *RAY, *more, RAY_ADDRESS=nodes.address)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The same sweep in one process, without a remote half."""
    folder = tmp_path_factory.mktemp("undisturbed")
    printed(folder, RUN, "-m", *write_twins(folder), *GRID, "tracking=none")
    return ended(folder)


@pytest.mark.nightly
def test_nodes_with_separate_folders_compute_each_stage_once_in_all(
    nodes: Nodes, undisturbed: Ended, object_server: ObjectServer, database: Database, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from mlflow import MlflowClient

    bucket, url = object_server.bucket(), database()
    monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", object_server.url)
    MlflowClient(url).create_experiment("shared", artifact_location=f"{bucket}/artifacts")
    tracking = [f"tracking.uri='{url}'", "tracking.experiment=shared"]
    finish(start(tmp_path, nodes, *tracking, f"store.remote={bucket}/store"), tmp_path)
    found = ended(tmp_path)
    assert len(found.scores) == CONFIGS
    assert found == undisturbed
    assert all((folder / "stages" / "store.db").exists() for folder in nodes.folders)  # both nodes worked
    assert not any((folder / "ledger.db").exists() for folder in nodes.folders)
    client = MlflowClient(url)
    runs = client.search_runs([client.get_experiment_by_name("shared").experiment_id], max_results=1000)
    kinds = Counter((run.data.tags["ragsweep.kind"], run.info.status) for run in runs)
    assert kinds == {("config", "FINISHED"): CONFIGS, ("sweep", "FINISHED"): 1}
    (parent,) = (run for run in runs if run.data.tags["ragsweep.kind"] == "sweep")
    assert parent.info.artifact_uri.startswith(f"{bucket}/artifacts")
    assert any(item.path == "rankings" for item in client.list_artifacts(parent.info.run_id))
    nodes.forget()


@pytest.mark.nightly
@pytest.mark.parametrize("moment", range(10))
def test_killed_worker_loses_nothing_and_every_config_ends_once(
    moment: int, nodes: Nodes, undisturbed: Ended, object_server: ObjectServer, tmp_path: Path
) -> None:
    bucket = object_server.bucket()
    remote, arguments = open_remote(bucket, pytest.fail), ["tracking=none", f"store.remote={bucket}"]
    assert remote is not None
    process = start(tmp_path, nodes, *arguments)
    # A lease for each job and each stage, about fifty: the moments are spread over the work, not over its start.
    while len(remote.names("leases/") or ()) < 1 + 5 * moment and process.poll() is None:
        time.sleep(0.02)
    victims = workers(nodes.process)
    assert victims
    os.kill(random.Random(moment).choice(victims), signal.SIGKILL)
    if process.wait(timeout=900) != 0:
        finish(start(tmp_path, nodes, *arguments), tmp_path)
    assert ended(tmp_path).scores == undisturbed.scores
    assert remote.names("outcomes/") == []  # each was recorded
    nodes.forget()


@pytest.mark.nightly
def test_node_that_dies_loses_nothing_and_the_other_ends_the_sweep(
    undisturbed: Ended, object_server: ObjectServer, tmp_path: Path
) -> None:
    bucket, command = object_server.bucket(), tmp_path / "command"
    remote, arguments = open_remote(bucket, pytest.fail), ["tracking=none", f"store.remote={bucket}"]
    assert remote is not None
    command.mkdir()
    with two_nodes((tmp_path / "head", tmp_path / "other"), object_server) as nodes:
        process = start(command, nodes, *arguments)
        while not node_works(nodes.process) or len(remote.names("leases/") or ()) < 15:
            assert process.poll() is None
            time.sleep(0.05)
        _, other = cluster_nodes(nodes.process)
        for member in (other, *below(other)):
            os.kill(member, signal.SIGKILL)
        if process.wait(timeout=900) != 0:
            finish(start(command, nodes, *arguments), command)
    assert ended(command).scores == undisturbed.scores
    assert remote.names("outcomes/") == []


def node_works(cluster: int) -> bool:
    """Return whether both nodes run a job."""
    nodes, running = cluster_nodes(cluster), set(workers(cluster))
    return all(running & set(below(node)) for node in nodes)
