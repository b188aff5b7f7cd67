"""A secret is in no text of a recorded outcome, keys included; an outage costs no outcome."""

import io
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from ragsweep.core.errors import TrackingError
from ragsweep.core.results import NO_ARTIFACTS, Artifacts, Evaluation, Result
from ragsweep.core.secrets import Secrets
from ragsweep.parts.tracking import Mlflow, RunPlacement
from ragsweep.report.terminal import Terminal
from ragsweep.sweep.running.recording import OutcomeWriter, RunContext, masked
from ragsweep.sweep.running.session import Session
from support.results import changed, summary
from test_ledger import result


def test_reasons_of_missing_scores_are_masked_and_names_of_metrics_stay() -> None:
    secrets = Secrets()
    for value in ("hunter-2-and-more", "retrieval"):
        secrets.add(value, named=True)
    failed = replace(summary("retrieval", 0.5), reasons={"401 for hunter-2-and-more": 2, "no evidence": 1})
    summaries = {"retrieval": failed}
    changes = {"metrics": summaries, "first_stage": summaries, "groups": {"category": {"plain": summaries}}}
    given = changed(result("one"), config={"retrieval": "hunter-2-and-more"}, **changes)
    hidden = masked(given, secrets)
    assert "hunter" not in repr(hidden)
    assert hidden.summaries.metrics["retrieval"].reasons == {"401 for ***": 2, "no evidence": 1}
    assert hidden.summaries.first_stage.keys() == hidden.run.config.keys() == {"retrieval"}


class Down(Mlflow):
    """A tracker that cannot be reached."""

    def log_result(self, result: Result, at: RunPlacement, artifacts: Artifacts = NO_ARTIFACTS) -> str:
        raise TrackingError("no MLflow server answers")


@pytest.mark.parametrize("given", [[], ["http://other:5000", "-mine", "a b"], ["http://me:secret@other", "b", "c"]])
def test_the_command_that_sends_missing_results_is_printed_as_a_whole(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGSWEEP_STORE", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    uri, experiment, folder = given or ["", "ragsweep", ".ragsweep"]
    place = str(Path(folder).absolute())
    tracker, shown = Down(uri or None, experiment), io.StringIO()
    writer = OutcomeWriter(RunContext(Session(folder=Path(place)), tracker, Terminal(shown, False), Secrets()), 0)
    shown_uri, note = uri.replace("me:secret", "***"), " (replace *** with the credentials)" if "@" in uri else ""
    options = [f"--uri={shown_uri}", f"--experiment={experiment}", f"--path={place}"] if given else []
    command = f"`{shlex.join(['ragsweep', 'sync', *options])}`{note} sends it later"
    writer.keep(result("one"), NO_ARTIFACTS)
    assert "".join(command.split()) in "".join(shown.getvalue().split())
    _, record = writer.record(result("two"))
    with pytest.raises(TrackingError) as told:
        writer.track_single(record, Evaluation(result("two"), NO_ARTIFACTS), lambda: pytest.fail("the run was opened"))
    assert command in str(told.value)


@pytest.mark.parametrize(("is_worker", "stated"), [(False, 1), (True, 0)])
def test_workers_leave_the_advice_on_an_outage_to_the_command(is_worker: bool, stated: int, tmp_path: Path) -> None:
    shown = io.StringIO()
    session, terminal = Session(folder=tmp_path), Terminal(shown, False)
    context = RunContext(session, Down(None, "ragsweep"), terminal, Secrets(), is_worker=is_worker)
    for name in ("one", "two"):
        context.warn_untracked(name, TrackingError("no server answers"))
    assert (shown.getvalue().count("no server answers"), shown.getvalue().count("not in MLflow")) == (stated, 2)
