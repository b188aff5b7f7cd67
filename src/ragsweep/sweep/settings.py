"""Check the settings of a config that belong to no part; nothing is loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.identity import BuiltPart
from ragsweep.core.results import objectives
from ragsweep.core.types import Dataset, Metric
from ragsweep.evaluation.question_table import check_labels, has_evidence, tabulate
from ragsweep.stats.inference.recommending import COSTS

METRIC = ("name", "needs", "unit", "higher_is_better", "bounds", "quantile", "score")
"""What a metric must have, see types.Metric."""


def check_metric(metric: object, where: str) -> None:
    """Raise ConfigError for a class that lacks something of a metric."""
    if lacking := [name for name in METRIC if not hasattr(metric, name)]:
        raise ConfigError(
            f"{where}: {type(metric).__name__} lacks {', '.join(lacking)}; see ragsweep.core.types.Metric"
        )


def checked_metrics(built: Sequence[BuiltPart], plain: Mapping[str, Any], dataset: Dataset) -> tuple[Metric, ...]:
    """Return the metrics of a config, checked against each other, the config's settings and the dataset."""
    metrics: dict[str, Metric] = {}
    for one in built:
        if one.value.name in metrics:
            raise ConfigError(f'metrics: "{one.value.name}" is defined twice; remove one with ~metrics.KEY')
        metrics[one.value.name] = one.value
    wanted = {"objective": objectives(plain), "headline": plain["headline"]}
    for key, names in wanted.items():
        for name in names:
            if name not in metrics:
                raise ConfigError(f'{key}: no metric "{name}"{nearest(str(name), metrics)}')
    _check_constraints(plain["constraints"] or {}, metrics)
    _check_margin(plain["recommend"] or {})
    check_labels(tabulate(dataset.golden.questions), metrics)
    lacking = [metric.name for metric in metrics.values() if "evidence" in metric.needs]
    if lacking and not any(has_evidence(question) for question in dataset.golden.questions):
        raise ConfigError(
            f'no question of "{dataset.name}" has evidence, and {len(lacking)} metrics need it'
            f" ({', '.join(lacking[:3])}, ...); label evidence, or choose metrics=unlabelled"
        )
    return tuple(metrics.values())


def _check_constraints(limits: Mapping[str, Any], metrics: Mapping[str, Metric]) -> None:
    """Refuse a limit on what is no cost, or is not measured: it could never be kept."""
    for name, limit in limits.items():
        if name not in COSTS:
            raise ConfigError(f"constraints.{name}: no such cost{nearest(str(name), COSTS)}")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0):
            raise ConfigError(f"constraints.{name}: must be a number above 0, or null, given {limit!r}")
        if limit is not None and name not in metrics:
            raise ConfigError(f'constraints.{name}: no metric "{name}" is measured{nearest(name, metrics)}')


def _check_margin(given: Mapping[str, Any]) -> None:
    margin = given.get("margin")
    if isinstance(margin, bool) or not isinstance(margin, int | float | None) or not 0 <= (margin or 0) < math.inf:
        raise ConfigError(f"recommend.margin: must be a number of 0 or more, or null, given {margin!r}")


def coverage(plain: Mapping[str, Any]) -> float:
    """Return the share of the questions that must be scored. Raises ConfigError."""
    share = plain["coverage"]
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise ConfigError(f"coverage: must be a share between 0 and 1, given {share!r}")
    return float(share)


def context_budget(plain: Mapping[str, Any]) -> int | None:
    """Return the tokens that a context may have. Raises ConfigError."""
    budget = plain["context_budget"]
    if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget < 1):
        raise ConfigError(f"context_budget: must be a whole number of at least 1, or null, given {budget!r}")
    return budget


def lengths(plain: Mapping[str, Any]) -> tuple[int, int]:
    """Check and return ``top_k`` and ``depth``."""
    for key in ("top_k", "depth", "seed"):
        lowest = 0 if key == "seed" else 1
        if not isinstance(plain[key], int) or isinstance(plain[key], bool) or plain[key] < lowest:
            raise ConfigError(f"{key}: must be a whole number of at least {lowest}, given {plain[key]!r}")
    top_k, depth = int(plain["top_k"]), int(plain["depth"])
    if top_k > depth:
        raise ConfigError(f"top_k={top_k} is more than depth={depth}; raise depth, or lower top_k")
    threshold = plain["evidence"]["threshold"]
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold <= 1:
        raise ConfigError(f"evidence.threshold: must be above 0 and at most 1, given {threshold!r}")
    return top_k, depth
