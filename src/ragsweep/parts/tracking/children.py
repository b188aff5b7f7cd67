"""A config's place among its siblings: which run of a sweep belongs to which job. Knows no MLflow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.entities import Run

KIND, SIGNATURE, ERROR, WARNINGS = "ragsweep.kind", "ragsweep.signature", "ragsweep.error", "ragsweep.warnings"
TARGETS, STATE, PARTITION = "ragsweep.targets", "ragsweep.state", "ragsweep.partition"
JOB, NAME, KILLED = "ragsweep.job", "ragsweep.name", "ragsweep.killed"
PARENT = "mlflow.parentRunId"
_BEST_FIRST = ("FINISHED", "FAILED", "RUNNING")


@dataclass(frozen=True)
class Place:
    """Where the run of one config belongs.

    ``parent`` is the run of its sweep and ``job`` its number there; None for a config by itself. ``adopt`` is a run
    that exists already and becomes this config's: made by ``mlflow run``, or left by an attempt that was killed.
    """

    parent: str | None = None
    job: int | None = None
    adopt: str | None = None


ALONE = Place()


@dataclass(frozen=True)
class Child:
    """The run that shows one job of a sweep; ``status`` is FINISHED, FAILED, KILLED or RUNNING."""

    run_id: str
    status: str


def settle(runs: Iterable[Run]) -> tuple[dict[int, Child], dict[str, str]]:
    """Find the one run of each job, and the runs that claim the same job, each with why it loses.

    A finished run wins, then a failed, then a running one, then the oldest. Runs without a number, and those that
    were marked as killed for good (the tag ``ragsweep.killed``), are left out.
    """
    claims: dict[int, list[Run]] = {}
    for run in runs:
        number = run.data.tags.get(JOB, "")
        if number.isdecimal() and KILLED not in run.data.tags:
            claims.setdefault(int(number), []).append(run)
    found: dict[int, Child] = {}
    losers: dict[str, str] = {}
    for job, claiming in sorted(claims.items()):
        winner, *others = sorted(claiming, key=_rank)
        found[job] = Child(winner.info.run_id, winner.info.status)
        losers |= {run.info.run_id: f"job {job} is shown by run {winner.info.run_id}" for run in others}
    return found, losers


def _rank(run: Run) -> tuple[int, int, str]:
    known = run.info.status in _BEST_FIRST
    place = _BEST_FIRST.index(run.info.status) if known else len(_BEST_FIRST)
    return place, run.info.start_time, run.info.run_id
