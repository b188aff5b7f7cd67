"""Outcomes of workers with separate folders reach the command's ledger exactly once, even if processes die."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus

from optuna_sweeper.trials import read_outcome
from ragsweep.core.errors import RagsweepError
from ragsweep.core.results import Failure, Result
from ragsweep.core.secrets import Secrets
from ragsweep.parts.tracking import NoTracking
from ragsweep.records.ledger import Sweep
from ragsweep.report.terminal import Terminal
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.running.delivery import Collector, deliver_job
from ragsweep.sweep.running.recording import RunContext
from ragsweep.sweep.running.session import Session, open_session
from support.commands import composed, write_dataset
from test_study import completed

JOBS = [["top_k=1"], ["top_k=2"], ["top_k=3"]]


class Machines:
    """A command, and a worker with another folder."""

    def __init__(self, folder: Path) -> None:
        self.data = [*write_dataset(folder), "tracking=none"]
        self.objects = folder / "objects"
        self.evaluated: list[str] = []
        self.worker = self._context(folder / "worker")
        command = self._context(folder / "command")
        jobs = tuple(map(tuple, JOBS))
        command.sweep = command.ledger.open_sweep("key", Sweep("", "sweep", "", jobs, ("one", "two", "three")))
        self.command, self.sweep = command, command.sweep

    def _context(self, folder: Path) -> RunContext:
        store = {"path": str(folder), "stages": True, "remote": f"file://{self.objects}"}
        session = open_session({"store": store}, Terminal.current(plain=True))
        return RunContext(session, NoTracking(), session.evaluator.executor.listener.screen, Secrets())  # type: ignore[attr-defined]

    def jobs(self, lines: Sequence[Sequence[str]], first: int = 0) -> list[Job]:
        return [Job(composed(*self.data, *own), "", tuple(own), number) for number, own in enumerate(lines, first)]

    def work(self, job: Job) -> JobReturn:
        """Run a job as a worker does."""
        try:
            return completed(deliver_job(self.worker, self.sweep, job))
        except Exception as fault:
            return completed(fault)

    def launch(self, jobs: Sequence[Job]) -> list[JobReturn]:
        return [self.work(job) for job in jobs]

    def collect(self, launcher: Any = None, jobs: Sequence[Sequence[str]] = JOBS, first: int = 0) -> list[JobReturn]:
        return Collector(self.command, self.sweep, launcher or self.launch).launch(self.jobs(jobs, first))

    def sent(self) -> list[Path]:
        return sorted(path for path in (self.objects / "outcomes").rglob("*") if path.is_file())

    def outcomes(self) -> dict[int, Result | Failure]:
        return {record.job: record.outcome for record in self.command.ledger.records(self.sweep.id)}


@pytest.fixture
def machines(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    made = Machines(cwd)
    prepare = Session.experiment

    def counted(session: Session, job: Job) -> Any:
        made.evaluated.append(job.name)
        return prepare(session, job)

    monkeypatch.setattr(Session, "experiment", counted)
    return made


def statuses(returned: Sequence[JobReturn]) -> list[JobStatus]:
    return [one.status for one in returned]


def test_outcomes_of_another_folder_are_recorded_by_the_command(machines: Machines) -> None:
    returned = machines.collect()
    assert statuses(returned) == [JobStatus.COMPLETED] * 3
    outcomes = machines.outcomes()
    assert [outcome.name for outcome in outcomes.values()] == ["one", "two", "three"]
    assert all(isinstance(outcome, Result) for outcome in outcomes.values())
    assert [one.return_value for one in returned] == [
        outcomes[n].summaries.metrics["context_ndcg"].value for n in range(3)
    ]
    assert not (machines.worker.session.folder / "ledger.db").exists()
    assert machines.sent() == []
    assert machines.command.ledger.claims.jobs(machines.sweep.id) == []


def test_what_a_failed_job_has_spent_reaches_the_command(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(session: Session, *_: Any) -> Any:
        session.services.meter.totals = replace(session.services.meter.totals, calls=7)
        raise ConnectionError("refused")

    monkeypatch.setattr(Session, "evaluate", evaluate)
    (returned,) = machines.collect(jobs=JOBS[:1])
    assert read_outcome(returned, 1).cost == {"calls": 7.0}


def test_launcher_that_dies_loses_no_job_that_has_ended(machines: Machines) -> None:
    def dies(jobs: Sequence[Job]) -> list[JobReturn]:
        machines.launch(jobs[:2])
        raise RuntimeError("a worker was killed")

    assert statuses(machines.collect(dies)) == [JobStatus.COMPLETED, JobStatus.COMPLETED, JobStatus.FAILED]
    assert sorted(machines.outcomes()) == [0, 1]
    assert statuses(machines.collect(jobs=JOBS[2:], first=2)) == [JobStatus.COMPLETED]
    assert sorted(machines.outcomes()) == [0, 1, 2]
    assert machines.evaluated == ["one", "two", "three"]


def test_outcome_sent_to_a_command_that_died_is_recorded_by_the_next_without_computing_it(machines: Machines) -> None:
    machines.work(machines.jobs(JOBS)[1])
    assert machines.outcomes() == {}
    machines.collect()
    assert sorted(machines.outcomes()) == [0, 1, 2]
    assert machines.evaluated == ["two", "one", "three"]


def test_outcome_that_arrives_twice_is_recorded_once(machines: Machines) -> None:
    machines.collect()
    before = [record.id for record in machines.command.ledger.records(machines.sweep.id)]
    assert statuses(machines.collect()) == [JobStatus.COMPLETED] * 3
    assert [record.id for record in machines.command.ledger.records(machines.sweep.id)] == before


def test_failed_job_is_a_failure_in_the_ledger(machines: Machines) -> None:
    returned = machines.collect(jobs=[["dataset.limit=-1"]])
    assert statuses(returned) == [JobStatus.FAILED]
    (failure,) = machines.outcomes().values()
    assert isinstance(failure, Failure)
    assert "limit" in failure.error


def test_outcomes_that_change_places_are_not_recorded_under_each_others_config(machines: Machines) -> None:
    machines.command.session.remote.warn = lambda text: None

    def exchanges(jobs: Sequence[Job]) -> list[JobReturn]:
        returned = machines.launch(jobs)
        one, two, _ = machines.sent()
        first_data = one.read_bytes()
        one.write_bytes(two.read_bytes())
        two.write_bytes(first_data)
        return returned

    assert sorted(status.name for status in statuses(machines.collect(exchanges))) == ["COMPLETED", "FAILED", "FAILED"]
    assert {job: outcome.name for job, outcome in machines.outcomes().items()} == {2: "three"}
    machines.collect(jobs=JOBS[:2])
    assert [outcome.name for outcome in machines.outcomes().values()] == ["one", "two", "three"]


def test_damaged_outcome_is_not_recorded_and_its_job_is_run_again(machines: Machines) -> None:
    warnings: list[str] = []
    machines.command.session.remote.warn = warnings.append

    def damages(jobs: Sequence[Job]) -> list[JobReturn]:
        returned = machines.launch(jobs)
        _, sent, _ = machines.sent()
        data = sent.read_bytes()
        sent.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        return returned

    returned = machines.collect(damages)
    assert statuses(returned) == [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.COMPLETED]
    with pytest.raises(RagsweepError, match="the outcome of config #2 cannot be read from "):
        _ = returned[1].return_value
    faults = [text.partition(": ")[2] for text in warnings]
    assert faults == ["the outcome does not match its digest; repeat the command to run the job again"]
    assert sorted(machines.outcomes()) == [0, 2]
    machines.collect(jobs=[JOBS[1]], first=1)
    assert sorted(machines.outcomes()) == [0, 1, 2]
