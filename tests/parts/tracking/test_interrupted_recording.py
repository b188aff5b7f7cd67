"""Recordings interrupted by kills, exits and outages: repeating one completes it and doubles nothing."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import pytest

from ragsweep.core.errors import TrackingError
from ragsweep.core.results import Artifacts, Failure
from ragsweep.parts.tracking import Child, Mlflow, RunPlacement, contents
from ragsweep.parts.tracking import client as tracking_client
from ragsweep.parts.tracking import files as artifacts
from ragsweep.parts.tracking.database import local_folder as local
from support.results import RANKED, a_result, summary
from support.servers import forked
from support.servers.tracking_server import QUIET, client, content, files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:sqlalchemy", "ignore:The ``noload``"),
]

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, **QUIET, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"}


@pytest.fixture(scope="module")
def tracker(sqlite_uri: str) -> Mlflow:
    return Mlflow(sqlite_uri, "interrupted")


def sweep(tracker: Mlflow, adopt: str | None = None) -> str:
    return tracker.open_sweep("sweep", {}, adopt)


def below(tracker: Mlflow, parent: str) -> list[Any]:
    experiment = client(tracker).get_run(parent).info.experiment_id
    return list(client(tracker).search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent}'"))


def seen(tracker: Mlflow, parent: str, run: Any) -> dict[str, Any]:
    """Everything of a run that must be the same however it came about; histories show every point ever written."""
    own = {"mlflow.parentRunId"}
    return {
        "info": (run.info.run_name, run.info.status, run.info.start_time, run.info.end_time),
        "tags": {key: value for key, value in run.data.tags.items() if key not in own},
        "params": run.data.params,
        "points": {
            key: [point.value for point in client(tracker).get_metric_history(run.info.run_id, key)]
            for key in run.data.metrics
        },
        "inputs": [(one.dataset.digest, sorted(tag.key for tag in one.tags)) for one in run.inputs.dataset_inputs],
        "files": kept(tracker, run),
        "rankings": kept(tracker, client(tracker).get_run(parent), "rankings"),
    }


def kept(tracker: Mlflow, run: Any, folder: str | None = None) -> dict[str, bytes]:
    """The files of a run; in a local folder also those that MLflow would not list."""
    place = local(run.info.artifact_uri)
    if not place:
        return {name: content(tracker, run.info.run_id, name) for name in files(tracker, run.info.run_id, folder)}
    found = (path for path in (place / (folder or "")).rglob("*") if path.is_file())
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in found}


def complete(tracker: Mlflow, parent: str) -> dict[str, Any]:
    """Do what a resume does for job 0, and return what MLflow then shows of it."""
    left = tracker.children(parent, ["0"]).get("0")
    tracker.log_result(a_result(), RunPlacement(parent, "0", left.run_id if left else None), RANKED)
    tracker.end_abandoned(parent)
    finished = [run for run in below(tracker, parent) if run.info.status == "FINISHED"]
    assert {run.info.status for run in below(tracker, parent)} <= {"FINISHED", "KILLED"}
    assert len(finished) == 1
    return seen(tracker, parent, finished[0])


def undisturbed(tracker: Mlflow) -> dict[str, Any]:
    parent = sweep(tracker)
    tracker.log_result(a_result(), RunPlacement(parent, "0"), RANKED)
    (run,) = below(tracker, parent)
    return seen(tracker, parent, run)


# --- kill -9 ---

KILLED_AT_EACH_STEP = """
import os, signal, sys
import mlflow, pyarrow.parquet, sqlalchemy, yaml
from support.results import RANKED, a_result
from ragsweep.parts.tracking import Mlflow, RunPlacement

def record(parent, step):
    steps = iter(range(step))
    def count(*_):
        if next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
    sqlalchemy.event.listen(sqlalchemy.engine.Engine, "commit", count)
    sys.addaudithook(lambda event, _: count() if event == "os.rename" else None)
    tracker.log_result(a_result(), RunPlacement(parent, "0"), RANKED)
    os._exit(0)

tracker = Mlflow(sys.argv[1], "interrupted")
for step in range(100):
    parent = tracker.open_sweep("sweep", {})
    print(parent, flush=True)
    mlflow.MlflowClient(sys.argv[1])._tracking_client.store.engine.dispose()  # no connection outlives a fork
    if not (child := os.fork()):
        record(parent, step)
    if os.waitpid(child, 0)[1] == 0:
        sys.exit()
"""


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of one warm process")
def test_config_killed_between_any_two_steps_is_completed_once(tracker: Mlflow) -> None:
    """Before each commit and each rename, the last undisturbed."""
    command = [sys.executable, "-c", KILLED_AT_EACH_STEP, tracker.uri]
    done = forked.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *killed, whole = done.stdout.split()
    assert len(killed) > 10, "a config takes more steps than that"
    (run,) = below(tracker, whole)
    oracle = seen(tracker, whole, run)
    assert oracle == undisturbed(tracker)
    left = [tuple(run.info.status for run in below(tracker, parent)) for parent in killed]
    assert set(left) <= {(), ("RUNNING",), ("FINISHED",)}
    for parent in killed:
        sweep(tracker, parent)
        assert complete(tracker, parent) == oracle


def test_mirroring_again_what_is_finished_changes_nothing(tracker: Mlflow) -> None:
    parent = sweep(tracker)
    tracker.log_result(a_result(), RunPlacement(parent, "0"), RANKED)
    (run,) = below(tracker, parent)
    before = seen(tracker, parent, run)
    assert complete(tracker, parent) == before


def test_artifact_that_cannot_be_written_whole_is_not_there(tmp_path: Path) -> None:
    """The system refuses to let a file grow beyond a limit, as a full disk would."""
    code = (
        "import resource, signal, sys\nfrom ragsweep.parts.tracking import files\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "files.write(sys.argv[1], {'a/small': b'x' * 1000}, '')\n"
        "files.write(sys.argv[1], {'a/small': b'y' * 1001, 'large': b'y' * 1001}, '')"
    )
    done = forked.run([sys.executable, "-c", code, str(tmp_path)], env=ENVIRONMENT, capture_output=True, text=True)
    assert "File too large" in done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.glob("**/*") if path.is_file()} == {"small": b"x" * 1000}


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b"])
def test_artifact_stays_in_the_folder_of_its_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="outside the folder"):
        artifacts.write(str(tmp_path / "run"), {name: b""}, "")
    assert list(tmp_path.iterdir()) == []


# --- exits ---


class Bomb:
    """A ranking that breaks when it is rendered."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __str__(self) -> str:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        pytest.param(RuntimeError("boom"), "FAILED", id="exception"),
        pytest.param(SystemExit(1), "KILLED", id="sys.exit", marks=pytest.mark.nightly),
        pytest.param(KeyboardInterrupt(), "KILLED", id="ctrl-c"),
    ],
)
def test_run_that_is_left_in_the_middle_says_so_and_can_be_completed(
    tracker: Mlflow, error: BaseException, status: str
) -> None:
    parent, oracle = sweep(tracker), undisturbed(tracker)
    with pytest.raises(type(error)):
        tracker.log_result(a_result(), RunPlacement(parent, "0"), Artifacts({"ab12" * 16: Bomb(error)}))
    assert [run.info.status for run in below(tracker, parent)] == [status]
    assert complete(tracker, parent) == oracle


def test_failure_that_works_later_becomes_its_result(tracker: Mlflow) -> None:
    parent, oracle = sweep(tracker), undisturbed(tracker)
    tracker.log_failure(
        Failure("top_k=3", (), {}, "boom", "Traceback", *(a_result().run.started, 2.0)), RunPlacement(parent, "0")
    )
    found = complete(tracker, parent)
    assert found["files"].pop("traceback.txt") == b"Traceback"
    assert found == oracle


# --- children ---


def test_children_are_found_by_job_on_all_pages(tracker: Mlflow, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = sweep(tracker)
    runs = {job: tracker.log_result(a_result(), RunPlacement(parent, job)) for job in ("0", "2", "11")}
    tracker.log_result(a_result(), RunPlacement(sweep(tracker), "1"))
    monkeypatch.setattr(contents, "PAGE", 2)
    finished = {job: Child(run, "FINISHED") for job, run in runs.items()}
    assert tracker.children(parent) == finished
    assert tracker.children(parent, ["2", "5"]) == {"2": finished["2"]}
    monkeypatch.setattr(tracking_client, "FEW", 0)
    assert tracker.children(parent, ["2", "5"]) == {"2": finished["2"]}
    assert tracker.children(sweep(tracker)) == {}


def test_of_two_runs_of_one_job_the_finished_one_stays(tracker: Mlflow) -> None:
    parent = sweep(tracker)
    older, younger = (tracker.log_result(a_result(), RunPlacement(parent, "0"), RANKED) for _ in range(2))
    client(tracker).update_run(older, status="RUNNING")
    for _ in range(2):
        assert tracker.children(parent) == {"0": Child(younger, "FINISHED")}
    lost = client(tracker).get_run(older)
    assert lost.info.status == "KILLED"
    assert lost.data.tags["ragsweep.killed"] == f"job 0 is recorded in run {younger}"


def test_abandoned_children_end_killed_and_a_sweep_goes_on(tracker: Mlflow) -> None:
    parent = sweep(tracker)
    runs = [tracker.log_result(a_result(), RunPlacement(parent, str(job))) for job in range(3)]
    tracker.close_sweep(parent, "KILLED", {}, {"best": 1.0})
    for run in runs[1:]:
        client(tracker).update_run(run, status="RUNNING")
    sweep(tracker, parent)
    assert client(tracker).get_run(parent).info.status == "RUNNING"
    assert tracker.end_abandoned(parent, ["2"]) == [runs[1]]
    assert [client(tracker).get_run(run).info.status for run in runs] == ["FINISHED", "KILLED", "RUNNING"]
    assert "ragsweep.killed" in client(tracker).get_run(runs[1]).data.tags
    assert set(tracker.children(parent)) == {"0", "2"}
    tracker.close_sweep(parent, "FINISHED", {}, {"best": 1.0})
    assert client(tracker).get_run(parent).info.status == "FINISHED"
    assert len(client(tracker).get_metric_history(parent, "best")) == 1


def test_large_config_arrives_whole_also_when_it_is_adopted_half_written(tracker: Mlflow) -> None:
    values = {f"p{n}": f"{n} " * 100 for n in range(500)} | {"prompt": "é" * 20_000}
    summaries = {f"m{n}": summary(f"m{n}", n / 7) for n in range(400)}
    large = a_result(parameters=values, metrics=summaries, config={"headline": list(summaries)}, groups={})
    parent = sweep(tracker)
    bomb = {"ab12" * 16: Bomb(KeyboardInterrupt())}
    with pytest.raises(KeyboardInterrupt):
        tracker.log_result(large, RunPlacement(parent, "0"), Artifacts(bomb))
    left = tracker.children(parent)["0"]
    run = client(tracker).get_run(tracker.log_result(large, RunPlacement(parent, "0", left.run_id)))
    assert {key: value for key, value in run.data.params.items() if key != "prompt"} == {
        key: value for key, value in values.items() if key != "prompt"
    }
    assert content(tracker, run.info.run_id, "long_parameters.json").decode().count("é") == 20_000
    assert sum(key.startswith("m") and not key.endswith("_n_failed") for key in run.data.metrics) == 400
    assert run.data.metrics["m399"] == 57.0


# --- a server that is away ---


class Gate:
    """A way to a server that can be shut, stand still, or lose answers; it counts the requests it sees."""

    def __init__(self, server: str) -> None:
        self.target = server.removeprefix("http://")
        self.lock = Lock()
        self.requests: list[str] = []
        self.longest = 0  # bytes
        self.answer: Callable[[int], bool] = lambda number: True
        self.drips = False  # whether an answer takes a second a byte
        self.open(0)
        self.uri = f"http://127.0.0.1:{self.door.server_port}"

    def open(self, port: int) -> None:
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self) -> None:
                with gate.lock:
                    gate.requests.append(f"{self.command} {self.path}")
                    number = len(gate.requests)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                gate.longest = max(gate.longest, len(body))
                behind = HTTPConnection(gate.target, timeout=60)
                kept = {key: value for key, value in self.headers.items() if key not in ("Host", "Connection")}
                behind.request(self.command, self.path, body, kept)
                answer = behind.getresponse()
                data = answer.read()
                behind.close()
                if not gate.answer(number):
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers.get("Content-Type") or "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Connection", "close")
                self.end_headers()
                for part in (data[n : n + 1] for n in range(len(data))) if gate.drips else [data]:
                    self.wfile.write(part)
                    time.sleep(gate.drips)
                self.close_connection = True

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on

            def log_message(self, *_: Any) -> None:
                pass

        self.door = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.door.daemon_threads = True
        Thread(target=self.door.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def shut(self) -> None:
        self.door.shutdown()
        self.door.server_close()

    def reopen(self) -> None:
        self.open(self.door.server_port)


def hang(_: int) -> bool:
    time.sleep(30)
    return False


@pytest.fixture
def gate(server_uri: str) -> Iterator[Gate]:
    made = Gate(server_uri)
    yield made
    made.shut()


@pytest.mark.nightly
def test_outage_is_told_at_once_and_what_it_missed_can_be_sent_later(gate: Gate) -> None:
    tracker = Mlflow(gate.uri)
    parent, oracle = sweep(tracker), undisturbed(tracker)
    gate.shut()
    for _ in range(5):
        with pytest.raises(TrackingError, match=r"no MLflow server answers.*`ragsweep sync --all`"):
            tracker.log_result(a_result(), RunPlacement(parent, "0"), RANKED)
    gate.reopen()
    assert complete(tracker, parent) == oracle


def test_server_that_hangs_is_waited_for_once(gate: Gate) -> None:
    tracker = Mlflow(gate.uri)
    parent = sweep(tracker)
    gate.answer = hang
    with pytest.raises(TrackingError, match="timed out"):
        tracker.log_result(a_result(), RunPlacement(parent, "0"), RANKED)
    asked = len(gate.requests)
    for _ in range(100):
        with pytest.raises(TrackingError, match="timed out"):
            tracker.log_result(a_result(), RunPlacement(parent, "0"), RANKED)
    assert len(gate.requests) == asked


def test_server_that_answers_a_byte_a_second_is_waited_for_so_long_and_named(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ragsweep.parts.tracking.connection.NOTICE_SECONDS", 0.5)
    tracker, began = Mlflow(gate.uri), time.monotonic()
    parent = sweep(tracker)
    gate.drips = True
    connection = tracker._connection
    with pytest.raises(TrackingError, match="timed out"), connection.opened(2.0):
        connection.client.get_run(parent)
    assert f"waiting for {gate.uri} (0.5 s so far)" in capfd.readouterr().err
    with pytest.raises(TrackingError, match="timed out"), connection.opened():
        pytest.fail("a server that timed out is called again at once")
    assert time.monotonic() - began < 60


REPEATED = [pytest.param(lost, marks=pytest.mark.nightly) for lost in (1, 2, 3, 5, 6, 7, 8)]


@pytest.mark.parametrize("lost", [4, *REPEATED])
def test_config_whose_answers_get_lost_is_completed_once(gate: Gate, lost: int) -> None:
    """The request reaches the server, its answer does not come back."""
    tracker = Mlflow(gate.uri)
    parent, oracle = sweep(tracker), undisturbed(tracker)
    cut = len(gate.requests) + lost
    gate.answer = lambda number: number != cut
    with pytest.raises(TrackingError):
        tracker.log_result(a_result(), RunPlacement(parent, "0"), RANKED)
    gate.answer = lambda number: True
    assert complete(tracker, parent) == oracle


def test_no_request_is_larger_than_mlflow_allows(gate: Gate) -> None:
    values = {f"p{n}": "é" * 5_000 for n in range(110)}
    summaries = {f"{n}{'m' * 200}": summary(f"{n}{'m' * 200}") for n in range(210)}
    tracker = Mlflow(gate.uri)
    run = tracker.log_result(a_result(parameters=values, metrics=summaries))
    assert client(tracker).get_run(run).data.params == values
    assert 500_000 < gate.longest < 1_000_000
