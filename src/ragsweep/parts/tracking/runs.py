"""Names of MLflow tags, the placement of a run in a sweep, and the choice of a run for each job.

This module does not import MLflow.
"""

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
STOPPED = "ragsweep.stopped"
"""The tag whose value states why a search ended early."""
PARENT = "mlflow.parentRunId"
DESCRIPTION = "mlflow.note.content"
"""The tag whose value, in Markdown, MLflow displays as a run's description."""
COMMIT = "mlflow.source.git.commit"
TABLES = "mlflow.loggedArtifacts"
"""The tag that lists the tables of a run for MLflow's evaluation page."""
EXPERIMENT_KIND = ("mlflow.experimentKind", "custom_model_development")
"""The tag, and its value, that make MLflow open an experiment at its list of runs."""
RUNS_VIEW = "workflowType=machine_learning"
"""The URL query that replaces EXPERIMENT_KIND in newer versions of MLflow."""
_BEST_FIRST = ("FINISHED", "FAILED", "RUNNING")


@dataclass(frozen=True)
class RunPlacement:
    """The sweep, the job and the existing run, if any, under which a config is recorded in MLflow.

    ``parent`` is the id of the sweep's run, and ``job`` is the name of the config in the sweep (``3``, ``finalist-0``);
    both are None for a single config. ``adopt`` is the id of an existing run to use, created by ``mlflow run`` or by an
    earlier attempt; None creates a new run.
    """

    parent: str | None = None
    job: str | None = None
    adopt: str | None = None


ALONE = RunPlacement()


@dataclass(frozen=True)
class Child:
    """The MLflow run of a sweep's job; ``status`` is FINISHED, FAILED, KILLED or RUNNING."""

    run_id: str
    status: str


def git_commit() -> str:
    """Return the hash of the commit that is checked out in the current folder; "" if git finds none."""
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def assign_runs(runs: Iterable[Run]) -> tuple[dict[str, Child], dict[str, str]]:
    """Choose one run per job; map jobs to the chosen runs, and ids of the superfluous runs to the reason.

    Finished runs are preferred, then failed runs, then running runs, then all others; among runs with the same status,
    the oldest is chosen. Runs without a job, and runs with the tag ``ragsweep.killed``, are ignored.
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
        superfluous |= {run.info.run_id: f"job {job} is recorded in run {best.info.run_id}" for run in others}
    return chosen, superfluous


def _rank(run: Run) -> tuple[int, int, str]:
    status = run.info.status
    rank = _BEST_FIRST.index(status) if status in _BEST_FIRST else len(_BEST_FIRST)
    return rank, run.info.start_time, run.info.run_id
