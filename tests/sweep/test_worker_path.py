"""Jobs that a launcher runs in processes of their own use the folder that is named for them."""

import importlib.util
from pathlib import Path

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.records.ledger import Ledger
from ragsweep.report.terminal import Terminal
from ragsweep.sweep.running.session import open_session
from support.commands import RUN, printed, write_dataset

pytestmark = pytest.mark.slow


needs_joblib = pytest.mark.skipif(
    importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher") is None, reason="no joblib"
)


@needs_joblib
def test_relative_paths_refer_to_the_commands_folder_where_each_job_has_its_own(tmp_path: Path) -> None:
    dataset = [line.replace(f"{tmp_path}/", "") for line in write_dataset(tmp_path)]
    assert not any(str(tmp_path) in line for line in dataset)
    printed(tmp_path, RUN, "-m", *dataset, "hydra/launcher=joblib", "top_k=1,2", "hydra.job.chdir=true")
    assert [path.parent for path in tmp_path.rglob("ledger.db")] == [tmp_path / ".ragsweep"]
    assert [path.parent for path in tmp_path.rglob("mlflow.db")] == [tmp_path]


@needs_joblib
def test_jobs_keep_stages_in_the_folder_for_workers_and_the_command_keeps_the_records(tmp_path: Path) -> None:
    more = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "top_k=1,2", "tracking=none"]
    store = [f"store.remote=file://{tmp_path}/objects", "store.worker_path='workers/${oc.env:ITS_NAME}'"]
    printed(tmp_path, RUN, "-m", *write_dataset(tmp_path), *more, *store, ITS_NAME="one")
    assert [path.name for path in (tmp_path / "workers" / "one").iterdir()] == ["stages"]
    assert [path for path in (tmp_path / ".ragsweep" / "stages" / "whole").rglob("*") if path.is_file()] == []
    ledger = Ledger(tmp_path / ".ragsweep")
    (sweep,) = ledger.sweeps()
    assert len(ledger.records(sweep.id)) == 2


@pytest.mark.parametrize(
    ("value", "remote", "message"),
    [
        (7, "file:///objects", "store.worker_path: must be a folder, got 7"),
        ("", "file:///objects", "store.worker_path: must be a folder, got ''"),
        ("/tmp/workers", None, "store.worker_path: needs store.remote"),
    ],
)
def test_unusable_folder_is_one_sentence(value: object, remote: str | None, message: str, tmp_path: Path) -> None:
    store = {"path": str(tmp_path), "stages": True, "remote": remote, "worker_path": value}
    with pytest.raises(ConfigError, match=message):
        open_session({"store": store}, Terminal.current(plain=True))
