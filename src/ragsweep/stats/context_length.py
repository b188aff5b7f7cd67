"""Configs that differ in the length of their context alone, where a metric can only rise with it."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from ragsweep.core.results import Result
from ragsweep.stats.comparable import differing_parameters
from ragsweep.stats.inference.matrix import Matrix

LENGTHENING = ("top_k", "context_budget")
"""Keys that lengthen the context and change nothing else."""
RISING = ("context_recall", "context_ndcg", "evidence_coverage")
"""Metrics that a longer context of the same ranking can only raise; prefixes (context_ndcg_exponential, too)."""


def length_keys(one: Result, other: Result, matrix: Matrix) -> tuple[str, ...]:
    """Return the keys by which one context is a prefix of the other, where the metric can only rise with its length.

    The metric is one of ``RISING``, the configs differ in nothing else, and no question's score contradicts it. Empty
    where any of this is false.
    """
    if not matrix.metric.startswith(RISING) or not set(differing_parameters(one, other)) <= set(LENGTHENING):
        return ()
    first, second = _lengths(one), _lengths(other)
    longer = all(map(operator.ge, first, second))
    if first == second or not (longer or all(map(operator.le, first, second))):
        return ()
    rows = [matrix.configs.index(result.name) for result in (one, other)]
    gains = matrix.better[rows[0]] - matrix.better[rows[1]]
    if ((gains if longer else -gains) < 0).any():
        return ()
    return tuple(key for key, before, after in zip(LENGTHENING, first, second, strict=True) if before != after)


def rises_with(chosen: Result, others: Sequence[Result], matrix: Matrix) -> tuple[str, ...]:
    """List the keys that make the context of a config longer than that of another one, and its metric higher."""
    shorter = [other for other in others if _lengths(other) < _lengths(chosen)]
    return tuple(dict.fromkeys(key for other in shorter for key in length_keys(chosen, other, matrix)))


def _lengths(result: Result) -> list[float]:
    limits = [result.config.get(key) for key in LENGTHENING]
    return [math.inf if limit is None else float(limit) for limit in limits]
