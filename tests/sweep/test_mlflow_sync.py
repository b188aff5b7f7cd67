"""A command that goes on where another was killed may meet a process of that: each record is shown once."""

import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.secrets import Secrets
from ragsweep.parts.tracking import Mlflow, RunPlacement, files
from ragsweep.records.claims import COMMAND, UPLOAD, ClaimKey
from ragsweep.records.ledger import FAILED, FINISHED, Ledger, Sweep
from ragsweep.report.terminal import Terminal
from ragsweep.sweep import sweeping
from ragsweep.sweep.composing.command import read_command
from ragsweep.sweep.concluding.parent_run import RecordedContents
from ragsweep.sweep.running import mlflow_sync
from ragsweep.sweep.running.recording import RunContext
from ragsweep.sweep.running.session import Session
from support import nightly
from support.commands import ROOT, add_tables, write_dataset
from support.inputs.human_labels import pair, written
from support.results import changed
from support.servers import forked
from support.servers.tracking_server import QUIET, client

pytestmark = pytest.mark.slow

ENVIRONMENT = {**os.environ, **QUIET, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"}
LEFT = """
import sys
from pathlib import Path
from ragsweep.core.secrets import Secrets
from ragsweep.sweep.running.recording import OutcomeWriter, RunContext
from ragsweep.sweep.running.session import Session
from ragsweep.report.terminal import Terminal
from ragsweep.parts.tracking import Mlflow
from support.results import a_result

class Slow(Mlflow):
    def log_result(self, result, at, artifacts):
        print("at it", flush=True)
        sys.stdin.readline()
        return super().log_result(result, at, artifacts)

session, terminal = Session(folder=Path(sys.argv[1])), Terminal(sys.stderr, bars=False)
context = RunContext(session, Slow(sys.argv[2]), terminal, Secrets(), session.ledger.sweeps()[0])
OutcomeWriter(context, 0).keep_dropped(a_result())
"""


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def tracker(tmp_path: Path) -> Mlflow:
    return Mlflow(f"sqlite:///{tmp_path}/mlflow.db")


@pytest.fixture
def left(tmp_path: Path, tracker: Mlflow) -> Iterator[tuple[Ledger, Sweep, forked.Popen]]:
    """A sweep whose one record is written, and a process that is about to show it."""
    ledger = Ledger(tmp_path)
    sweep = ledger.open_sweep("key", Sweep("", "s", "", (("a",),), ("a",), tracker.identity))
    mlflow_sync.open_parent(ledger, tracker, sweep, None)
    command = [sys.executable, "-c", LEFT, str(tmp_path), str(tracker.uri)]
    with forked.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at it\n"
        yield ledger, ledger.sweep(sweep.id), process
        process.kill()


@pytest.mark.parametrize("ends", ["shows it", nightly("is killed")])
def test_record_in_progress_is_shown_once(ends: str, left: tuple[Ledger, Sweep, forked.Popen], tracker: Mlflow) -> None:
    ledger, sweep, process = left
    went_on = threading.Thread(target=mlflow_sync.complete, args=(ledger, tracker, sweep))
    went_on.start()
    went_on.join(timeout=2)  # long enough to show it beside the other
    if ends == "is killed":
        process.kill()
    process.communicate("go on\n" if ends == "shows it" else None)
    went_on.join()
    assert process.returncode == (0 if ends == "shows it" else -9)
    experiment = client(tracker).get_run(sweep.parent).info.experiment_id
    runs = client(tracker).search_runs([experiment], f"tags.`mlflow.parentRunId` = '{sweep.parent}'")
    assert [run.info.status for run in runs] == ["FINISHED"]
    (record,) = ledger.records(sweep.id)
    assert (record.run, record.tracked) == (runs[0].info.run_id, True)
    assert ledger.claims.jobs("", UPLOAD) == []


def sent(ledger: Ledger, tracker: Mlflow, *, everything: bool = True) -> tuple[int, str]:
    """Send the records that a tracker lacks; return their number, and what is printed."""
    stream, contents = io.StringIO(), RecordedContents(ledger, Session().page_texts)
    return mlflow_sync.sync(ledger, tracker, Terminal(stream, bars=False), contents, everything), stream.getvalue()


def test_what_was_recorded_offline_arrives_with_its_labels_and_names(tmp_path: Path, tracker: Mlflow) -> None:
    add_tables(tmp_path)
    results, labels = pair()
    config = {"judge": {"labels": written(tmp_path / "labels.jsonl", labels)}, "tracking": {"traces": "sample"}}
    ledger = Ledger(tmp_path)
    sweep = ledger.open_sweep("key", Sweep("", "s", "", (("m=a",), ("m=b",)), ("a", "b")))
    for job, result in enumerate(results):
        ledger.write(sweep.id, job, changed(result, config={**result.run.config, **config}))
    ledger.claims.release(ClaimKey(COMMAND, sweep.id))
    for name, target in (("spring", sweep.id), ("release", f"{sweep.id}#2"), ("last", f"{sweep.id}#2")):
        ledger.names.give(name, target)
    assert sent(ledger, tracker) == (2, "traces    not in the ledger (2 results); rerun=true recreates them\n")
    parent = tracker.find({mlflow_sync.SWEEP_TAG: sweep.id})
    assert parent
    tags = client(tracker).get_run(parent).data.tags
    assert (tags["ragsweep.result"], tags["ragsweep.names"]) == ("choice", "spring")
    assert "72 labels per config" in tags["mlflow.note.content"]
    children = {job: client(tracker).get_run(child.run_id) for job, child in tracker.children(parent).items()}
    assert [children[job].data.tags.get("ragsweep.names") for job in "01"] == [None, "release, last"]
    assert sent(ledger, tracker)[0] == 0


def finished_sweep(ledger: Ledger, tracker: Mlflow, adopt: str | None = None) -> Sweep:
    """Return a finished sweep of two results in MLflow, below the run ``adopt`` if given."""
    add_tables(ledger.path.parent)
    sweep = ledger.open_sweep("key", Sweep("", "s", "", (("m=a",), ("m=b",)), ("a", "b"), tracker.identity))
    mlflow_sync.open_parent(ledger, tracker, sweep, adopt)
    for job, result in enumerate(pair()[0]):
        ledger.write(sweep.id, job, result, tracker.identity)
    sweep = mlflow_sync.complete(ledger, tracker, ledger.sweep(sweep.id))
    tracker.close_sweep(sweep.parent, FINISHED, {}, {})
    ledger.set_status(sweep.id, FINISHED)
    return sweep


def test_continued_search_has_its_new_number_of_trials_and_no_earlier_stop(tmp_path: Path, tracker: Mlflow) -> None:
    ledger = Ledger(tmp_path)
    sweep = ledger.open_sweep("key", Sweep("", "sweeps=mine", "", ((),) * 8, ("trial",) * 8, tracker.identity))
    parent = mlflow_sync.open_parent(ledger, tracker, sweep, None)
    tracker.close_sweep(parent, FINISHED, {}, {}, {"ragsweep.stopped": "patience"})
    ledger.set_jobs(sweep.id, ("trial",) * 14)
    sweep = mlflow_sync.complete(ledger, tracker, ledger.sweep(sweep.id))
    run = client(tracker).get_run(sweep.parent)
    assert (run.info.run_name, run.info.status) == ("mine, 14 trials", "RUNNING")
    assert "ragsweep.stopped" not in run.data.tags


def test_equal_sweeps_of_two_ledgers_have_parent_runs_of_their_own(cwd: Path, tracker: Mlflow) -> None:
    add_tables(cwd)
    typed = [*write_dataset(cwd), f"tracking.uri={tracker.uri}", "top_k=1,2", "depth=4"]
    for store in ("one", "two"):
        assert sweeping.run(read_command([*typed, f"store.path={store}"], multirun=True)).status == 0
    ledgers = [Ledger(Path(store)) for store in ("one", "two")]
    for ledger in ledgers:
        assert sent(ledger, tracker, everything=False)[0] == 0
        (sweep,) = ledger.sweeps()
        assert {job: child.run_id for job, child in tracker.children(sweep.parent).items()} == {
            record.tag: record.run for record in ledger.records(sweep.id)
        }
    kept = {str(record.run) for ledger in ledgers for record in ledger.records(ledger.sweeps()[0].id)}
    assert [client(tracker).get_run(run).info.status for run in kept] == [FINISHED] * 4


def test_run_that_was_deleted_in_mlflow_is_sent_again(tmp_path: Path, tracker: Mlflow) -> None:
    ledger = Ledger(tmp_path)
    sweep = finished_sweep(ledger, tracker)
    assert sent(ledger, tracker, everything=False)[0] == 0
    kept, deleted = (record.run for record in ledger.records(sweep.id))
    client(tracker).delete_run(deleted)
    assert sent(ledger, tracker, everything=False)[0] == 1
    runs = [record.run for record in ledger.records(sweep.id)]
    assert runs[0] == kept
    assert runs == [tracker.children(sweep.parent)[job].run_id for job in "01"]
    assert sent(ledger, tracker, everything=False)[0] == 0


def test_runs_that_mlflow_run_created_in_another_experiment_are_not_sent_again(cwd: Path, tracker: Mlflow) -> None:
    tracker.find({})  # creates the experiments
    parent, alone = (client(tracker).create_run("0").info.run_id for _ in range(2))
    ledger = Ledger(cwd)
    sweep = finished_sweep(ledger, tracker, parent)
    assert sweep.parent == parent
    result = pair()[0][0]
    tracker.log_result(result, RunPlacement(adopt=alone))
    ledger.mark_tracked(ledger.write(None, 0, result, tracker.identity), alone)
    assert sent(ledger, tracker, everything=False)[0] == 0
    assert (ledger.sweep(sweep.id).parent, [one.run for one in ledger.singles()]) == (parent, [alone])
    client(tracker).delete_run(alone)
    assert sent(ledger, tracker, everything=False)[0] == 1


def test_single_config_whose_upload_to_another_tracker_was_cut_off_is_completed(
    tmp_path: Path, tracker: Mlflow
) -> None:
    add_tables(tmp_path)
    ledger, result = Ledger(tmp_path), pair()[0][0]
    ledger.write(None, 0, result)  # with tracking=none
    run = tracker.log_result(result)
    client(tracker).update_run(run, "RUNNING")  # as after an outage
    assert sent(ledger, tracker)[0] == 1
    assert client(tracker).get_run(run).info.status == FINISHED
    assert sent(ledger, tracker)[0] == 0


def test_single_config_is_claimed_while_it_is_sent(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_tables(cwd)
    ledger, claimed, log_result = Ledger(cwd / ".ragsweep"), list[list[int]](), Mlflow.log_result

    def log_slowly(*given: Any) -> str:
        claimed.append([claim.number for claim in ledger.claims.jobs("", UPLOAD)])
        return log_result(*given)

    monkeypatch.setattr(Mlflow, "log_result", log_slowly)
    assert sweeping.run(read_command(write_dataset(cwd), False)).status == 0
    (record,) = ledger.singles()
    ledger.write(None, 0, record.outcome, record.tracker)
    assert sent(ledger, Mlflow(), everything=False)[0] == 1
    assert claimed == [[1], [2]]
    assert ledger.claims.jobs("", UPLOAD) == []


def test_sync_restores_the_tables_that_the_config_of_a_sweep_asks_for(tmp_path: Path) -> None:
    ledger, (first, second), found = Ledger(tmp_path), pair()[0], {}
    for tables in ("chosen", "all"):
        sweep = ledger.open_sweep(tables, Sweep("", "s", "", (("m=a",), ("m=b",), ("m=c",)), ("a", "b", "c")))
        for job, result in enumerate((first, second, changed(first, name="c", signature="c"))):
            config = {**result.run.config, "tracking": {"tables": tables}}
            ledger.write(sweep.id, job, changed(result, config=config))
        contents = RecordedContents(ledger, Session().page_texts)
        found[tables] = len(contents.of_sweep(sweep, ledger.records(sweep.id))[0].tables)
    assert found == {"chosen": 2, "all": 3}


def test_sweep_that_is_sent_to_another_tracker_has_its_tables(tmp_path: Path, tracker: Mlflow) -> None:
    add_tables(tmp_path)
    ledger = Ledger(tmp_path)
    sweep = ledger.open_sweep("key", Sweep("", "s", "", (("m=a",), ("m=b",)), ("a", "b")))
    for job, result in enumerate(pair()[0]):
        ledger.write(sweep.id, job, result)
    ledger.claims.release(ClaimKey(COMMAND, sweep.id))
    assert sent(ledger, tracker)[0] == 2
    parent = tracker.find({mlflow_sync.SWEEP_TAG: sweep.id})
    assert parent
    runs = [client(tracker).get_run(child.run_id) for child in tracker.children(parent).values()]
    assert ["mlflow.loggedArtifacts" in run.data.tags for run in runs] == [True, True]
    assert [record.run for record in ledger.records(sweep.id)] == [None, None]
    client(tracker).update_run(parent, "RUNNING")  # as after an outage
    assert sent(ledger, tracker)[0] == 0
    assert client(tracker).get_run(parent).info.status == FINISHED


def test_sweep_that_is_sent_later_has_the_times_at_which_it_ran(tmp_path: Path, tracker: Mlflow) -> None:
    ledger, results = Ledger(tmp_path), pair()[0]
    sweep = ledger.open_sweep("key", Sweep("", "s", "", (("m=a",), ("m=b",)), ("a", "b")))
    for job, result in enumerate(results):
        ledger.write(sweep.id, job, changed(result, started=1000.0, ended=1001.0 + job))
    ledger.claims.release(ClaimKey(COMMAND, sweep.id))
    sent(ledger, tracker)
    parent = tracker.find({mlflow_sync.SWEEP_TAG: sweep.id})
    assert parent
    info = client(tracker).get_run(parent).info
    assert (info.start_time, info.end_time) == (round(ledger.sweep(sweep.id).created * 1000), 1_002_000)


@pytest.mark.parametrize("fails", ["the report", "a table"])
def test_what_could_not_be_written_at_the_end_of_a_sweep_is_sent_later(
    fails: str, tmp_path: Path, tracker: Mlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, write = Ledger(tmp_path), files.write
    sweep = finished_sweep(ledger, tracker)
    context = RunContext(Session(folder=tmp_path), tracker, Terminal(io.StringIO(), bars=False), Secrets(), sweep)
    content, status = RecordedContents(ledger, Session().page_texts).of_sweep(sweep, ledger.records(sweep.id))
    mlflow_sync.open_parent(ledger, tracker, sweep, sweep.parent)

    def refuse(location: str, artifacts: Mapping[str, bytes], uri: str) -> None:
        if ("questions.json" in artifacts) == (fails == "a table"):
            raise OSError("No space left on device")
        write(location, artifacts, uri)

    monkeypatch.setattr(files, "write", refuse)
    assert not mlflow_sync.close(context, sweep, status, content, elsewhere=False)
    ledger.set_status(sweep.id, FAILED)
    monkeypatch.setattr(files, "write", write)
    assert sent(ledger, tracker, everything=False)[0] == 0  # all records are there
    assert client(tracker).get_run(sweep.parent).info.status == FINISHED
    assert {"report.html", "results.json"} & {one.path for one in client(tracker).list_artifacts(sweep.parent)}
    runs = [client(tracker).get_run(record.run or "") for record in ledger.records(sweep.id)]
    assert ["mlflow.loggedArtifacts" in run.data.tags for run in runs] == [True, True]
