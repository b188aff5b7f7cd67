"""Read and check human labels of answers; find the bounds and the scores of metrics in recorded configs."""

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError, InputError, RagsweepError
from ragsweep.core.results import HumanLabel, Result
from ragsweep.golden.human_labels import check_scale, read_labels
from ragsweep.golden.partition import ALL

LABELS = """human labels of some answers (CSV, TSV or JSON lines: question_id, metric, label, run, answer); they
correct the difference of a judged metric; the corrected difference determines the verdict"""
Scores = Mapping[str, Mapping[str, float]]  # metric -> question id -> number


def read_run_labels(path: Path | None, results: Sequence[Result]) -> list[HumanLabel]:
    """Read human labels for answers of recorded configs; return an empty list if ``path`` is None.

    Raises InputError for faults in the file, and for labels outside the bounds of their metric.
    """
    labels = read_labels(path) if path else []
    check_run_labels(labels, results)
    return labels


def check_run_labels(labels: Sequence[HumanLabel], results: Sequence[Result]) -> None:
    """Raise InputError if a label is outside the bounds of its metric.

    The bounds are defined by a result's config or, if no config defines them, inferred by `bounds_of_scores`.
    """
    bounds = {}
    for metric in dict.fromkeys(label.metric for label in labels):
        for result in results:
            try:
                bounds[metric] = metric_bounds(result.run.config, metric)
            except ConfigError:
                bounds.setdefault(metric, bounds_of_scores(result.questions.get(metric) or ()))
    check_scale(labels, bounds)


def bounds_of_scores(scores: Collection[float | None]) -> tuple[float, float]:
    """Infer the bounds of a metric from its scores: 0 and 1 if it has scores and all are in [0, 1], else infinite."""
    known = [score for score in scores if score is not None and math.isfinite(score)]
    return (0.0, 1.0) if known and 0 <= min(known) <= max(known) <= 1 else (-math.inf, math.inf)


def check_labelled(labels: Sequence[HumanLabel], metrics: Sequence[str]) -> None:
    """Raise InputError if labels are given, but none is for a metric that the command compares."""
    named = list(dict.fromkeys(label.metric for label in labels))
    if named and not set(named) & set(metrics):
        fact = f"all labels are of {', '.join(named)}, none of a compared metric ({', '.join(metrics)})"
        raise InputError(f"--labels: {fact}; label one of the compared metrics, or compare a labelled metric")


def metric_bounds(config: Mapping[str, Any], metric: str) -> tuple[float, float]:
    """Return the bounds of a metric; an undefined bound is infinite.

    The definition under the key ``metrics.NAME`` takes precedence. Raises ConfigError if this definition cannot be
    built, or if the config does not define the metric.
    """
    nodes = config.get("metrics") or {}
    for key in sorted(nodes, key=lambda key: key != metric):
        if nodes[key] is None:
            continue
        try:
            part = Builder().build(nodes[key], f"metrics.{key}").value
        except RagsweepError as fault:
            if key == metric:
                raise ConfigError(f"the bounds of {metric} are unknown: {fault}") from None
            continue
        if part.name == metric:
            low, high = part.bounds
            return (-math.inf if low is None else low), (math.inf if high is None else high)
    raise ConfigError(f"the bounds of {metric} are unknown, because the recorded config does not define this metric")


def widest_bounds(results: Sequence[Result], metric: str) -> tuple[float, float]:
    """Return the lowest and the highest bound of a metric across the results' configs.

    Raises ConfigError as `metric_bounds` does.
    """
    lowest, highest = zip(*(metric_bounds(result.run.config, metric) for result in results), strict=True)
    return min(lowest), max(highest)


def metric_range(results: Sequence[Result], metric: str) -> float:
    """Return the distance between the lowest and the highest bound of a metric across the results' configs.

    Raises ConfigError for a metric without finite bounds, and for a result on a partition or a limited number of
    questions, because these questions change as the golden set grows.
    """
    for result in results:
        if result.run.dataset.partition != ALL or (result.run.config.get("dataset") or {}).get("limit"):
            fact = f"{result.name} was measured on a part of the golden set, which changes as the set grows"
            raise ConfigError(f"--sequential: {fact}; rerun it with partition=all and without dataset.limit")
    try:
        lowest, highest = widest_bounds(results, metric)
    except ConfigError as fault:
        raise ConfigError(f"--sequential: {fault}; omit --sequential") from None
    if not math.isfinite(highest - lowest):
        raise ConfigError(f"--sequential: {metric} has no bounds, which this test needs; omit --sequential")
    return highest - lowest


def known_bounds(results: Sequence[Result], metric: str) -> tuple[float, float]:
    """Return a metric's widest bounds; both are infinite if a config lacks a valid definition of the metric."""
    try:
        return widest_bounds(results, metric)
    except ConfigError:
        return -math.inf, math.inf


def scores_by_question(result: Result) -> Scores:
    """Map each metric of an evaluated config to its finite scores by question id."""
    return {
        name: {
            question: float(value)
            for question, value in zip(result.questions["question_id"], result.questions[name], strict=True)
            if value is not None and math.isfinite(value)
        }
        for name in result.summaries.metrics
        if name in result.questions
    }
