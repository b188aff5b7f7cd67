"""Run a search: take a batch of trials, launch it, record it, until the study has all of its trials."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from hydra.utils import get_method
from omegaconf import OmegaConf

from ragsweep.sweep.race_loop import JobOutcome, Race, completed, run_race
from ragsweep.sweep.search import plots, summary
from ragsweep.sweep.search.samplers import GRID
from ragsweep.sweep.search.settings import SearchSettings
from ragsweep.sweep.search.signatures import SearchComposer
from ragsweep.sweep.search.space import Space, merge_overrides, read_space
from ragsweep.sweep.search.stopping import StopRule
from ragsweep.sweep.search.storage import open_storage
from ragsweep.sweep.search.study import SharedStudy, Sign, StudyPlan, digest, open_study
from ragsweep.sweep.search.trials import Constraint, Evaluation, TrialOutcome, read_outcome

_log = logging.getLogger(__name__)

LaunchTrials = Callable[[Sequence[Evaluation]], Sequence[JobReturn]]
"""Run trials, whose jobs may have any numbers; the results in their order."""


class RacedBatch(NamedTuple):
    """The outcomes of a batch, by the number of the job."""

    results: Mapping[int, JobReturn]  # of the last rung
    spent: Mapping[int, Mapping[str, float]]  # on its rungs
    remaining: Sequence[Evaluation]  # evaluated in full, and still to be settled


def race_trials(race: Race, study: SharedStudy, batch: Sequence[Evaluation], launch: LaunchTrials) -> RacedBatch:
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


KEPT_CONFIGS = 100
"""Results of jobs that are returned with their configs, which take 150 kB each."""

Launch = Callable[[list[list[str]], int], Sequence[JobReturn]]
"""Overrides of jobs with consecutive numbers, and the first number -> their results."""


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
            for batch_part in _consecutive(batch):
                results = self._launch(batch_part)
                for one, job in zip(batch_part, results, strict=True):
                    self._settle(one, job, {})
                yield results
        except _LauncherDied as fault:
            self.study.release(lost=True)
            _log.warning("the launcher ended with %s; the trials under way are begun again", fault)

    def _launch_all(self, trials: Sequence[Evaluation]) -> list[JobReturn]:
        return [job for batch_part in _consecutive(trials) for job in self._launch(batch_part)]

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


def _consecutive(batch: Sequence[Evaluation]) -> Iterator[list[Evaluation]]:
    """Group trials whose jobs have consecutive numbers."""
    stretch: list[Evaluation] = []
    for one in sorted(batch, key=lambda each: each.job):
        if stretch and one.job != stretch[-1].job + 1:
            yield stretch
            stretch = []
        stretch.append(one)
    if stretch:
        yield stretch


def run_search(
    settings: SearchSettings, arguments: Sequence[str], launch: Launch, composer: SearchComposer, folder: Path
) -> list[Sequence[JobReturn]]:
    """Search, and return the results of the jobs that this process launched, a list a batch.

    No job starts before each value of each parameter was composed once. What came of the study is written to
    ``optimization_results.yaml`` in the folder.
    """
    space = read_space(arguments, settings.params, composer.loader)
    if settings.sampler["name"] == GRID:
        space.points()
    for probe in space.probes(settings.default):
        composer.compose(probe)
    plan = _plan(settings, space, composer)
    storage = open_storage(settings.storage)
    try:
        study = open_study(plan, space, storage)
        loop = SearchLoop(
            study, launch, composer.sign, settings.n_jobs, settings.max_failure_rate, settings.constraints,
            settings.stop, settings.race,
        )  # fmt: skip
        try:
            results = loop.run()
        except BaseException:
            with suppress(Exception):  # the user should read what ended the search
                _write_summary(settings, study, folder)
            raise
        _write_summary(settings, study, folder)
        return results
    finally:
        storage.close()


def _plan(settings: SearchSettings, space: Space, composer: SearchComposer) -> StudyPlan:
    subject = settings.subject or " ".join(sorted(space.fixed))
    suffix = digest([space.description(), settings.directions, subject])[:8]
    first = [()] if settings.default else []
    lists = [merge_overrides(space.fixed, lines) for lines in [*first, *settings.enqueue]]
    extend = settings.custom_search_space
    return StudyPlan(
        settings.study_name or f"{composer.program}-{suffix}",
        settings.directions,
        subject,
        settings.sampler,
        settings.n_trials,
        tuple((lines, space.locate_config(composer.values(lines, space.parameters))) for lines in lists),
        settings.lapse,
        partial(get_method(extend), composer.config()) if extend else None,
    )


def _write_summary(settings: SearchSettings, study: SharedStudy, folder: Path) -> None:
    """Write the study's summary and plots."""
    OmegaConf.save(OmegaConf.create(summary.optimization_results(study.optuna)), folder / "optimization_results.yaml")
    target = Path(settings.folder) if settings.folder else folder
    plain = summary.summarise(study, settings)
    summary.write_summary(plain, target)
    if settings.plots:
        names = summary.objective_names(settings.objectives, len(settings.directions))
        plots.draw(study.optuna, names, target / "plots")
    _log.info("study %s: %s %s", study.plan.name, plain["states"], plain["stopped"])
