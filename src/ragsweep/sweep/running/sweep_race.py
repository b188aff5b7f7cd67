"""Race the configs of a sweep: decide which configs get the next questions, and which are dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from optuna_sweeper.race_loop import Rung
from ragsweep.core.errors import ConfigError
from ragsweep.core.plurals import counted
from ragsweep.core.results import COMPLETE, DROPPED, RACING, Result, objectives
from ragsweep.core.types import weights_of
from ragsweep.evaluation.experiment import Experiment
from ragsweep.records.ledger import results_by_job
from ragsweep.stats.inference.matrix import fill_declined
from ragsweep.sweep.composing.job import RUNG
from ragsweep.sweep.racing import WHERE, Betting
from ragsweep.sweep.running.recording import OutcomeWriter, RunContext
from ragsweep.sweep.running.rungs import QuestionOrder, order_questions

if TYPE_CHECKING:
    from ragsweep.sweep.races import BettingRace

FREE = "no llm or judge is called per question: a race would save nothing, so all configs are run in full"


@dataclass
class SweepRace:
    """A race between the configs of a sweep, decided from their records so far (see race_loop.Race)."""

    questions: tuple[str, ...]  # ids, in race order
    order: QuestionOrder
    weights: tuple[float, ...]  # weights of the questions, with a mean of 1; () if the questions have no weights
    metric: str  # the objective
    rule: Betting
    block: int
    has_cost: bool  # whether omitting a question saves a route, an answer or a verdict
    context: RunContext = field(init=False, repr=False, compare=False)  # set when the sweep runs

    key = RUNG

    def open(self, context: RunContext) -> None:
        """Store the command's ``context``; print a line if the race would save nothing."""
        self.context = context
        if not self.has_cost:
            context.terminal.line("race", FREE)

    def close(self) -> None:
        """Print a line if dropping a config would have saved calls, but the race has dropped none."""
        if self.has_cost and all(result.run.state != DROPPED for result in self._results().values()):
            text = f"no config was dropped, so the race saved no questions; {self.rule.guarantee}"
            self.context.terminal.line("race", text)

    def begin(self, jobs: Sequence[int]) -> Rung:
        """Return the first rung or, after an interruption, the last rung that all remaining configs have completed.

        Return a rung with all questions if a race would save nothing, or if fewer than two configs can be compared.
        """
        if not self.has_cost:
            return Rung(None)
        known = self._results()
        dropped = tuple(job for job in jobs if job in known and known[job].run.state == DROPPED)
        alive = [job for job in jobs if job not in dropped]
        reached = [
            known[job].run.race["asked"] if job in known and known[job].run.state == RACING else 0 for job in alive
        ]
        complete = sum(result.run.state == COMPLETE for job, result in known.items() if job not in alive)
        if len(alive) + complete < 2:
            return Rung(None, dropped)
        return Rung(self._next(max(min(reached, default=0) - self.block, 0)), dropped)

    def decide(self, until: int, returned: Mapping[int, Any]) -> Rung:
        """Drop and record the configs that are shown to be worse than the best, and return the next rung.

        ``until`` is the end of the current rung, in questions. The keys of ``returned`` are the jobs that completed
        this rung. If at most one config is left, the next rung contains all questions.
        """
        count, known = len(self.order.first(until)), self._results()  # rounded up to the end of a cluster
        scores = self._scores(known, count)
        racing = {job for job in returned if job in known and known[job].run.state == RACING}
        deficits = self.rule.decide(scores, self.order.clusters).deficit
        dropped = {int(job): deficit for job, deficit in deficits.items() if int(job) in racing}
        for job, deficit in dropped.items():
            run = known[job].run
            facts = {**run.race, "ahead": deficit, "rule": "betting", "guarantee": self.rule.guarantee}
            scored = replace(known[job], run=replace(run, state=DROPPED, race=facts))
            OutcomeWriter(self.context, job).keep_dropped(scored)
        rivals = [job for job, result in known.items() if job not in dropped and result.run.state in (RACING, COMPLETE)]
        total, gone = len(self.questions), f", {len(dropped)} dropped" if dropped else ""
        text = f"{count:,} of {total:,} questions · {counted(len(returned), 'config')}{gone}"
        self.context.terminal.line("race", text)
        return Rung(self._next(count) if len(rivals) > 1 else None, tuple(dropped))

    def end(self, returned: Mapping[int, Any]) -> None:
        """Delete the data of earlier rungs that the ledger no longer uses; ``returned`` is not used."""
        self.context.ledger.drop_unused()

    def _results(self) -> dict[int, Result]:
        assert self.context.sweep
        return results_by_job(self.context.ledger.raced(self.context.sweep.id))

    def _scores(self, known: Mapping[int, Result], count: int) -> dict[str, list[float]]:
        """Map each job to its weighted scores for the first ``count`` questions, or for those completed so far.

        As in comparisons, declined questions have the worst score (see ``fill_declined``), except in a config without
        any score.
        """
        ids, scores = list(self.questions[:count]), np.full((len(known), count), np.nan)
        for row, result in zip(scores, known.values(), strict=True):
            column = dict(zip(result.questions["question_id"], result.questions[self.metric], strict=True))
            row[:] = [column.get(question, np.nan) for question in ids]
        if (scored := ~np.isnan(scores).all(axis=1)).any():
            filled = scores[scored]
            fill_declined(list(compress(known.values(), scored)), self.metric, ids, filled)
            scores[scored] = filled
        scores *= self.weights[:count] or 1.0
        asked = {
            job: count if one.run.state == COMPLETE else min(count, one.questions.rows) for job, one in known.items()
        }
        return {str(job): row[: asked[job]] for job, row in zip(known, scores.tolist(), strict=True)}

    def _next(self, count: int) -> int | None:
        """Return the end, in questions, of the rung that follows ``count`` questions; None if it has all questions."""
        until = len(self.order.first(count + self.block))
        return until if until < len(self.questions) else None


def prepare_race(settings: BettingRace, experiments: Sequence[Experiment], configs: int) -> SweepRace:
    """Create a race of ``configs`` configs; for a search, ``experiments`` covers only some of them.

    Raises ConfigError for a single config; for configs with different questions, seeds or objectives; for an objective
    that is not a bounded mean with a direction; and for an invalid block, margin or level.
    """
    first = experiments[0]
    if configs < 2:
        raise ConfigError(
            f"{WHERE}: a race needs several configs, and there is only one; sweep over several values or, in a search,"
            " raise hydra.sweeper.n_trials"
        )
    for experiment in experiments:
        for key in ("seed", "objective"):
            if experiment.config[key] != first.config[key]:
                raise ConfigError(f"{key}: cannot differ in a race; give it one value")
        if experiment.dataset.golden.digest != first.dataset.golden.digest:
            raise ConfigError(
                f"{WHERE}: all configs must have the same questions, but {experiment.name} has others; do not"
                " sweep over keys of dataset or partition"
            )
    name, questions = objectives(first.config)[0], first.dataset.golden.questions
    metric = next(metric for metric in first.metrics if metric.name == name)
    if metric.quantile is not None or metric.higher_is_better is None:
        kind = "is a quantile, not a mean" if metric.quantile is not None else "has no direction"
        raise ConfigError(f"{WHERE}: objective={name} {kind}, so it cannot be raced; choose another objective")
    if not 1 <= settings.block < len(questions):
        raise ConfigError(
            f"{WHERE}.block: must be at least 1 and less than the number of questions, {len(questions)},"
            f" got {settings.block}"
        )
    order = order_questions(questions, int(first.config["seed"]))
    in_order = [questions[n] for n in order.positions]
    weights = weights_of(in_order) or ()
    relative = tuple(weight * len(weights) / sum(weights) for weight in weights)
    ids = tuple(question.id for question in in_order)
    rule = settings.betting(metric, max(relative, default=1.0))
    graphs = [experiment.graph for experiment in experiments]
    # An external system answers all questions in the first rung, because its contexts are located together.
    has_cost = any(graph.verdicts if graph.located else graph.asked for graph in graphs)
    return SweepRace(ids, order, relative, name, rule, settings.block, has_cost)
