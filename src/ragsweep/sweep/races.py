"""Race the configs of a sweep: decide which configs get the next questions, and which are dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ragsweep.core.errors import ConfigError
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.results import COMPLETE, DROPPED, RACING, Result, objectives
from ragsweep.core.types import Dataset, JudgedMetric, Metric, weights_of
from ragsweep.evaluation.evaluator import Evaluator, facts
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.question_table import tabulate
from ragsweep.stages.executor import Executor
from ragsweep.sweep.job import RUNG
from ragsweep.sweep.race_loop import Rung
from ragsweep.sweep.racing import Betting, QuestionOrder, order_questions
from ragsweep.sweep.recording import OutcomeWriter
from ragsweep.sweep.session import RunContext

WHERE = "hydra.sweeper.race"
FREE = "nothing is asked by question here (no llm, no judge): a race would save nothing, and all configs are run whole"

_MEASURED_AT_END = frozenset({"latency", "exact"})
"""Needs of metrics that are measured separately, and only for configs that are not dropped."""

_ordered = memoize_by_identity(order_questions)


@dataclass(frozen=True)
class RacePlan:
    """The ordered questions of a race, and its metric."""

    questions: tuple[str, ...]  # ids
    clusters: tuple[str, ...]
    metric: Metric
    weights: tuple[float, ...] = ()  # of the questions, with a mean of 1; empty if all are equal

    def count(self, until: int) -> int:
        """Return the number of questions of a rung, rounded up to whole clusters."""
        return len(QuestionOrder(tuple(range(len(self.questions))), self.clusters).first(until))


@dataclass(frozen=True)
class BettingRace:
    """Drops configs that are shown to be worse than the best, by anytime-valid bets (see racing.Betting).

    Args:
        margin: As for Betting.
        level: As for Betting.
        block: Questions between two decisions.
    """

    margin: float = 0.0
    level: float = 0.95
    block: int = 16

    VERSION = "1"

    def betting(self, metric: Metric, heaviest: float = 1.0) -> Betting:
        """Return the rule for a metric, which must have bounds. Raises ConfigError for an invalid margin.

        ``heaviest`` is the largest weight of a question, which scales the range of weighted scores.
        """
        low, high = metric.bounds
        if low is None or high is None:
            raise ConfigError(f"{WHERE}: {metric.name} has no bounds, and cannot be raced; choose another objective")
        rule = Betting(self.margin, self.level, high - low, bool(metric.higher_is_better))
        try:
            rule.check()
        except ConfigError as fault:
            raise ConfigError(f"{WHERE}.{fault}") from None
        return replace(rule, spread=rule.spread * heaviest)


@dataclass
class SweepRace:
    """A race between the configs of a sweep, decided from their records so far (see race_loop.Race)."""

    plan: RacePlan
    rule: Betting
    block: int
    has_cost: bool  # a question costs an answer or a verdict
    context: RunContext | None = None  # set when the sweep runs

    key = RUNG

    def begin(self, jobs: Sequence[int]) -> Rung:
        """Return the first rung; after an interruption, the last rung that all remaining configs have completed."""
        if not self.has_cost:
            self._running.terminal.line("race", FREE)
            return Rung(None)
        known = self._results()
        dropped = tuple(job for job in jobs if job in known and known[job].state == DROPPED)
        alive = [job for job in jobs if job not in dropped]
        reached = [known[job].race["asked"] if job in known and known[job].state == RACING else 0 for job in alive]
        complete = sum(result.state == COMPLETE for job, result in known.items() if job not in alive)
        if len(alive) + complete < 2:
            return Rung(None, dropped)
        return Rung(self._next(max(min(reached, default=0) - self.block, 0)), dropped)

    def decide(self, until: int, returned: Mapping[int, Any]) -> Rung:
        """Drop the configs that are shown to be worse, and return the next rung."""
        run, known, count = self._running, self._results(), self.plan.count(until)
        scores = {str(job): self._scores(result, count) for job, result in known.items()}
        racing = {job for job in returned if job in known and known[job].state == RACING}
        deficits = self.rule.decide(scores, self.plan.clusters).deficit
        dropped = {int(job): deficit for job, deficit in deficits.items() if int(job) in racing}
        for job, deficit in dropped.items():
            facts = {**known[job].race, "ahead": deficit, "rule": "betting", "guarantee": self.rule.guarantee}
            OutcomeWriter(run, job).keep_dropped(replace(known[job], state=DROPPED, race=facts))
        rivals = [job for job, result in known.items() if job not in dropped and result.state in (RACING, COMPLETE)]
        total, gone = len(self.plan.questions), f", {len(dropped)} dropped" if dropped else ""
        run.terminal.line("race", f"{count:,} of {total:,} questions · {len(returned)} configs{gone}")
        return Rung(self._next(count) if len(rivals) > 1 else None, tuple(dropped))

    def end(self, returned: Mapping[int, Any]) -> None:
        """Report a race without a drop; the results of complete configs are in the ledger."""
        self._running.ledger.drop_unused()
        if self.has_cost and all(result.state != DROPPED for result in self._results().values()):
            text = f"no config has been dropped; no questions saved; {self.rule.guarantee}"
            self._running.terminal.line("race", text)

    @property
    def _running(self) -> RunContext:
        assert self.context, "a race needs a running sweep"
        return self.context

    def _results(self) -> dict[int, Result]:
        """Read the results of each config so far, by job number."""
        assert self._running.sweep
        records = self._running.ledger.raced(self._running.sweep.id)
        return {record.job: record.outcome for record in records if isinstance(record.outcome, Result)}

    def _scores(self, result: Result, count: int) -> list[float]:
        """Return a config's weighted scores of the first questions; fewer if it was dropped before."""
        known = dict(zip(result.outcomes["question_id"], result.outcomes[self.plan.metric.name], strict=True))
        count = count if result.state == COMPLETE else min(count, len(known))
        scores = [float(known[question]) for question in self.plan.questions[:count]]
        if not self.plan.weights:
            return scores
        return [score * weight for score, weight in zip(scores, self.plan.weights, strict=False)]

    def _next(self, count: int) -> int | None:
        """Return the end of the next rung; None for all questions."""
        until = self.plan.count(count + self.block)
        return until if until < len(self.plan.questions) else None


def prepare_race(settings: BettingRace, experiments: Sequence[Experiment], configs: int) -> SweepRace:
    """Check a race against its configs.

    Args:
        settings: The configured settings.
        experiments: The configs of the race; for a search, some of them.
        configs: Number of configs in the race.

    Raises:
        ConfigError: There is only one config, the configs have different questions or objectives, the objective is not
            a mean with a direction, or the settings do not fit it.
    """
    first = experiments[0]
    if configs < 2:
        raise ConfigError(f"{WHERE}: a race needs several configs, and there is only one; sweep over more")
    for experiment in experiments:
        for key in ("seed", "objective"):
            if experiment.config[key] != first.config[key]:
                raise ConfigError(f"{key}: cannot differ in a race")
        if experiment.dataset.golden.digest != first.dataset.golden.digest:
            raise ConfigError(f"{WHERE}: all configs must be asked the same questions; {experiment.name} has others")
    name, questions = objectives(first.config)[0], first.dataset.golden.questions
    metric = next(metric for metric in first.metrics if metric.name == name)
    if metric.quantile is not None or metric.higher_is_better is None:
        kind = "is a quantile, no mean" if metric.quantile is not None else "has no direction"
        raise ConfigError(f"{WHERE}: objective={name} {kind}, and cannot be raced; choose another objective")
    if not 1 <= settings.block < len(questions):
        raise ConfigError(
            f"{WHERE}.block: must be at least 1 and less than the {len(questions)} questions, given {settings.block}"
        )
    order = _ordered(questions, int(first.config["seed"]))
    ordered = [questions[n] for n in order.positions]
    weights = weights_of(ordered) or ()
    relative = tuple(weight * len(weights) / sum(weights) for weight in weights)
    plan = RacePlan(tuple(question.id for question in ordered), order.clusters, metric, relative)
    has_cost = any(experiment.graph.asked for experiment in experiments)
    return SweepRace(plan, settings.betting(metric, max(relative, default=1.0)), settings.block, has_cost)


# --- one config on a rung -----------------------------------------------------------------------------------------


def evaluate_rung(evaluator: Evaluator, experiment: Experiment, until: int) -> Result:
    """Evaluate a config on the first questions of the race, in whole clusters.

    Rankings are computed for all questions: they are a stage of the whole config, and need no call. Answers, and the
    verdicts that the objective needs, are requested for these questions only; other verdicts, latency, and the misses
    of an approximate index are measured at the end. The result is RACING and has the whole config's signature.
    """
    whole, objective = experiment.dataset, objectives(experiment.config)[0]
    if experiment.graph.route is None and experiment.graph.query is None:
        evaluator.executor.get(experiment.graph.context, tabulate(whole.golden.questions).queries)
    metrics = tuple(metric for metric in experiment.metrics if metric.name == objective or _is_cheap(metric))
    verdicts = {name: node for name, node in experiment.graph.verdicts.items() if name == objective}
    repeated = tuple(
        one._replace(verdicts={name: node for name, node in one.verdicts.items() if name in verdicts})
        for one in experiment.graph.repetitions
    )
    kept: dict[str, Any] = {"latency": {}, "candidates": 0, "verdicts": verdicts, "repetitions": repeated}
    if not any("exact" in metric.needs for metric in metrics):
        kept["approximate"] = {}
    shortened = replace(
        experiment,
        dataset=_first_questions(whole, int(experiment.config["seed"]), until),
        graph=replace(experiment.graph, **kept),
        metrics=metrics,
        coverage=0.0,
        targets={},
    )
    result = _evaluator(evaluator.executor, until).evaluate(shortened)
    asked = {"asked": len(result.outcomes["question_id"]), "of": len(whole.golden.questions)}
    return replace(result, dataset=facts(whole), state=RACING, race=asked)


@lru_cache(1)
def _evaluator(executor: Executor, until: int) -> Evaluator:
    """Return the evaluator that the configs of one rung share."""
    return Evaluator(executor)


def _is_cheap(metric: Metric) -> bool:
    return not isinstance(metric, JudgedMetric) and not _MEASURED_AT_END & set(metric.needs)


@memoize_by_identity
def _first_questions(dataset: Dataset, seed: int, until: int) -> Dataset:
    """Return a dataset with the first questions of the race, in its order."""
    questions = dataset.golden.questions
    first = _ordered(questions, seed).first(until)
    return replace(dataset, golden=replace(dataset.golden, questions=tuple(questions[n] for n in first)))
