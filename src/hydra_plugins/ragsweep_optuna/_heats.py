"""Race the trials of a batch: report to Optuna what each rung shows, and tell it at once who is dropped."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hydra.core.utils import JobReturn

from hydra_plugins.ragsweep_optuna._evaluations import Evaluation
from hydra_plugins.ragsweep_optuna._outcomes import Outcome, judge
from hydra_plugins.ragsweep_optuna._study import Study
from ragsweep.sweep.race_loop import Came, Race, Raced, completed, run

_log = logging.getLogger(__name__)


def race_trials(
    race: Race, study: Study, batch: Sequence[Evaluation], launch: Callable[[Sequence[Evaluation]], Sequence[JobReturn]]
) -> tuple[Raced, Mapping[int, Mapping[str, float]]]:
    """Race the trials of a batch; those that are dropped are settled when this returns, the others are not.

    Also returns what each trial used on its rungs, by the number of its job.

    ``launch`` runs trials whose jobs may have any numbers, and returns what came of them in their order.
    """
    trials, spent = {one.number: one for one in batch}, {one.number: Counter[str]() for one in batch}

    def launched(jobs: Mapping[int, Sequence[str]]) -> dict[int, Came]:
        wanted = [trials[number].saying(overrides) for number, overrides in jobs.items()]
        return dict(zip(jobs, launch(wanted), strict=True))

    def seen(until: int, came: Mapping[int, Came], dropped: tuple[int, ...]) -> None:
        for number, one in came.items():
            if isinstance(one, JobReturn) and completed(one):
                spent[number].update(dict(_report(study, trials[number], until, one)))
        for number in dropped:
            _drop(study, trials[number], spent[number])

    raced = run(race, {one.number: one.overrides for one in batch}, launched, seen)
    for number in raced.dropped - raced.results.keys():  # before this process began
        _drop(study, trials[number], spent[number])
    return raced, spent


def _report(study: Study, one: Evaluation, until: int, job: JobReturn) -> tuple[tuple[str, float], ...]:
    """Report the mean so far, at the number of questions that were asked; return what they cost."""
    outcome = judge(job, 1, ())
    steps: Any = job.return_value.get("steps") if isinstance(job.return_value, Mapping) else None
    if outcome.values:
        study.report(one, len(steps) if steps else until, outcome.values[0])
    return outcome.cost


def _drop(study: Study, one: Evaluation, spent: Mapping[str, float]) -> None:
    if not study.settle(one, Outcome(pruned=True, cost=tuple(spent.items()))):
        _log.warning("trial %d was taken over by another process; that it was dropped is not used", one.trial)
