"""Run a search: claim, launch and record batches of trials until the study is complete."""

import hashlib
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from hydra.utils import get_method

from optuna_sweeper.open_study import default_subject, open_study
from optuna_sweeper.race_loop import JobOutcome, Race, completed, consecutive_batches, run_race
from optuna_sweeper.settings import SearchSettings
from optuna_sweeper.signatures import SearchComposer
from optuna_sweeper.space import Space, merge_overrides, read_space
from optuna_sweeper.storage import open_storage
from optuna_sweeper.study import SharedStudy, Sign, StudyPlan
from optuna_sweeper.summary import write_summary
from optuna_sweeper.trial_zero import trial_zero
from optuna_sweeper.trials import Evaluation, TrialOutcome, read_outcome

KEPT_CONFIGS = 100
"""Number of launches whose results keep their configs (150 kB each); the results of later launches have no configs."""

Launch = Callable[[Sequence[Evaluation], int | None], Sequence[JobReturn]]
"""A function that runs trials with consecutive job numbers up to the end of a rung and returns their results.

If the end of the rung is None, the trials are run in full.
"""

_log = logging.getLogger(__name__)


def run_search(
    settings: SearchSettings,
    arguments: Sequence[str],
    launch: Launch,
    composer: SearchComposer,
    folder: Path,
    attributes: Callable[[int], Mapping[str, str]] = lambda _: {},
) -> list[Sequence[JobReturn]]:
    """Run a search and return the results of the jobs that this process launched, one list per launch or race.

    ``arguments`` are the overrides on the command line. Configs with each choice and both ends of each range are
    composed before the first job starts. The best trials are written to ``optimization_results.yaml`` in ``folder``.
    ``attributes`` maps a job number to the user attributes that the job's trial gets when the trial ends.

    Raises HydraException for an invalid space, an unusable study, or too many failed trials. Raises one of
    ``composer.faults`` for a choice, or an end of a range, that cannot be composed.
    """
    space = read_space(arguments, settings.params, composer.loader)
    space.check_sampler(settings.sampler["name"])
    for probe in space.probes():
        composer.compose(probe)
    plan = replace(_plan(settings, space, composer), attributes=attributes)
    storage = open_storage(settings.storage)
    try:
        study = open_study(plan, space, storage)
        try:
            results = SearchLoop(study, launch, composer.sign, settings).run()
        except BaseException:
            with suppress(Exception):  # do not hide the error that ended the search
                write_summary(study, settings, folder)
            raise
        write_summary(study, settings, folder)
        return results
    finally:
        storage.close()


def _plan(settings: SearchSettings, space: Space, composer: SearchComposer) -> StudyPlan:
    subject = settings.subject or default_subject(space)
    own = [settings.custom_search_space] if settings.custom_search_space else []
    identity = json.dumps([space.description(), settings.directions, subject, *own], sort_keys=True)
    zero = [trial_zero(space, composer, settings.declared).overrides] if settings.default else []
    configs = [*zero, *(merge_overrides(space.fixed, lines) for lines in settings.enqueue)]
    points = [space.split_config(composer.values(lines, space.parameters))[0] for lines in configs]
    extend = settings.custom_search_space
    suffix = f"-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
    return StudyPlan(
        name=settings.study_name or composer.title + suffix,
        suffix="" if settings.study_name else suffix,
        objectives=settings.objectives,
        directions=settings.directions,
        subject=subject,
        sampler=settings.sampler,
        n_trials=settings.n_trials,
        first=tuple(zip(configs, map(space.optuna_values, points), strict=True)),
        has_zero=bool(zero),
        lapse=settings.lapse,
        extend=partial(get_method(extend), composer.config()) if extend else None,
    )


@dataclass(frozen=True)
class SearchLoop:
    """The loop in which this process evaluates trials of a study, possibly together with other processes."""

    study: SharedStudy
    launch: Launch
    sign: Sign
    settings: SearchSettings
    _begun: float = field(default_factory=time.monotonic)

    def run(self) -> list[Sequence[JobReturn]]:
        """Search until the study is complete, exhausted or stopped; return the jobs' results as `run_search` does.

        Raises HydraException if too many trials failed; the message gives the most frequent reasons.
        """
        results: list[Sequence[JobReturn]] = []
        if self.study.stop_reason(self.settings.stop.plain()) and not self.study.is_busy():
            return results
        try:
            for batch in self._batches():
                for jobs in self._evaluate(batch):
                    results.append(jobs)
                    if len(results) > KEPT_CONFIGS:
                        for job in jobs:
                            job.cfg = job.hydra_cfg = None
        except BaseException:
            with suppress(Exception):  # do not hide the error that ended the search
                self.study.release(lost=False)
            raise
        finally:
            self.study.claims.stop()
        return results

    def _batches(self) -> Iterator[list[Evaluation]]:
        """Yield batches of trials until the search ends.

        Trials of dead processes are included. While other processes run the remaining trials, this process waits.
        """
        plan, stop = self.study.plan, self.settings.stop
        while True:
            outcomes = self.study.outcomes()
            self._check_failures(outcomes)
            elapsed = time.monotonic() - self._begun
            why = stop.why(outcomes, plan.directions, elapsed)
            if why and self.study.count_charged() < plan.n_trials:
                self.study.mark_stopped(why, stop.plain())
                return
            if batch := self.study.batch(self.settings.n_jobs, self.sign):
                yield batch
            elif self.study.is_busy():
                time.sleep(0.2)
            else:
                self._check_failures(self.study.outcomes())
                if (charged := self.study.count_charged()) < plan.n_trials:
                    _log.warning(
                        "the search found no more new configs after %d trials, fewer than hydra.sweeper.n_trials=%d;"
                        " widen the search space, or lower n_trials",
                        charged,
                        plan.n_trials,
                    )
                return

    def _check_failures(self, outcomes: Sequence[TrialOutcome]) -> None:
        reasons = Counter(outcome.reason for outcome in outcomes if outcome.reason)
        failed, total, rate = reasons.total(), self.study.plan.n_trials, self.settings.max_failure_rate
        if failed / total > rate:  # failed > rate * total would be wrong: 0.29 * 100 is less than 29
            counts = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(5))
            raise HydraException(
                f"{failed} of {total} trials failed, more than hydra.sweeper.max_failure_rate="
                f"{rate:g} allows: {counts}; raise the rate to continue"
            )

    def _evaluate(self, batch: Sequence[Evaluation]) -> Iterator[Sequence[JobReturn]]:
        try:
            if self.settings.race:
                yield self._race(self.settings.race, batch)
            else:
                trials = {each.job: each for each in batch}
                for numbers in consecutive_batches(trials):
                    results = self._launch([trials[number] for number in numbers])
                    for number, job in zip(numbers, results, strict=True):
                        self._record(trials[number], job, {})
                    yield results
        except _LauncherDied as fault:
            self.study.release(lost=True)
            _log.warning("the launcher failed with %s; the running trials will be restarted", fault)

    def _race(self, race: Race, batch: Sequence[Evaluation]) -> list[JobReturn]:
        """Race the trials of a batch and return the last result of each launched trial.

        Trials that the race drops are recorded as pruned, and all others with the outcomes of their jobs.
        """
        trials, spent = {each.job: each for each in batch}, {each.job: Counter[str]() for each in batch}

        def launch(jobs: Mapping[int, Evaluation], until: int | None) -> dict[int, JobOutcome]:
            parts = [[jobs[number] for number in numbers] for numbers in consecutive_batches(jobs)]
            results = [result for part in parts for result in self._launch(part, until)]
            return dict(zip(sorted(jobs), results, strict=True))

        def after_rung(until: int, results: Mapping[int, JobOutcome], dropped: tuple[int, ...]) -> None:
            for job, result in results.items():
                if isinstance(result, JobReturn) and completed(result):
                    outcome = read_outcome(result, 1)
                    asked: Any = result.return_value.get("asked") if isinstance(result.return_value, Mapping) else None
                    if outcome.values:
                        self.study.report(trials[job], asked or until, outcome.values[0])
                    spent[job].update(outcome.cost)
            for job in dropped:
                prune(job)

        def prune(job: int) -> None:
            if not self.study.finish(trials[job], TrialOutcome(pruned=True, cost=spent[job])):
                _log.warning(
                    "trial %d was taken over by another process, which records the outcome", trials[job].trial.number
                )

        raced = run_race(race, trials, launch, after_rung)
        for job in raced.dropped - raced.results.keys():  # dropped before this process began
            prune(job)
        results = {job: result for job, result in raced.results.items() if isinstance(result, JobReturn)}
        for job in trials:
            if job not in raced.dropped:
                self._record(trials[job], results[job], spent[job])
        return list(results.values())

    def _launch(self, batch: Sequence[Evaluation], until: int | None = None) -> Sequence[JobReturn]:
        try:
            return self.launch(batch, until)
        except HydraException:
            raise
        except Exception as fault:  # raised by the launcher itself: a job's exception is in the job's result
            raise _LauncherDied(f"{type(fault).__name__}: {fault}") from fault

    def _record(self, evaluation: Evaluation, job: JobReturn, spent: Mapping[str, float]) -> None:
        """Record the outcome of a trial; ``spent`` is the trial's cost on earlier rungs (name -> amount)."""
        outcome = read_outcome(job, len(self.study.plan.directions), self.settings.constraints)
        outcome = replace(outcome, cost=Counter(spent) + Counter(outcome.cost))
        number = evaluation.trial.number
        if not self.study.finish(evaluation, outcome):
            _log.warning("trial %d was taken over by another process; this result is discarded", number)
        elif outcome.reason:
            _log.warning("trial %d failed: %s", number, outcome.reason)


class _LauncherDied(Exception):
    """Raised if a launcher fails without returning results, for example because the process of one of its jobs died."""
