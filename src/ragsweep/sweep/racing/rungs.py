"""Evaluate one config on a rung of a race."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.results import RACING, DatasetFacts, Result, objectives
from ragsweep.core.types import Dataset, JudgedMetric, Metric
from ragsweep.sweep.racing.question_order import ordered

if TYPE_CHECKING:
    from ragsweep.evaluation.evaluator import Evaluator
    from ragsweep.evaluation.experiment import Experiment

_MEASURED_AT_END = frozenset({"latency", "exact"})
"""Requirements of metrics that are measured separately, and only for configs that are not dropped."""


def evaluate_rung(evaluator: Evaluator, experiment: Experiment, until: int, facts: DatasetFacts) -> Result:
    """Evaluate a config on the first ``until`` questions of the race, rounded up to whole clusters.

    Rankings are computed for all questions, unless a router or a query stage, which may make calls, precedes them.
    Answers, and the verdicts that the objective needs, are requested for the first questions only. Other verdicts,
    latency, and (unless the objective needs them) the misses of an approximate index are measured after the race. The
    result has the state RACING, the whole config's signature, and the ``facts`` of its whole dataset.
    """
    whole, objective = experiment.dataset, objectives(experiment.config)[0]
    if experiment.graph.route is None and experiment.graph.query is None:
        evaluator.executor.get(experiment.graph.context, experiment.table.queries)
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
    result = evaluator.evaluate(shortened)
    asked = {"asked": len(result.questions["question_id"]), "of": len(whole.golden.questions)}
    return replace(result, run=replace(result.run, dataset=facts, state=RACING, race=asked))


def _is_cheap(metric: Metric) -> bool:
    return not isinstance(metric, JudgedMetric) and not _MEASURED_AT_END & set(metric.needs)


@memoize_by_identity
def _first_questions(dataset: Dataset, seed: int, until: int) -> Dataset:
    """Return a dataset with only the first questions of the race, in race order."""
    questions = dataset.golden.questions
    first = ordered(questions, seed).first(until)
    return replace(dataset, golden=replace(dataset.golden, questions=tuple(questions[n] for n in first)))
