"""What is recorded comes back: the same contract on a SQLite database and on a real tracking server."""

import gzip
import json
import math
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from mlflow import MlflowClient

from ragsweep.core.errors import TrackingError
from ragsweep.core.results import PARTIAL, Artifacts, Failure, TargetResult
from ragsweep.parts.tracking import Mlflow, NoTracking, RunPlacement, Tracker
from ragsweep.parts.tracking.connection import Connection
from ragsweep.parts.tracking.database import absolute_uri, database_path, database_server, mask_uri
from ragsweep.parts.tracking.runs import EXPERIMENT_KIND
from support import free_port
from support.results import RANKED, a_result, summary
from support.servers.tracking_server import client, content, files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:sqlalchemy", "ignore:The ``noload``"),
]

NAN = math.nan
SOURCE = Path(__file__).parents[3] / "src"


@pytest.fixture(params=["sqlite", "server"])
def tracker(request: pytest.FixtureRequest) -> Mlflow:
    made = Mlflow(request.getfixturevalue(f"{request.param}_uri"), "an experiment")
    made.find({})  # creates tables and experiment
    return made


# --- the contract ---


def test_result_comes_back_as_child_of_its_sweep(tracker: Mlflow) -> None:
    parent = tracker.open_sweep("top_k=3,5", {"ragsweep.command": "run -m"})
    run = client(tracker).get_run(tracker.log_result(a_result(), RunPlacement(parent, "3"), RANKED))
    tracker.close_sweep(parent, "FINISHED", {"results.json": b"{}", "plots/a.png": b"png"}, {"best": 1.0, "bad": NAN})

    assert run.info.run_name == "top_k=3"
    assert run.info.status == "FINISHED"
    assert (run.info.start_time, run.info.end_time) == (1_700_000_000_500, 1_700_000_002_250)
    tags = {name: value for name, value in run.data.tags.items() if name.startswith("ragsweep.")}
    assert tags == {
        "ragsweep.kind": "config", "ragsweep.signature": "5" * 64, "ragsweep.job": "3", "ragsweep.targets": "0 of 1 met"
    }  # fmt: skip
    assert run.data.tags["mlflow.parentRunId"] == parent
    assert run.data.params == {"top_k": "3", "retriever.legs.a_b": "", "prompt": "short"}

    over = client(tracker).get_run(parent)
    assert over.info.status == "FINISHED"
    assert over.info.run_name == "top_k=3,5"
    assert over.info.experiment_id == run.info.experiment_id
    assert client(tracker).get_experiment(run.info.experiment_id).name == "an experiment"
    assert over.data.tags["ragsweep.kind"] == "sweep"
    assert over.data.tags["ragsweep.command"] == "run -m"
    assert over.data.params == {}
    assert over.data.metrics == {"best": 1.0}
    assert files(tracker, parent) == {"results.json", "plots", "rankings"}
    assert content(tracker, parent, "plots/a.png") == b"png"


def test_every_number_comes_back_and_nan_is_not_sent(tracker: Mlflow) -> None:
    result = a_result()
    objective = a_result(config={**result.run.config, "objective": "ndcg_at_10"})
    sent = client(tracker).get_run(tracker.log_result(objective)).data.metrics
    assert sent == {
        "ndcg_at_10": 0.5, "ndcg_at_10_low": 0.25, "ndcg_at_10_high": 0.75, "ndcg_at_10_n_failed": 1.0
    }  # fmt: skip


def test_golden_set_is_a_dataset_input_with_its_digest(tracker: Mlflow) -> None:
    (given,) = client(tracker).get_run(tracker.log_result(a_result())).inputs.dataset_inputs
    assert given.dataset.name == "python"
    assert given.dataset.digest == "012345678901234567890123456789012345"
    assert json.loads(given.dataset.source)["golden_digest"] == "0123456789" * 6 + "abcd"
    assert json.loads(given.dataset.profile) == {
        "documents": 79, "questions": 4, "with_evidence": 3, "unanswerable": 1, "left_out": {"no label": 2}
    }  # fmt: skip
    assert {tag.key: tag.value for tag in given.tags}["corpus_digest"] == "c" * 64


def test_run_without_parent_holds_config_outcomes_and_ranking(tracker: Mlflow) -> None:
    import io

    import yaml
    from pyarrow import parquet

    run = tracker.log_result(a_result(), artifacts=RANKED)
    assert files(tracker, run) == {"config.yaml", "outcomes.parquet", "rankings"}
    assert gzip.decompress(content(tracker, run, "rankings/ab12ab12ab12.trec.gz")) == b"a Q0 x 1 1.5 top_k=3\n"
    config = yaml.safe_load(content(tracker, run, "config.yaml"))
    assert config == {"top_k": 3, "retriever": {"legs": ["bm25", "vector"]}, "name": "é"}
    table = parquet.read_table(io.BytesIO(content(tracker, run, "outcomes.parquet")))
    assert table.schema.metadata[b"format"] == b"ragsweep.outcomes/1"
    rows = table.to_pydict()
    assert rows["question_id"] == ["a", "b"]
    assert rows["mrr"][0] == 0.5
    assert math.isnan(rows["mrr"][1])
    assert rows["context"] == [["x:0-5"], []]
    assert rows["mixed"] == ["1", "one"]


def test_siblings_share_one_copy_of_a_ranking_in_the_parent(tracker: Mlflow) -> None:
    parent = tracker.open_sweep("sweep", {})
    ranked = Artifacts(RANKED.rankings, {"ab12" * 16: "a 0 x 1\n"})
    first = tracker.log_result(a_result(), RunPlacement(parent, "3"), ranked)
    again = Artifacts({"ab12" * 16: "not written again", "cd34" * 16: "other"})
    tracker.log_result(a_result(name="top_k=5"), RunPlacement(parent, "5"), again)
    tracker.close_sweep(parent, "KILLED", {}, {})
    assert files(tracker, first) == {"config.yaml", "outcomes.parquet"}
    names = {f"rankings/{name}" for name in ("ab12ab12ab12.trec.gz", "ab12ab12ab12.qrels", "cd34cd34cd34.trec.gz")}
    assert files(tracker, parent, "rankings") == names
    assert content(tracker, parent, "rankings/ab12ab12ab12.qrels") == b"a 0 x 1\n"
    assert gzip.decompress(content(tracker, parent, "rankings/ab12ab12ab12.trec.gz")) == b"a Q0 x 1 1.5 top_k=3\n"
    assert client(tracker).get_run(parent).info.status == "KILLED"


def test_long_value_is_a_hash_and_stands_in_full_in_an_artifact(tracker: Mlflow) -> None:
    run = tracker.log_result(a_result(parameters={"short": "x" * 6_000, "long": "é" * 6_001}))
    sent = client(tracker).get_run(run).data.params
    assert sent["short"] == "x" * 6_000
    assert sent["long"].startswith("sha256:")
    assert len(sent["long"]) == 71
    assert json.loads(content(tracker, run, "long_parameters.json")) == {"long": "é" * 6_001}


def test_failure_is_a_failed_run_with_error_and_traceback(tracker: Mlflow) -> None:
    parent = tracker.open_sweep("sweep", {})
    failure = Failure("top_k=0", ("top_k=0",), {"top_k": "0"}, "boom " * 2_000, "Traceback: line\nboom", 1.0, 2.0)
    made = tracker.log_failure(failure, RunPlacement(parent, "0"))
    tracker.close_sweep(parent, "FAILED", {}, {}, {"mlflow.note.content": "much " * 2_000})
    run = client(tracker).get_run(made)
    assert run.info.status == "FAILED"
    assert run.info.end_time == 2_000
    assert run.data.tags["ragsweep.kind"] == "config"
    shown, _, cut = run.data.tags["ragsweep.error"].partition(" ... ")
    assert ("boom " * 2_000).startswith(shown)
    assert (len(shown) > 4_900, cut) == (True, "(whole in long_tags.json)")
    assert json.loads(content(tracker, made, "long_tags.json")) == {"ragsweep.error": "boom " * 2_000}
    assert run.data.tags["mlflow.parentRunId"] == parent
    assert run.data.params == {"top_k": "0"}
    assert content(tracker, made, "traceback.txt") == b"Traceback: line\nboom"
    whole = client(tracker).get_run(parent)
    assert whole.info.status == "FAILED"
    assert whole.data.tags["mlflow.note.content"].endswith("(whole in long_tags.json)")
    assert json.loads(content(tracker, parent, "long_tags.json")) == {"mlflow.note.content": "much " * 2_000}


def test_partial_result_is_a_failed_run_until_it_is_completed(tracker: Mlflow) -> None:
    partial = replace(summary("mrr"), coverage=0.75)
    run = tracker.log_result(a_result(state=PARTIAL, metrics={"mrr": partial}))
    found = client(tracker).get_run(run)
    assert (found.info.status, found.data.tags["ragsweep.state"]) == ("FAILED", "partial")
    tracker.log_result(a_result(), RunPlacement(adopt=run))
    found = client(tracker).get_run(run)
    assert found.info.status == "FINISHED"
    assert "ragsweep.state" not in found.data.tags


def test_no_failed_measurement_of_an_earlier_attempt_is_left(tracker: Mlflow) -> None:
    metrics = {"mrr": replace(summary("mrr"), coverage=0.75), "map": summary("map", scored=3)}
    config = {**a_result().run.config, "objective": "mrr"}
    target = TargetResult("mrr", "pass", 0.5, 0.4)
    run = tracker.log_result(a_result(state=PARTIAL, metrics=metrics, config=config, targets=(target,)))
    before = client(tracker).get_run(run).data
    assert (before.metrics["mrr_n_failed"], before.tags["ragsweep.targets"]) == (1, "1 of 1 met")
    tracker.log_failure(Failure("a", (), {}, "boom"), RunPlacement(adopt=run))
    assert "ragsweep.targets" not in client(tracker).get_run(run).data.tags
    tracker.log_result(a_result(metrics={"mrr": summary("mrr", scored=3)}, config=config), RunPlacement(adopt=run))
    assert client(tracker).get_run(run).data.metrics["mrr_n_failed"] == 0


def test_two_processes_may_reopen_a_run_at_once(tracker: Mlflow, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one deletes a tag of the earlier outcome after this one has read it."""
    run = tracker.open_sweep("s", {})
    tracker.tag(run, {"ragsweep.stopped": "patience"})
    read = MlflowClient.get_run

    def read_before_the_other(found: MlflowClient, run_id: str) -> object:
        before = read(found, run_id)
        if "ragsweep.stopped" in before.data.tags:
            found.delete_tag(run_id, "ragsweep.stopped")
        return before

    monkeypatch.setattr(MlflowClient, "get_run", read_before_the_other)
    assert tracker.open_sweep("s", {}, run) == run
    assert "ragsweep.stopped" not in read(client(tracker), run).data.tags


def test_adopted_run_becomes_the_parent_and_children_follow_it_into_its_experiment(tracker: Mlflow) -> None:
    from mlflow.entities import Param

    mlflow, path = client(tracker), database_path(tracker.uri)
    elsewhere = mlflow.create_experiment("somebody else's", (path.parent / "theirs").as_uri() if path else None)
    theirs = mlflow.create_run(elsewhere).info.run_id
    mlflow.log_batch(theirs, params=[Param("top_k", "given by mlflow run")])
    assert tracker.open_sweep("a sweep", {}, adopt=theirs) == theirs
    child = mlflow.get_run(tracker.log_result(a_result(), RunPlacement(theirs, "3")))
    tracker.close_sweep(theirs, "FINISHED", {}, {})
    assert child.info.experiment_id == elsewhere
    adopted = mlflow.get_run(theirs)
    assert adopted.info.run_name == "a sweep"
    assert adopted.data.tags["ragsweep.kind"] == "sweep"
    assert adopted.data.params == {"top_k": "given by mlflow run"}
    tracker.log_result(a_result(parameters={"top_k": "3", "seed": "0"}), RunPlacement(adopt=theirs))
    assert mlflow.get_run(theirs).data.params == {"top_k": "given by mlflow run", "seed": "0"}


def test_run_whose_recording_breaks_ends_failed_and_names_the_place(tracker: Mlflow) -> None:
    parent = tracker.open_sweep("sweep", {})
    broken = a_result(name="broken", questions={"a": [1], "b": [1, 2]})
    with pytest.raises(ValueError, match="expected length 1"):
        tracker.log_result(broken, RunPlacement(parent, "0"), Artifacts({"../x": "text"}))
    query = f"tags.`mlflow.parentRunId` = '{parent}'"
    (run,) = client(tracker).search_runs([client(tracker).get_run(parent).info.experiment_id], query)
    assert run.info.status == "FAILED"
    with pytest.raises(TrackingError, match=tracker.uri):
        tracker.log_artifacts("0" * 32, {"a": b"b"})


def test_tracker_works_after_travelling_to_another_process(tracker: Mlflow) -> None:
    run = pickle.loads(pickle.dumps(tracker)).log_result(a_result())
    assert client(tracker).get_run(run).info.status == "FINISHED"


# --- places ---


def record(tracker: Mlflow) -> None:
    tracker.open_sweep("sweep", {})


refused = pytest.mark.parametrize("begin", [Mlflow.check, record])
"""Whichever of the two methods is called first must reject unusable settings."""


def test_view_command_names_command_or_server(server_uri: str, cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert Mlflow().view_command() == "mlflow ui"
    assert Mlflow("sqlite:///a b.db").view_command() == f"mlflow ui --backend-store-uri 'sqlite:///{cwd}/a b.db'"
    monkeypatch.setenv("PATH", "/nowhere")  # the environment is not activated
    assert Mlflow().view_command() == f"{Path(sys.executable).parent / 'mlflow'} ui"
    server = Mlflow(server_uri)
    record(server)
    identifier = client(server).get_experiment_by_name("ragsweep").experiment_id
    assert server.view_command() == f"{server_uri}/#/experiments/{identifier}?workflowType=machine_learning"
    assert server.address("abc") == f"{server_uri}/#/experiments/{identifier}/runs/abc"
    assert Mlflow("sqlite:///a b.db").address("abc") == ""  # nothing is recorded there yet


def test_address_of_a_sweep_names_the_experiment_of_its_run(tracker: Mlflow) -> None:
    parent = tracker.open_sweep("sweep", {})
    former = client(tracker).get_run(parent).info.experiment_id
    client(tracker).rename_experiment(former, "archive")
    continuing = Mlflow(tracker.uri)
    Connection.to.cache_clear()  # as in a new process
    continuing.log_result(a_result(), RunPlacement(parent, "0"))
    continuing.open_sweep("another", {})
    assert continuing.address(parent).endswith(f"/experiments/{former}/runs/{parent}")


def test_view_command_names_the_database_if_mlflow_would_open_another_store(
    cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    whole = f"mlflow ui --backend-store-uri sqlite:///{cwd}/mlflow.db"
    (cwd / "mlruns" / "1").mkdir(parents=True)  # the artifacts of an experiment in the database
    assert Mlflow().view_command() == "mlflow ui"
    (cwd / "mlruns" / "0").mkdir()
    (cwd / "mlruns" / "0" / "meta.yaml").touch()  # an experiment that an earlier MLflow stored in files
    assert Mlflow().view_command() == whole
    (cwd / "mlruns" / "0" / "meta.yaml").unlink()
    monkeypatch.setenv("MLFLOW_BACKEND_STORE_URI", "sqlite:///other.db")
    assert Mlflow().view_command() == whole


def test_default_place_is_the_environment_then_the_current_folder(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Mlflow().uri == f"sqlite:///{cwd}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///other.db")
    assert Mlflow().uri == f"sqlite:///{cwd}/other.db"
    assert Mlflow("http://host:5000").uri == "http://host:5000"


@pytest.mark.parametrize("name", ["with space 100%41 é.db"])
def test_database_stands_where_the_uri_says_with_artifacts_beside_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "new folder" / name
    uri = absolute_uri(f"sqlite:///{str(path).replace('%', '%25')}")
    assert absolute_uri(uri) == uri
    assert database_path(uri) == path
    tracker = Mlflow(uri)
    run = tracker.log_result(a_result())
    assert path.is_file()
    assert (path.parent / "mlruns" / run / "artifacts" / "config.yaml").is_file()


COLD = """
import sys
from ragsweep.parts.tracking import Mlflow
sys.stdin.read()
tracker = Mlflow(sys.argv[1])
tracker.check()
assert "mlflow" not in sys.modules
print(tracker.open_sweep("cold", {}))
"""


def test_a_moved_database_is_reported_with_its_old_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    for folder, messages in ((old, 0), (old, 0), (new, 1)):
        if folder is new:
            old.rename(new)
        record(Mlflow(f"sqlite:///{folder / 'mlflow.db'}"))
        reported = [one for one in caplog.messages if f"still has its files in {old / 'mlruns'}, not in" in one]
        assert len(reported) == messages


def test_the_artifact_root_of_a_server_is_not_taken_for_the_old_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The database of a server is used without the server."""
    uri, root = f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path / "root" / "mlruns"
    MlflowClient(uri).create_experiment("ragsweep", (root / "1").as_uri(), dict([EXPERIMENT_KIND]))
    record(Mlflow(uri))
    assert not [one for one in caplog.messages if "was moved" in one]


@pytest.mark.nightly
def test_processes_starting_at_once_on_nothing_all_record(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    started = [
        subprocess.Popen([sys.executable, "-c", COLD, uri], env=environment, stdin=-1, stdout=-1, stderr=-1, text=True)
        for _ in range(2)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.close()  # all are let go together
        process.stdin = None
    ended = [(*process.communicate(timeout=300), process.returncode) for process in started]
    assert [(code, said) for _, said, code in ended] == [(0, "")] * 2, "a process failed, or said what no user needs"
    tracker = Mlflow(uri)
    runs = client(tracker).search_runs([client(tracker).get_experiment_by_name("ragsweep").experiment_id])
    assert {run.info.run_id for run in runs} == {out.strip() for out, _, _ in ended}


KILLED_MEANWHILE = """
import os, signal, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
from ragsweep.parts.tracking import Mlflow
altered = []

@event.listens_for(Engine, "before_cursor_execute")
def count(connection, cursor, statement, *more):
    altered.extend([1] if "ALTER TABLE" in statement else [])
    if len(altered) == 12:
        os.kill(os.getpid(), signal.SIGKILL)

Mlflow(sys.argv[1]).open_sweep("sweep", {})
"""


@pytest.mark.nightly
def test_process_killed_while_it_makes_the_tables_leaves_none_of_them(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    done = subprocess.run([sys.executable, "-c", KILLED_MEANWHILE, uri], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    tracker = Mlflow(uri)
    tracker.check()
    run = tracker.log_result(a_result())
    assert client(tracker).get_run(run).info.status == "FINISHED"
    assert {path.name for path in tmp_path.glob("mlflow.db*")}.isdisjoint({"mlflow.db.new", "mlflow.db.new-journal"})


def test_tables_of_another_version_of_mlflow_are_refused_with_the_way_out(sqlite_uri: str, tmp_path: Path) -> None:
    record(Mlflow(sqlite_uri))
    other = tmp_path / "mlflow.db"
    with sqlite3.connect(str(database_path(sqlite_uri))) as source, sqlite3.connect(other) as copy:
        source.backup(copy)
        copy.execute("UPDATE alembic_version SET version_num = 'fffffffffff1'")
    with pytest.raises(TrackingError, match=r"fffffffffff1.*mlflow db upgrade"):
        record(Mlflow(f"sqlite:///{other}"))


@refused
def test_database_of_another_program_is_refused_and_left_alone(tmp_path: Path, begin: Callable[[Mlflow], None]) -> None:
    path = tmp_path / "optuna.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE studies (id)")
        connection.execute("CREATE TABLE alembic_version (version_num)")
    with pytest.raises(TrackingError, match=r"optuna\.db contains tables of another program .*studies"):
        begin(Mlflow(f"sqlite:///{path}"))
    with sqlite3.connect(path) as connection:
        assert {name for (name,) in connection.execute("SELECT name FROM sqlite_master")} == {
            "studies",
            "alembic_version",
        }


@refused
def test_place_that_cannot_be_written_is_said_at_once(tmp_path: Path, begin: Callable[[Mlflow], None]) -> None:
    (tmp_path / "file").write_text("no database")
    (tmp_path / "mlruns").write_text("no folder")
    for uri in (f"sqlite:///{tmp_path}/file/mlflow.db", f"sqlite:///{tmp_path}", f"sqlite:///{tmp_path}/file",
                f"sqlite:///{tmp_path}/mlflow.db"):  # fmt: skip
        begun = time.monotonic()
        with pytest.raises(TrackingError, match="check that the database is writable, correct") as told:
            begin(Mlflow(uri))
        assert str(told.value).startswith(uri)
        assert "\n" not in str(told.value)
        assert time.monotonic() - begun < 60


def test_locked_database_is_not_called_an_absent_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.parts.tracking.database.LOCK_SECONDS", 0.1)
    with (
        FileLock(tmp_path / "mlflow.db.lock"),
        pytest.raises(TrackingError, match=r"lock.* could not be acquired; check that the database is writable"),
    ):
        Mlflow(f"sqlite:///{tmp_path}/mlflow.db").find({})


def test_folder_of_an_older_mlflow_is_migrated_by_the_shown_command(tmp_path: Path) -> None:
    (tmp_path / "my runs").mkdir()
    with pytest.raises(TrackingError, match=r"migrate-filestore --source '.*my runs' --target sqlite:///NEW\.db`"):
        Mlflow(str(tmp_path / "my runs")).check()


@refused
@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("./mlruns", r"no longer opens by default; set .*sqlite:///mlflow\.db"),
        ("file:///tmp/mlruns", r"no longer opens by default.*sqlite:///"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("mlflow://host", "MLflow has no store for mlflow://; set tracking.uri"),
    ],
)
def test_place_that_keeps_nothing_is_refused(uri: str, message: str, begin: Callable[[Mlflow], None]) -> None:
    with pytest.raises(TrackingError, match=message):
        begin(Mlflow(uri))


def test_deleted_experiment_is_reported_with_the_way_out(tracker: Mlflow) -> None:
    deleted = client(tracker).create_experiment("deleted")
    client(tracker).delete_experiment(deleted)
    with pytest.raises(TrackingError, match=rf"was deleted.*mlflow experiments restore -x {deleted}"):
        record(Mlflow(tracker.uri, "deleted"))


@refused
def test_absent_server_is_said_soon_and_its_password_is_not(begin: Callable[[Mlflow], None]) -> None:
    uri = f"http://me:geheim@127.0.0.1:{free_port()}"
    begun = time.monotonic()
    with pytest.raises(TrackingError, match="no MLflow server answers") as told:
        begin(Mlflow(uri))
    assert time.monotonic() - begun < 20
    assert "geheim" not in str(told.value)
    assert told.value.__cause__ is None
    assert "geheim" not in Mlflow(uri).view_command()


def test_absent_database_server_is_said_without_the_retries_of_mlflow() -> None:
    uri = f"postgresql+psycopg://me:geheim@127.0.0.1:{free_port()}/runs"
    with pytest.raises(TrackingError, match="no database server answers") as told:
        Mlflow(uri).check()
    assert "geheim" not in str(told.value)


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("postgresql://me:ge%40heim@host/db", ("host", 5432)),
        ("mysql+pymysql://me@host:3333/db", ("host", 3333)),
        ("postgresql:///db?host=/run/postgresql", None),
        ("sqlite:////tmp/mlflow.db", None),
        ("http://host:5000", None),
    ],
)
def test_place_of_a_database_server(uri: str, place: tuple[str, int] | None) -> None:
    assert database_server(uri) == place


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://me:geheim@host:5000/a", "http://***@host:5000/a"),
        ("postgresql+psycopg2://me:ge@heim@host/db?sslpassword=x&a=b", "postgresql+psycopg2://***@host/db?sslpassword=***&a=b"),
        ("sqlite:////home/a@b/mlflow.db", "sqlite:////home/a@b/mlflow.db"),
        ("http://host:5000", "http://host:5000"),
    ],
)  # fmt: skip
def test_masked_uri_shows_no_secret(uri: str, shown: str) -> None:
    assert mask_uri(uri) == shown


def test_no_tracking_records_nothing_and_keeps_the_id(cwd: Path) -> None:
    tracker: Tracker = NoTracking()
    assert tracker.view_command() == ""
    tracker.check()
    assert tracker.open_sweep("sweep", {}, "given") == "given"
    assert tracker.log_result(a_result(), RunPlacement(adopt="given")) == "given"
    assert tracker.log_failure(Failure("a", (), {}, "boom")) == ""
    tracker.close_sweep("", "FINISHED", {"a": b"b"}, {})
    tracker.log_artifacts("", {"a": b"b"})
    assert list(cwd.iterdir()) == []
