"""Ask a config the first questions of a race only: what one rung of it evaluates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ragsweep.core.objectives import objectives
from ragsweep.core.remembering import remembered
from ragsweep.core.results import RACING, Result
from ragsweep.core.types import Dataset, JudgedMetric, Metric
from ragsweep.evaluation.evaluator import Evaluator, Experiment, facts
from ragsweep.evaluation.questions import asked
from ragsweep.stages.executor import Executor
from ragsweep.sweep.racing import Order, order

KEY = "questions.until"
"""The key of a config that says how many questions of the race's order are asked; null: all."""

_DEAR = frozenset({"latency", "exact"})
"""What metrics may need that is measured apart from the answer to a question: not before a config has won."""


@dataclass(frozen=True)
class Course:
    """What the configs of a race have in common: the questions in the order of asking, and the metric."""

    questions: tuple[str, ...]  # their ids
    clusters: tuple[str, ...]
    metric: Metric

    def first(self, until: int) -> int:
        """Count the questions of a rung that goes so far: no cluster is cut."""
        return len(Order(tuple(range(len(self.questions))), self.clusters).first(until))


def course(experiment: Experiment) -> Course:
    """Lay out the race that a config takes part in."""
    questions = experiment.dataset.golden.questions
    found = _ordered(questions, int(experiment.config["seed"]))
    metric = next(one for one in experiment.metrics if one.name == objectives(experiment.config)[0])
    return Course(tuple(questions[n].id for n in found.positions), found.clusters, metric)


def evaluate(evaluator: Evaluator, experiment: Experiment, until: int) -> Result:
    """Evaluate a config on the first questions of the race, whole clusters of them.

    Rankings are made for all questions: they are a stage of the whole config, and cost no call. Answers, and the
    verdicts that the objective reads, are asked for these questions only; other verdicts, latency, and what an
    approximate index misses are left to the end. The result is RACING and has the whole config's signature.
    """
    whole, total = experiment.dataset, len(experiment.dataset.golden.questions)
    if experiment.graph.route is None and experiment.graph.query is None:
        evaluator.executor.get(experiment.graph.context, asked(whole.golden.questions).queries)
    result = _evaluator(evaluator.executor, until).evaluate(_cut(experiment, until))
    told = len(result.outcomes["question_id"])
    return replace(result, dataset=facts(whole), state=RACING, race={"asked": told, "of": total})


@lru_cache(1)
def _evaluator(executor: Executor, until: int) -> Evaluator:
    """Share what the configs of one rung share; that of the rung before is forgotten."""
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
    return not isinstance(metric, JudgedMetric) and not _DEAR & set(metric.needs)


_ordered = remembered(order)


@remembered
def _part(dataset: Dataset, seed: int, until: int) -> Dataset:
    """Keep the first questions of the race, in its order."""
    questions = dataset.golden.questions
    first = _ordered(questions, seed).first(until)
    return replace(dataset, golden=replace(dataset.golden, questions=tuple(questions[n] for n in first)))
