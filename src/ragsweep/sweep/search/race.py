"""Race the trials of a batch: report each rung to Optuna, and prune the dropped trials at once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hydra.core.utils import JobReturn

from ragsweep.sweep.race_loop import JobOutcome, Race, completed, run_race
from ragsweep.sweep.search.outcomes import TrialOutcome, read_outcome
from ragsweep.sweep.search.study import SharedStudy
from ragsweep.sweep.search.trials import Evaluation

_log = logging.getLogger(__name__)
Launch = Callable[[Sequence[Evaluation]], Sequence[JobReturn]]
"""Run trials, whose jobs may have any numbers; the results in their order."""


class RacedBatch(NamedTuple):
    """The outcomes of a batch, by the number of the job."""

    results: Mapping[int, JobReturn]  # of the last rung
    spent: Mapping[int, Mapping[str, float]]  # on its rungs
    remaining: Sequence[Evaluation]  # evaluated in full, and still to be settled


def race_trials(race: Race, study: SharedStudy, batch: Sequence[Evaluation], launch: Launch) -> RacedBatch:
    """Race the trials of a batch, and settle those that are dropped."""
    trials, spent = {one.job: one for one in batch}, {one.job: Counter[str]() for one in batch}

    def launch_jobs(jobs: Mapping[int, Sequence[str]]) -> dict[int, JobOutcome]:
        wanted = [replace(trials[job], overrides=tuple(overrides)) for job, overrides in jobs.items()]
        return dict(zip(jobs, launch(wanted), strict=True))

    def after_rung(until: int, results: Mapping[int, JobOutcome], dropped: tuple[int, ...]) -> None:
        for job, result in results.items():
            if isinstance(result, JobReturn) and completed(result):
                spent[job].update(_report(study, trials[job], until, result))
        for job in dropped:
            prune(job)

    def prune(job: int) -> None:
        if not study.settle(trials[job], TrialOutcome(pruned=True, cost=tuple(spent[job].items()))):
            _log.warning("trial %d was taken over by another process, which decides on it", trials[job].trial.number)

    raced = run_race(race, {one.job: one.overrides for one in batch}, launch_jobs, after_rung)
    for job in raced.dropped - raced.results.keys():  # before this process began
        prune(job)
    results = {job: result for job, result in raced.results.items() if isinstance(result, JobReturn)}
    return RacedBatch(results, spent, [one for one in batch if one.job not in raced.dropped])


def _report(study: SharedStudy, one: Evaluation, until: int, job: JobReturn) -> dict[str, float]:
    """Report the mean so far, at the number of questions; return what they cost."""
    outcome = read_outcome(job, 1)
    steps: Any = job.return_value.get("steps") if isinstance(job.return_value, Mapping) else None
    if outcome.values:
        study.report(one, len(steps) if steps else until, outcome.values[0])
    return dict(outcome.cost)
