"""The rungs of a race: the order of its questions, and the evaluation of a config on the first questions."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.results import RACING, DatasetFacts, Result, objectives
from ragsweep.core.types import Dataset, JudgedMetric, Metric, Question
from ragsweep.golden.clusters import clusters
from ragsweep.golden.partition import strata

if TYPE_CHECKING:
    from ragsweep.evaluation.evaluator import Evaluator
    from ragsweep.evaluation.experiment import Experiment


_MEASURED_AT_END = frozenset({"latency", "exact"})
"""Values of a metric's ``needs`` that are measured only after a race, and only for configs that were not dropped."""


def evaluate_rung(evaluator: Evaluator, experiment: Experiment, until: int, facts: DatasetFacts) -> Result:
    """Evaluate a config on the first ``until`` questions of the race; ``until`` is rounded up to whole clusters.

    Rankings are computed for all questions, unless the config has a router or a query stage, which may call a service.
    Answers, and the verdicts that the objective needs, are requested only for the first questions. Other verdicts,
    latency and, unless the objective needs them, the misses of an approximate index are measured after the race. The
    result has the state RACING, the whole config's signature, and the ``facts`` of its whole dataset.
    """
    whole, objective = experiment.dataset, objectives(experiment.config)[0]
    if experiment.graph.route is None and experiment.graph.query is None:
        evaluator.executor.get(experiment.graph.context, experiment.table.queries)
    metrics = tuple(metric for metric in experiment.metrics if metric.name == objective or _is_cheap(metric))
    repetitions = tuple(
        one._replace(verdicts={name: node for name, node in one.verdicts.items() if name == objective})
        for one in experiment.graph.repetitions
    )
    kept: dict[str, Any] = {"latency": {}, "candidates": 0, "repetitions": repetitions}
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
    questions = dataset.golden.questions
    first = order_questions(questions, seed).first(until)
    return replace(dataset, golden=replace(dataset.golden, questions=tuple(questions[n] for n in first)))


SALT = "ragsweep.racing/1"
"""The salt that is hashed with the seed and a cluster's name to order the questions."""


class QuestionOrder(NamedTuple):
    """Questions in race order: the position of each in the golden set, and its cluster."""

    positions: tuple[int, ...]
    clusters: tuple[str, ...]

    def first(self, until: int) -> tuple[int, ...]:
        """Return the positions of the first ``until`` questions, extended to the end of the last cluster.

        Return () if ``until`` is 0 or less.
        """
        end = min(max(until, 0), len(self.positions))
        while 0 < end < len(self.positions) and self.clusters[end] == self.clusters[end - 1]:
            end += 1
        return self.positions[:end]


@memoize_by_identity
def order_questions(questions: Sequence[Question], seed: int) -> QuestionOrder:
    """Order questions at random, identically for all configs, so that every prefix has a fair share of each stratum.

    The strata are defined by category and kind, as in a partition. The clusters of a stratum are shuffled and spread
    evenly over the whole order: each cluster gets an interval in proportion to its size, and is placed at random within
    it. The questions of a cluster stay together. The order depends on the seed and the questions, but not on the input
    order.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for position, cluster in enumerate(clusters(questions)):
        members[cluster].append(position)
    places: dict[str, float] = {}
    by_cluster = {name: [questions[position] for position in inside] for name, inside in members.items()}
    for names in strata(by_cluster).values():
        size, before = sum(len(members[name]) for name in names), 0
        for name in sorted(names, key=lambda name: _chance(name, seed, "sequence")):
            places[name] = (before + _chance(name, seed, "place") * len(members[name])) / size
            before += len(members[name])
    ordered = [
        (position, name)
        for name in sorted(places, key=lambda name: (places[name], name))
        for position in sorted(members[name], key=lambda position: questions[position].id)
    ]
    return QuestionOrder(tuple(position for position, _ in ordered), tuple(name for _, name in ordered))


def _chance(cluster: str, seed: int, what: str) -> float:
    """Return a number in [0, 1) for a cluster, derived from a hash of the arguments."""
    drawn = hashlib.sha256(f"{SALT}\0{seed}\0{what}\0{cluster}".encode()).digest()
    return int.from_bytes(drawn[:6], "big") / 2**48
