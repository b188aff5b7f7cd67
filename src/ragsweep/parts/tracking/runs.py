"""The names of tags, the place of a run, and the assignment of a sweep's runs to jobs; does not import MLflow."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.entities import Run

KIND, SIGNATURE, ERROR, WARNINGS = "ragsweep.kind", "ragsweep.signature", "ragsweep.error", "ragsweep.warnings"
TARGETS, STATE, PARTITION = "ragsweep.targets", "ragsweep.state", "ragsweep.partition"
WEIGHTED = "ragsweep.weighted"
JOB, NAME, KILLED = "ragsweep.job", "ragsweep.name", "ragsweep.killed"
PARENT = "mlflow.parentRunId"
DESCRIPTION = "mlflow.note.content"
"""The tag that MLflow shows as a run's description, in markdown."""
COMMIT = "mlflow.source.git.commit"
TABLES = "mlflow.loggedArtifacts"
"""The tag that lists the tables for MLflow's evaluation page."""
EXPERIMENT_KIND = ("mlflow.experimentKind", "custom_model_development")
"""The tag that makes MLflow open an experiment at its list of runs."""
RUNS_VIEW = "workflowType=machine_learning"
"""The URL query with the same effect in newer versions of MLflow, which ignore the tag."""
_BEST_FIRST = ("FINISHED", "FAILED", "RUNNING")


@dataclass(frozen=True)
class RunPlacement:
    """The place of one config's run.

    ``parent`` is the run of the config's sweep, and ``job`` the config's name there (``3``, ``finalist-0``); both are
    None for a single config. ``adopt`` is an existing run to use, made by ``mlflow run`` or by an earlier attempt.
    """

    parent: str | None = None
    job: str | None = None
    adopt: str | None = None


ALONE = RunPlacement()


@dataclass(frozen=True)
class Child:
    """The run of one job of a sweep; ``status`` is FINISHED, FAILED, KILLED or RUNNING."""

    run_id: str
    status: str


def git_commit() -> str:
    """Return the commit that is checked out in the current folder; empty if there is none."""
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def assign_runs(runs: Iterable[Run]) -> tuple[dict[str, Child], dict[str, str]]:
    """Return the run chosen for each job, and the reasons why its other runs are superfluous, by run id.

    Finished runs come first, then failed, running and other ones; among runs with the same status, the oldest is
    chosen. Runs without a job, and runs with the tag ``ragsweep.killed``, are ignored.
    """
    by_job: dict[str, list[Run]] = {}
    for run in runs:
        job = run.data.tags.get(JOB, "")
        if job and KILLED not in run.data.tags:
            by_job.setdefault(job, []).append(run)
    chosen: dict[str, Child] = {}
    superfluous: dict[str, str] = {}
    for job, candidates in sorted(by_job.items()):
        best, *others = sorted(candidates, key=_rank)
        chosen[job] = Child(best.info.run_id, best.info.status)
        superfluous |= {run.info.run_id: f"job {job} is shown by run {best.info.run_id}" for run in others}
    return chosen, superfluous


def _rank(run: Run) -> tuple[int, int, str]:
    status = run.info.status
    rank = _BEST_FIRST.index(status) if status in _BEST_FIRST else len(_BEST_FIRST)
    return rank, run.info.start_time, run.info.run_id
