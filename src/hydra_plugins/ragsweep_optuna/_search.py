"""The loop of a search: ask for a batch, launch it, settle what came of it, until the study has its trials."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from hydra.core.utils import JobReturn
from hydra.errors import HydraException

from hydra_plugins.ragsweep_optuna._evaluations import Evaluation
from hydra_plugins.ragsweep_optuna._heats import race_trials
from hydra_plugins.ragsweep_optuna._outcomes import Bound, judge
from hydra_plugins.ragsweep_optuna._stopping import Stop
from hydra_plugins.ragsweep_optuna._study import Study
from ragsweep.sweep.race_loop import Race

WHOLE = 100
"""Results of jobs that are kept with their configs, 150 kB each; Hydra does nothing with any of them."""

Launch = Callable[[list[list[str]], int], Sequence[JobReturn]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Search:
    """What is done with a study by this process."""

    study: Study
    launch: Launch  # overrides of jobs, and the number of the first -> their results
    sign: Callable[[Sequence[str]], tuple[str, str]]  # overrides -> signature, and why they cannot be composed
    n_jobs: int
    max_failure_rate: float
    bounds: tuple[Bound, ...]
    stop: Stop = field(default_factory=Stop)
    race: Race | None = None
    _begun: float = field(default_factory=time.monotonic)

    def run(self) -> list[Sequence[JobReturn]]:
        """Search until the study has all of its trials, or ends before; return the results of this process's jobs.

        Raises HydraException, with the reasons counted, when more trials failed than may.
        """
        results: list[Sequence[JobReturn]] = []
        if self.study.stopped(self.stop.plain()) and not self.study.busy():
            return results
        evaluations = self.study.evaluations
        if self.study.storage.is_shared:
            evaluations.beat()
        try:
            self._refuse_failures()
            if self._ended():
                return results
            while True:
                batch = self.study.batch(self.n_jobs, self.sign)
                try:
                    if self.race and batch:
                        results.append(_lean(self._raced(self.race, batch), len(results)))
                    else:
                        results += [_lean(self._evaluate(stretch), len(results)) for stretch in _stretches(batch)]
                except _Died as died:
                    evaluations.bury()
                    _log.warning("the launcher ended with %s; the trials under way are begun again", died)
                self._refuse_failures()
                if self._ended():
                    return results
                if batch:
                    continue
                if not self.study.busy():
                    break
                time.sleep(0.2)  # another process may die, and leave its trial to this one
        except BaseException:
            with suppress(Exception):  # what stopped the search is what the user should read
                evaluations.give_back()
            raise
        finally:
            evaluations.rest()
        self._say_if_short()
        return results

    def _evaluate(self, batch: Sequence[Evaluation]) -> Sequence[JobReturn]:
        returned = self._launched(batch)
        self._settle(dict(zip(batch, returned, strict=True)))
        return returned

    def _raced(self, race: Race, batch: Sequence[Evaluation]) -> Sequence[JobReturn]:
        """Race the trials of a batch, and settle those that were evaluated whole."""

        def launch(trials: Sequence[Evaluation]) -> list[JobReturn]:
            return [job for stretch in _stretches(trials) for job in self._launched(stretch)]

        raced, spent = race_trials(race, self.study, batch, launch)
        came = {number: job for number, job in raced.results.items() if isinstance(job, JobReturn)}
        self._settle({one: came[one.number] for one in batch if one.number not in raced.dropped}, spent)
        return list(came.values())

    def _launched(self, batch: Sequence[Evaluation]) -> Sequence[JobReturn]:
        try:
            return self.launch([list(one.overrides) for one in batch], batch[0].number)
        except HydraException:
            raise
        except Exception as fault:  # of a job that fails the launcher returns what it raised
            raise _Died(f"{type(fault).__name__}: {fault}") from fault

    def _settle(
        self, came: Mapping[Evaluation, JobReturn], before: Mapping[int, Mapping[str, float]] | None = None
    ) -> None:
        """Write down what came of trials; ``before``: what they used until then, by the numbers of their jobs."""
        objectives = len(self.study.asked.directions)
        for one, job in came.items():
            outcome = judge(job, objectives, self.bounds)
            used = Counter((before or {}).get(one.number, {}))
            used.update(dict(outcome.cost))
            outcome = replace(outcome, cost=tuple(used.items()))
            if not self.study.settle(one, outcome):
                _log.warning("trial %d was taken over by another process; this result is not used", one.trial)
            elif outcome.reason:
                _log.warning("trial %d failed: %s", one.trial, outcome.reason)

    def _ended(self) -> bool:
        """Say whether the search ends before it has all of its trials, and note why."""
        if self.study.evaluations.charged() >= self.study.asked.n_trials:
            return False
        done = [one.outcome for one in self.study.evaluations.all() if one.outcome]
        why = self.stop.why(done, self.study.asked.directions, time.monotonic() - self._begun)
        if why:
            self.study.stopped_by(why, self.stop.plain())
        return bool(why)

    def _refuse_failures(self) -> None:
        reasons = Counter(one.outcome.reason for one in self.study.evaluations.all() if one.outcome)
        reasons.pop("", None)
        failed, total = reasons.total(), self.study.asked.n_trials
        if failed > self.max_failure_rate * total:
            counted = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(5))
            raise HydraException(
                f"{failed} of {total} trials failed, and hydra.sweeper.max_failure_rate={self.max_failure_rate:g}:"
                f" {counted}"
            )

    def _say_if_short(self) -> None:
        found, wanted = self.study.evaluations.charged(), self.study.asked.n_trials
        if found < wanted:
            _log.warning("the space holds no more than %d configs; n_trials=%d", found, wanted)


class _Died(Exception):
    """A launcher gave up, as it does when the process of a job dies; nobody knows of which."""


def _lean(returned: Sequence[JobReturn], before: int) -> Sequence[JobReturn]:
    """Leave configs out of the results of a long search."""
    if before >= WHOLE:
        for job in returned:
            job.cfg = job.hydra_cfg = None
    return returned


def _stretches(batch: Sequence[Evaluation]) -> Iterator[list[Evaluation]]:
    """Put trials together whose jobs have consecutive numbers."""
    stretch: list[Evaluation] = []
    for one in sorted(batch, key=lambda each: each.number):
        if stretch and one.number != stretch[-1].number + 1:
            yield stretch
            stretch = []
        stretch.append(one)
    if stretch:
        yield stretch
