"""Artifacts outside the tracking database, in an object store that MLflow reaches with a further library."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ragsweep.core.errors import TrackingError
from ragsweep.core.results import Artifacts
from ragsweep.parts.tracking import Mlflow, contents, files
from ragsweep.parts.tracking.connection import Connection, OpenRun
from support.commands import add_tables
from support.results import a_result

STORED = OpenRun("run", "0", "s3://bucket/run")


class NoCredentialsError(Exception):
    """An error of boto3, which is neither MLflow's nor an OSError."""


def write(connection: Connection) -> None:
    files.write(STORED.artifacts, {"a": b"b"}, connection.uri)


def add_rankings(connection: Connection) -> None:
    with contents.log_rankings(connection, STORED, Artifacts(rankings={"ab12": "a Q0 x 1 1.5 top_k=3\n"})):
        pass


@pytest.mark.parametrize("act", [write, add_rankings])
@pytest.mark.parametrize("fault", [NoCredentialsError("no\ncredentials"), ModuleNotFoundError("no\nboto3")])
def test_error_of_the_library_of_an_artifact_store_is_one_of_the_tracker(
    fault: Exception, act: Callable[[Connection], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would end the whole sweep instead of leaving a run to `ragsweep sync`."""

    def refuse(*_: str) -> None:
        raise fault

    add_tables(tmp_path)
    tracker = Mlflow(f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setattr(files, "_repository", refuse)
    connection = Connection.to(tracker.uri)
    with (
        pytest.raises(TrackingError, match=rf"s3://bucket/run: {type(fault).__name__}: no; ") as told,
        connection.opened(),
    ):
        act(connection)
    assert "install" in str(told.value)


def test_a_run_keeps_its_values_if_its_rankings_cannot_be_listed(tmp_path: Path) -> None:
    add_tables(tmp_path)
    tracker = Mlflow(f"sqlite:///{tmp_path}/mlflow.db")
    client = Connection.to(tracker.uri).client
    client.create_experiment("ragsweep", "nowhere://bucket")
    with pytest.raises(TrackingError, match="nowhere"):
        tracker.log_result(a_result(), artifacts=Artifacts(rankings={"ab12": "a Q0 x 1 1.5 top_k=3\n"}))
    (run,) = client.search_runs([client.get_experiment_by_name("ragsweep").experiment_id])
    assert run.data.metrics
