"""The loop of a search: take a batch of trials, launch it, settle it, until the study has all of its trials."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from hydra.core.utils import JobReturn
from hydra.errors import HydraException

from ragsweep.sweep.race_loop import Race
from ragsweep.sweep.search.outcomes import Constraint, read_outcome
from ragsweep.sweep.search.race import race_trials
from ragsweep.sweep.search.stopping import StopRule
from ragsweep.sweep.search.study import SharedStudy, Sign
from ragsweep.sweep.search.trials import Evaluation

KEPT_CONFIGS = 100
"""Results of jobs that are returned with their configs, which take 150 kB each."""

Launch = Callable[[list[list[str]], int], Sequence[JobReturn]]
"""Overrides of jobs with consecutive numbers, and the first number -> their results."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SearchLoop:
    """The work of this process on a study."""

    study: SharedStudy
    launch: Launch
    sign: Sign
    n_jobs: int = 1
    max_failure_rate: float = 0.0
    constraints: tuple[Constraint, ...] = ()
    stop: StopRule = field(default_factory=StopRule)
    race: Race | None = None
    _begun: float = field(default_factory=time.monotonic)

    def run(self) -> list[Sequence[JobReturn]]:
        """Search until the study has all of its trials or is stopped; return the results of this process's jobs.

        Raises HydraException, with the reasons counted, where more trials failed than may.
        """
        results: list[Sequence[JobReturn]] = []
        if self.study.stopped(self.stop.plain()) and not self.study.is_busy():
            return results
        with self.study.heartbeat():
            try:
                for batch in self._batches():
                    results += [_without_configs(each, len(results)) for each in self._evaluate(batch)]
            except BaseException:
                with suppress(Exception):  # the user should read what ended the search
                    self.study.release(lost=False)
                raise
        return results

    def _batches(self) -> Iterator[list[Evaluation]]:
        """Yield batches until the search ends; wait for trials of other processes, which may die."""
        while True:
            self._check_failures()
            if self._is_stopped():
                return
            batch = self.study.batch(self.n_jobs, self.sign)
            if batch:
                yield batch
            elif not self.study.is_busy():
                self._check_failures()
                self._warn_if_short()
                return
            else:
                time.sleep(0.2)

    def _evaluate(self, batch: Sequence[Evaluation]) -> Iterator[Sequence[JobReturn]]:
        try:
            if self.race:
                raced = race_trials(self.race, self.study, batch, self._launch_all)
                for one in raced.remaining:
                    self._settle(one, raced.results[one.job], raced.spent[one.job])
                yield list(raced.results.values())
                return
            for stretch in _stretches(batch):
                results = self._launch(stretch)
                for one, job in zip(stretch, results, strict=True):
                    self._settle(one, job, {})
                yield results
        except _LauncherDied as fault:
            self.study.release(lost=True)
            _log.warning("the launcher ended with %s; the trials under way are begun again", fault)

    def _launch_all(self, trials: Sequence[Evaluation]) -> list[JobReturn]:
        return [job for stretch in _stretches(trials) for job in self._launch(stretch)]

    def _launch(self, batch: Sequence[Evaluation]) -> Sequence[JobReturn]:
        try:
            return self.launch([list(one.overrides) for one in batch], batch[0].job)
        except HydraException:
            raise
        except Exception as fault:  # what a job raises is returned as its result
            raise _LauncherDied(f"{type(fault).__name__}: {fault}") from fault

    def _settle(self, one: Evaluation, job: JobReturn, spent: Mapping[str, float]) -> None:
        """Record the outcome of a trial; ``spent``: what it used before."""
        outcome = read_outcome(job, len(self.study.plan.directions), self.constraints)
        used = Counter(spent)
        used.update(dict(outcome.cost))
        outcome = replace(outcome, cost=tuple(used.items()))
        if not self.study.settle(one, outcome):
            _log.warning("trial %d was taken over by another process; this result is not used", one.trial.number)
        elif outcome.reason:
            _log.warning("trial %d failed: %s", one.trial.number, outcome.reason)

    def _is_stopped(self) -> bool:
        """Return whether the search ends before it has all of its trials, and write down why."""
        plan = self.study.plan
        if self.study.charged() >= plan.n_trials:
            return False
        why = self.stop.why(self.study.outcomes(), plan.directions, time.monotonic() - self._begun)
        if why:
            self.study.mark_stopped(why, self.stop.plain())
        return bool(why)

    def _check_failures(self) -> None:
        reasons = Counter(one.reason for one in self.study.outcomes() if one.reason)
        failed, total = reasons.total(), self.study.plan.n_trials
        if failed > self.max_failure_rate * total:
            counted = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(5))
            raise HydraException(
                f"{failed} of {total} trials failed, and hydra.sweeper.max_failure_rate={self.max_failure_rate:g}:"
                f" {counted}"
            )

    def _warn_if_short(self) -> None:
        found, wanted = self.study.charged(), self.study.plan.n_trials
        if found < wanted:
            _log.warning("the space holds no more than %d configs; n_trials=%d", found, wanted)


class _LauncherDied(Exception):
    """A launcher failed as a whole, as it does when the process of a job dies; which job is unknown."""


def _without_configs(results: Sequence[JobReturn], before: int) -> Sequence[JobReturn]:
    """Drop the configs from the results of a long search."""
    if before >= KEPT_CONFIGS:
        for job in results:
            job.cfg = job.hydra_cfg = None
    return results


def _stretches(batch: Sequence[Evaluation]) -> Iterator[list[Evaluation]]:
    """Group trials whose jobs have consecutive numbers."""
    stretch: list[Evaluation] = []
    for one in sorted(batch, key=lambda each: each.job):
        if stretch and one.job != stretch[-1].job + 1:
            yield stretch
            stretch = []
        stretch.append(one)
    if stretch:
        yield stretch
