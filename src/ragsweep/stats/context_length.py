"""Differences between two configs that their context lengths may explain."""

import math
import operator
from collections.abc import Sequence

from ragsweep.core.results import Result, Run
from ragsweep.stats.audits import LongerContext
from ragsweep.stats.comparable import differing_parameters
from ragsweep.stats.inference.matrix import Matrix

LENGTHENING = ("top_k", "context_budget")
"""Keys whose larger values only lengthen the context."""

RISING = ("context_recall", "context_ndcg", "evidence_coverage")
"""Metrics that rise with context length, and prefixes of their variants, such as ``context_ndcg_exponential``."""

TOKENS = "context_tokens"
"""The metric that measures the length of a context."""

LONGER = 1.5
"""Minimum ratio of mean tokens for one context to count as longer."""


def length_keys(one: Result, other: Result, matrix: Matrix) -> tuple[str, ...]:
    """Return the keys that make one config's context longer, if a longer context can only raise the metric.

    Empty unless the metric is one of ``RISING``, the configs differ only in ``LENGTHENING`` keys (so that the longer
    context begins with the shorter one), and no question scores worse with the longer context.
    """
    if not matrix.metric.startswith(RISING) or not set(differing_parameters(one.run, other.run)) <= set(LENGTHENING):
        return ()
    first, second = _lengths(one.run), _lengths(other.run)
    longer = all(map(operator.ge, first, second))
    if first == second or not (longer or all(map(operator.le, first, second))):
        return ()
    rows = [matrix.configs.index(result.name) for result in (one, other)]
    gains = matrix.better[rows[0]] - matrix.better[rows[1]]
    if ((gains if longer else -gains) < 0).any():
        return ()
    return tuple(key for key, before, after in zip(LENGTHENING, first, second, strict=True) if before != after)


def rises_with(chosen: Result, others: Sequence[Result], matrix: Matrix) -> tuple[str, ...]:
    """List the keys that make the context of ``chosen`` longer than another's, if this can only raise the metric."""
    shorter = [other for other in others if _lengths(other.run) < _lengths(chosen.run)]
    return tuple(dict.fromkeys(key for other in shorter for key in length_keys(chosen, other, matrix)))


def _lengths(run: Run) -> list[float]:
    limits = [run.config.get(key) for key in LENGTHENING]
    return [math.inf if limit is None else float(limit) for limit in limits]


def _number(run: Run, name: str) -> float:
    if name in LENGTHENING:
        return _lengths(run)[LENGTHENING.index(name)]
    try:
        return float(run.parameters.get(name, math.nan))
    except ValueError:
        return math.nan


def longer_context(before: Result, after: Result, metric: str) -> LongerContext | None:
    """Return how much longer the context of ``after`` is than that of ``before``, if this may explain a higher metric.

    None if the metric does not rise with the length, if the length was not measured or grew by a factor below
    ``LONGER``, or if no key of the chunker, ``top_k`` or ``context_budget`` differs other than by a smaller number.
    """
    if not metric.startswith(RISING) or not all(TOKENS in result.summaries.metrics for result in (before, after)):
        return None
    tokens = [result.summaries.metrics[TOKENS].value for result in (before, after)]
    keys = tuple(
        name
        for name in differing_parameters(before.run, after.run)
        if (name in LENGTHENING or name.partition(".")[0] == "chunker")
        and not _number(after.run, name) < _number(before.run, name)  # NaN, from a text, is not less
    )
    if not keys or not 0 < tokens[0] * LONGER <= tokens[1]:
        return None
    return LongerContext(tokens[0], tokens[1], keys, _equal(before, after, tokens))


def _equal(before: Result, after: Result, tokens: list[float]) -> tuple[str, ...]:
    """Return overrides for equal lengths: the longer context's tokens as budget, and a ``top_k`` that fills it.

    A budget alone would cut the longer contexts without lengthening the others. Empty if that ``top_k`` would exceed
    ``depth``.
    """
    per_chunk = min(count / int(one.run.config["top_k"]) for one, count in zip((before, after), tokens, strict=True))
    top_k = math.ceil(LONGER * tokens[1] / per_chunk)  # a question's chunks may be shorter than the mean chunk
    depth = min(int(one.run.config.get("depth") or top_k) for one in (before, after))
    return (f"context_budget={round(tokens[1])}", f"top_k={top_k}") if top_k <= depth else ()
