"""The plan of a race: the questions in the order of asking, and the evaluation of a config on the first of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.results import RACING, Result, objectives
from ragsweep.core.types import Dataset, JudgedMetric, Metric
from ragsweep.evaluation.evaluator import Evaluator, Experiment, facts
from ragsweep.evaluation.question_table import tabulate
from ragsweep.stages.executor import Executor
from ragsweep.sweep.racing import QuestionOrder, order_questions

KEY = "questions.until"
"""The key of a config that sets how many questions of the race's order are asked; null: all."""

_MEASURED_AT_END = frozenset({"latency", "exact"})
"""Needs of metrics that are measured apart from answers: of a config that was not dropped only."""


@dataclass(frozen=True)
class RacePlan:
    """The questions of a race in the order of asking, and its metric."""

    questions: tuple[str, ...]  # ids
    clusters: tuple[str, ...]
    metric: Metric

    def count(self, until: int) -> int:
        """Return the number of questions of a rung, whole clusters."""
        return len(QuestionOrder(tuple(range(len(self.questions))), self.clusters).first(until))


def race_plan(experiment: Experiment) -> RacePlan:
    """Return the plan of the race in which a config takes part."""
    questions = experiment.dataset.golden.questions
    order = _ordered(questions, int(experiment.config["seed"]))
    metric = next(one for one in experiment.metrics if one.name == objectives(experiment.config)[0])
    return RacePlan(tuple(questions[n].id for n in order.positions), order.clusters, metric)


def evaluate_rung(evaluator: Evaluator, experiment: Experiment, until: int) -> Result:
    """Evaluate a config on the first questions of the race, whole clusters of them.

    Rankings are computed for all questions: they are a stage of the whole config, and cost no call. Answers, and the
    verdicts that the objective needs, are requested for these questions only; other verdicts, latency, and the misses
    of an approximate index are left to the end. The result is RACING and has the whole config's signature.
    """
    whole, total = experiment.dataset, len(experiment.dataset.golden.questions)
    if experiment.graph.route is None and experiment.graph.query is None:
        evaluator.executor.get(experiment.graph.context, tabulate(whole.golden.questions).queries)
    result = _evaluator(evaluator.executor, until).evaluate(_cut(experiment, until))
    count = len(result.outcomes["question_id"])
    return replace(result, dataset=facts(whole), state=RACING, race={"asked": count, "of": total})


@lru_cache(1)
def _evaluator(executor: Executor, until: int) -> Evaluator:
    """Return the evaluator that the configs of one rung share."""
    return Evaluator(executor)


def _cut(experiment: Experiment, until: int) -> Experiment:
    objective = objectives(experiment.config)[0]
    metrics = tuple(one for one in experiment.metrics if one.name == objective or _is_cheap(one))
    verdicts = {name: node for name, node in experiment.graph.verdicts.items() if name == objective}
    kept: dict[str, Any] = {"latency": {}, "candidates": 0, "verdicts": verdicts}
    if not any("exact" in metric.needs for metric in metrics):
        kept["approximate"] = {}
    return replace(
        experiment,
        dataset=_part(experiment.dataset, int(experiment.config["seed"]), until),
        graph=replace(experiment.graph, **kept),
        metrics=metrics,
        coverage=0.0,
        targets={},
    )


def _is_cheap(metric: Metric) -> bool:
    return not isinstance(metric, JudgedMetric) and not _MEASURED_AT_END & set(metric.needs)


_ordered = memoize_by_identity(order_questions)


@memoize_by_identity
def _part(dataset: Dataset, seed: int, until: int) -> Dataset:
    """Return a dataset with the first questions of the race, in its order."""
    questions = dataset.golden.questions
    first = _ordered(questions, seed).first(until)
    return replace(dataset, golden=replace(dataset.golden, questions=tuple(questions[n] for n in first)))
