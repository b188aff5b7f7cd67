"""Longer contexts: the keys that lengthen a context, and the metrics that rise with its length."""

import math
import operator
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from ragsweep.core.results import Result, Run
from ragsweep.stats.audits import LongerContext
from ragsweep.stats.comparable import differing_parameters, factors, scoring_parameters
from ragsweep.stats.inference.matrix import Matrix

LENGTHENING = ("top_k", "context_budget")
"""Keys whose larger values only lengthen the context."""

RISING = ("context_recall", "context_ndcg", "evidence_coverage")
"""Metrics that rise with context length; variants such as ``context_ndcg_exponential`` have the same prefix."""

TOKENS = "context_tokens"
"""The metric that measures the length of a context."""

LONGER = 1.5
"""Minimum ratio of mean tokens for one context to count as longer."""


def length_keys(one: Result, other: Result, matrix: Matrix) -> tuple[str, ...]:
    """Return the keys that make one of two configs' contexts longer, if a longer context can only raise the metric.

    The result is empty unless three conditions hold. The metric's name begins with one of ``RISING``. The configs
    differ only in ``LENGTHENING`` keys, all in the same direction, so that the longer context begins with the shorter
    one. No question scores worse with the longer context.
    """
    keys, falls = _lengthened(one, other, matrix)
    return () if falls else keys


def rises_with(chosen: Result, others: Sequence[Result], matrix: Matrix) -> tuple[str, ...]:
    """List the keys by which ``chosen`` has a longer context than other configs, if length can only raise the metric.

    A key lowers a score if two of the ``others`` differ only in this key and at least one question scores worse with
    the longer context. Configs that differ from ``chosen`` in such a key are ignored. The result is empty if several of
    the listed keys together lower a score.
    """
    shorter = [other for other in others if _lengths(other.run) < _lengths(chosen.run)]
    found = [keys for other in shorter if (keys := length_keys(chosen, other, matrix))]
    families = defaultdict[Any, list[Result]](list)  # comparing all pairs of a large grid would take minutes
    for other in others if found else ():
        rest = (item for item in scoring_parameters(other.run).items() if item[0] not in LENGTHENING)
        families[frozenset(rest)].append(other)
    pairs = [_lengthened(*pair, matrix) for family in families.values() for pair in combinations(family, 2)]
    lowering = [set(keys) for keys, falls in pairs if falls]
    kept = dict.fromkeys(key for keys in found if not any({one} in lowering for one in keys) for key in keys)
    return () if any(keys <= kept.keys() for keys in lowering) else tuple(kept)


def _lengthened(one: Result, other: Result, matrix: Matrix) -> tuple[tuple[str, ...], bool]:
    """Return the keys that make one of two contexts longer (see ``length_keys``), and whether they lower any score."""
    if not matrix.metric.startswith(RISING) or not set(differing_parameters(one.run, other.run)) <= set(LENGTHENING):
        return (), False
    first, second = _lengths(one.run), _lengths(other.run)
    longer = all(map(operator.ge, first, second))
    if first == second or not (longer or all(map(operator.le, first, second))):
        return (), False
    rows = [matrix.configs.index(result.name) for result in (one, other)]
    gains = matrix.better[rows[0]] - matrix.better[rows[1]]
    keys = tuple(key for key, before, after in zip(LENGTHENING, first, second, strict=True) if before != after)
    return keys, bool(((gains if longer else -gains) < 0).any())


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
    """Return the context lengths of two configs, if the longer context of ``after`` may explain a higher metric.

    Return None if the metric does not rise with the length, if a length is 0 or was not measured, if ``after`` is
    longer by a factor below ``LONGER``, or if no key explains the greater length. The length is explained by a replaced
    chunker; otherwise by a chunker parameter, ``top_k`` or ``context_budget`` that differs and is not a smaller number
    in ``after``.
    """
    if not metric.startswith(RISING) or not all(TOKENS in result.summaries.metrics for result in (before, after)):
        return None
    tokens = [result.summaries.metrics[TOKENS].value for result in (before, after)]
    keys = tuple(
        name
        for name in (factor.name for factor in factors(before, after))
        if (name in LENGTHENING or name.partition(".")[0] == "chunker")
        and not _number(after.run, name) < _number(before.run, name)  # other values become NaN, and NaN is not less
    )
    if not keys or not 0 < tokens[0] * LONGER <= tokens[1]:
        return None
    return LongerContext(tokens[0], tokens[1], keys, _equal(before, after, tokens))


def _equal(before: Result, after: Result, tokens: list[float]) -> tuple[str, ...]:
    """Return overrides for equal lengths: the longer context's tokens as budget, and a ``top_k`` to fill this budget.

    A budget alone would cut the longer contexts without lengthening the shorter ones. The result is empty if that
    ``top_k`` would exceed ``depth``.
    """
    per_chunk = min(count / int(one.run.config["top_k"]) for one, count in zip((before, after), tokens, strict=True))
    top_k = math.ceil(LONGER * tokens[1] / per_chunk)  # a question's chunks may be shorter than the mean chunk
    depth = min(int(one.run.config.get("depth") or top_k) for one in (before, after))
    return (f"context_budget={round(tokens[1])}", f"top_k={top_k}") if top_k <= depth else ()
