"""Run a search: a multirun in which earlier results decide the next jobs, and on which several commands may work."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from omegaconf import OmegaConf

from optuna_sweeper.loop import run_search
from optuna_sweeper.open_study import check_study
from optuna_sweeper.settings import SearchSettings
from optuna_sweeper.trials import Evaluation
from ragsweep.core import interruption
from ragsweep.core.identity import content_hash
from ragsweep.core.missing import BUDGET_SPENT
from ragsweep.core.plurals import counted
from ragsweep.core.results import PARTIAL, Failure, Result, objectives
from ragsweep.golden.partition import HOLDOUT
from ragsweep.records.claims import COMMAND, FINALIST, KEY, ClaimKey
from ragsweep.records.ledger import FINISHED, KILLED, RUNNING, Sweep
from ragsweep.sweep.composing.command import Command, compose_jobs, trial_composer
from ragsweep.sweep.composing.composition_errors import compose, one_sentence
from ragsweep.sweep.composing.job import SUFFIX, Job
from ragsweep.sweep.composing.search_settings import is_on_server, is_own, trial_name, trial_names
from ragsweep.sweep.composing.sweep_names import read_settings, study_title
from ragsweep.sweep.running.jobs import Launch, attempt
from ragsweep.sweep.running.multirun import DONE, Ending, Multirun, lost_job
from ragsweep.sweep.running.recording import OutcomeWriter
from ragsweep.sweep.searching.study_summary import read_summary, study_folder

if TYPE_CHECKING:
    from ragsweep.stages.graph import Plan

PATIENCE = 2.0
"""Seconds of waiting for a lock after which a message is printed."""

SPENT = "the budget is spent"
"""Reason for the early end of a search; trials that lack scores for this reason are PARTIAL and are repeated."""

_SAMPLER = ("hydra/sweeper/sampler=", "hydra.sweeper.sampler.")
_SEARCHED = ("params", "direction", "constraints", "default", "enqueue", "storage", "study_name")


def search_key(command: Command, signature: str, tracker: str) -> str:
    """Return the key of a search: a hash of its overrides, first config, tracker and settings that affect trials.

    Two commands with the same key work on the same search. The overrides include overrides of the sampler. The name,
    the number of trials, the user and password of the database, and default settings of the sampler do not affect the
    key.
    """
    settings = command.search or {}
    # Searches without these settings keep the keys of earlier releases.
    given = [name for name in ("race", "custom_search_space") if settings.get(name)]
    searched = {name: settings.get(name) for name in (*_SEARCHED, *given)}
    if is_on_server(settings):
        searched["storage"] = str(searched["storage"]).rpartition("@")[2]
    own = [line for line in _own_overrides(command) if not line.startswith("name=")]
    own += (sampled := [line for line in command.overrides if line.lstrip("+").startswith(_SAMPLER)])
    if isinstance(sampler := settings.get("sampler"), Mapping):  # such as settings in a named sweep
        file = f"hydra/sweeper/sampler/{sampler.get('name')}.yaml"
        usual = ConfigStore.instance().load(file).node if is_own(settings) else {}
        typed = [line.partition("=")[0].rpartition(".")[2] for line in sampled]
        searched |= {key: one for key, one in sampler.items() if one != usual.get(key) and key not in typed}
    return content_hash(["search", searched, own, signature, tracker])


def _own_overrides(command: Command) -> list[str]:
    """List the overrides of a search, except overrides of ``hydra`` and overrides that affect no trial.

    `search_key` adds the settings of ``hydra.sweeper`` that affect trials. A baseline affects only the first trial,
    whose signature is part of the key.
    """
    others = ("hydra.", "hydra/", "judge.labels=", "by=", "baseline=", "rerun=", "progress=", "compute=")
    return [line for line in command.overrides if not line.lstrip("+~").startswith(others)]


@dataclass
class Search(Multirun):
    """A multirun whose sweeper selects the jobs to run and ends the search.

    ``choose`` selects the finalists for the holdout; it returns their names in the ledger, and their results.
    """

    choose: Callable[[Sweep], Sequence[tuple[str, Result]]] = lambda _: ()

    def __post_init__(self) -> None:
        """Set the search's settings and body, and whether other processes or machines may work on the search."""
        super().__post_init__()
        self.settings: dict[str, Any] = dict(self.command.search or {})
        alone = str(self.settings.get("storage")) in ("None", "sqlite://", "sqlite:///:memory:")
        self.is_shared, self.elsewhere = is_own(self.settings) and not alone, is_on_server(self.settings)
        self.body = self._run_jobs if is_own(self.settings) else None

    @cached_property
    def key(self) -> str:
        """The search's key (see `search_key`)."""
        first = self.jobs[0].experiment
        assert first
        return self.distinguished(search_key(self.command, first.signature, self.tracker.identity))

    @cached_property
    def new(self) -> Sweep:
        """The search as it is recorded if it is new, with placeholder names for its trials."""
        names = trial_names(self.settings)
        name = self.secrets.mask_text(" ".join(_own_overrides(self.command)) or "search")
        return Sweep("", name, "", ((),) * len(names), names, self.tracker.identity)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """During the block, hold the lock for opening, joining, leaving and concluding searches with the same key.

        If another process holds the lock for longer than `PATIENCE`, print a line about that process. Nothing is locked
        if the ledger is read-only.
        """
        if not self.ledger.is_writable:
            yield
            return
        begun, reported = time.monotonic(), False
        while taken := self.ledger.claims.claim(ClaimKey(KEY, self.key)):
            if not reported and time.monotonic() - begun > PATIENCE:
                self.terminal.line("waiting", f"{taken} is opening or concluding this search")
                reported = True
            time.sleep(0.1)
        try:
            yield
        finally:
            self.ledger.claims.release(ClaimKey(KEY, self.key))

    def open(self, planned: Plan) -> tuple[Sweep, bool]:
        """Open, resume or join a search (see `Multirun.open`); raises ConfigError if its study cannot be used."""
        if self.is_shared and not ((recorded := self.recorded()) and self.is_finished(recorded)):
            own = {"subject": recorded.id if recorded else self.ledger.next_id(self.key), "race": None}
            loader = self.command.composer.loader(self.command.overrides)
            with one_sentence():
                check_study({**self.settings, **own}, self.command.task, loader)
        return super().open(planned)

    def is_finished(self, sweep: Sweep) -> bool:
        """Return whether a search is finished and needs no more work.

        More work is needed if the command requests more trials, if the search was ended by a stop rule other than the
        command's, or if a chosen finalist has no complete result.
        """
        summary, wanted = read_summary(self.ledger.path, sweep.id), len(self.new.names)
        if sweep.status != FINISHED or len(sweep.jobs) < wanted or (summary and summary.n_trials < wanted):
            return False
        if summary and summary.stopped and summary.stop != self.settings.get("stop"):
            return False
        outcomes = [record.outcome for record in self.ledger.finalists(sweep.id)]
        complete = {result.name for result in outcomes if isinstance(result, Result) and result.run.state != PARTIAL}
        return all(name + SUFFIX in complete for name, _ in self.choose(sweep))

    def _reopen(self, sweep: Sweep, names: tuple[str, ...]) -> tuple[Sweep, str]:
        """Set a search's number of trials to the number of ``names``; return the search, and its progress in words.

        The number stays high enough to include every trial that is done. Failed trials are not run again.
        """
        done = self.ledger.jobs(sweep.id, *DONE)
        progress = f"{len(done)} of {len(names)} trials {'is' if len(done) == 1 else 'are'} already done"
        if len(done) > len(names):
            progress = f"the search already has {len(done)} trials, more than n_trials; nothing remains to do"
        names = max(names, trial_names({}, max(done, default=0) + 1), key=len)
        self.ledger.set_jobs(sweep.id, names)
        return replace(sweep, jobs=((),) * len(names), names=names), progress

    def _run_jobs(self, launch: Launch, folder: Path) -> str:
        """Run our sweeper, which launches trials until the study is complete or stopped; return its error, or ""."""
        command, sweep = self.command, self.context.sweep
        assert sweep
        own = {"subject": sweep.id, "objectives": list(objectives(self.values)), "race": self.race}
        summaries = str(study_folder(self.ledger.path, sweep.id))
        settings = SearchSettings.read({**self.settings, **own, "folder": summaries})
        composed = trial_composer(command, study_title(sweep), lambda: OmegaConf.create(dict(self.values)))
        limit = self.values["max_failures"]

        def launch_trials(trials: Sequence[Evaluation], rung: int | None) -> Sequence[JobReturn]:
            if limit is not None and len(self.ledger.jobs(sweep.id, "failed")) >= limit:  # else the trials would fail
                fact = f"the search ended, because the limit max_failures={limit} is reached"
                raise HydraException(f"{fact}; with another limit, a new search starts and reuses stored stages")
            jobs = []
            for trial in trials:  # the config of a retry is composed here, because the trial does not contain it
                config = trial.config or compose(command.composer, [*command.fixed, *trial.overrides])
                jobs.append(Job(config, "", trial.overrides, trial.job, searching=True, rung=rung))
            returned = launch(jobs)
            partial = self.ledger.jobs(sweep.id, PARTIAL.lower()) & {job.number for job in jobs}
            found = (self.ledger.record(sweep.id, number).outcome for number in partial)
            scored = (result.summaries.metrics.values() for result in found if isinstance(result, Result))
            if any(BUDGET_SPENT in summary.reasons for summary in chain.from_iterable(scored)):
                raise HydraException(SPENT)
            return returned

        def attributes(job: int) -> dict[str, str]:
            return {"mlflow_run_id": run} if (run := self.ledger.job_run(sweep.id, job)) else {}

        try:
            run_search(settings, command.task, launch_trials, composed, folder, attributes)
        except HydraException as fault:  # the sweeper's own message
            if str(fault) == SPENT:
                self.terminal.line("stopped", f"{SPENT}; {self.again} continues the search")
            return self.secrets.mask_text(str(fault).splitlines()[0])
        if (study := read_summary(self.ledger.path, sweep.id)) and (text := study.exhausted()):
            self.terminal.line("ended", text)
        return ""

    def _record_dead_jobs(self, sweep: Sweep) -> None:
        """Record each failed trial that has no record, because its process died or its config could not be composed.

        If the study is on a database server, only jobs that are claimed in this ledger by a dead process are recorded.
        """
        study = None if self.elsewhere else read_summary(self.ledger.path, sweep.id)
        recorded = self.ledger.jobs(sweep.id, *DONE)
        for job, trial in (study.trials if study else {}).items():
            if trial["state"] == "FAIL" and job not in recorded:
                overrides = tuple(trial.get("overrides", ()))
                groups = [key for key in read_settings(overrides) if self.command.composer.is_group(key, overrides)]
                name = trial_name(overrides, sweep.name, groups, self.settings.get("params") or ())
                failure = Failure(name, overrides, {}, str(trial.get("reason", "")))
                OutcomeWriter(self.context, job).keep_failure(failure)
        super()._record_dead_jobs(sweep)

    def missed_jobs(self, sweep: Sweep, recorded: set[int], why: str) -> list[Failure]:
        """Return one failure if ``why`` is set, if a stop rule prevented every trial, or if a result was lost; else [].

        A result was lost if the study has its value, but the ledger has no record. Other trials without a record are
        not failures, because a search may end early. If the budget was spent, the PARTIAL trials state the reason.
        """
        study = None if self.elsewhere else read_summary(self.ledger.path, sweep.id)
        if study and study.stopped and not study.trials:
            why = why or f"no trial ran, because {study.stopped}; raise the limit"
        valued = {job for job, trial in (study.trials if study else {}).items() if trial["state"] == "COMPLETE"}
        if lost := valued - self.ledger.jobs(sweep.id, *DONE):
            fact = f"the study has the values of {counted(len(lost), 'trial')} without a result in {self.ledger.path}"
            why = why or f"{fact}; restore that file, or run the search again with rerun=true"
        number = min(len(recorded), len(sweep.jobs) - 1)
        return [lost_job(sweep, number, why, numbered=True)] if why not in ("", SPENT) else []

    def leave(self, sweep: Sweep) -> str:
        """Release this process's claim on a search that another process has concluded or will conclude.

        Return a message for the user, or "" if this process must conclude the search and thus keeps the claim.
        """
        claims = self.ledger.claims
        others = claims.others(sweep.id)
        if not others and self.ledger.sweep(sweep.id).status == RUNNING:
            return ""
        claims.release(ClaimKey(COMMAND, sweep.id))
        if not others:
            return "another process has already closed this search"
        who = " and ".join(map(str, others))
        return f"still at work on this search: {who}; the last process to finish writes the verdict"

    def finish(self, sweep: Sweep, ending: Ending) -> Ending:
        """Record the failed trials that have no record, and evaluate the finalists on the holdout.

        The finalists are evaluated only if the search finished without an error. Return ``ending``; if an exception,
        such as an interruption, ends this evaluation, return an Ending with the status KILLED and the exception.
        """
        self._record_dead_jobs(sweep)
        if ending.status == FINISHED and not ending.why:
            try:
                self._evaluate_finalists(sweep)
            except BaseException as fault:
                interruption.stop_raising()
                return Ending(KILLED, "interrupted", fault)
        return ending

    def _evaluate_finalists(self, sweep: Sweep) -> None:
        """Evaluate the finalists that have no holdout result yet; record a failure and continue with the others."""
        if not (chosen := self.choose(sweep)):
            return
        jobs = tuple(
            (*(line for line in result.run.overrides if not line.startswith("partition=")), f"partition={HOLDOUT}")
            for _, result in chosen
        )
        finalists = compose_jobs(replace(self.command, jobs=jobs, cases=()))
        # Finalists of an earlier attempt or choice keep their numbers.
        numbers = {record.outcome.name.removesuffix(SUFFIX): record.job for record in self.ledger.finalists(sweep.id)}
        for position, ((name, _), job) in enumerate(zip(chosen, finalists, strict=True)):
            number = numbers.setdefault(name, max(numbers.values(), default=-1) + 1)
            if self.ledger.claims.claim_job(sweep.id, number, FINALIST) is not None:
                continue
            writer = OutcomeWriter(self.context, number, FINALIST, (position, len(chosen)))
            try:
                job = replace(job, name=name + SUFFIX, number=number, searching=False)
                evaluated = attempt(self.context, job, writer.keep_failure)
            except Exception as fault:  # recorded by attempt
                logging.getLogger(__name__).debug("a finalist failed", exc_info=fault)
            else:
                writer.keep(*evaluated)
