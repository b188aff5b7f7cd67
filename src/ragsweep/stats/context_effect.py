"""The effect of context: the same questions answered with and without context, question by question.

Each question that both configs were scored on falls into one of five kinds. Only "helped" and "hurt" are
differences made by context, and only these two are tested.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ragsweep.core.errors import ConfigError, InputError, nearest
from ragsweep.core.results import objectives
from ragsweep.core.types import JudgedMetric, Metric

HELPED, HURT, KNOWN, NEVER, ABSTAINED = "helped", "hurt", "known already", "never solved", "abstained"
KINDS = (HELPED, HURT, KNOWN, NEVER, ABSTAINED)
METRIC = "success_rate"

WITHOUT_CONTEXT = frozenset({"evidence", "retrieval", "latency", "exact", "passages", "router", "judge"})
"""Needs of metrics that do not score answers, and so cannot compare answers with and without context."""

Columns = Mapping[str, Sequence[Any]]
"""A table of outcomes by column (see results.Result)."""


@dataclass(frozen=True)
class ContextEffect:
    """How answers with context compare with answers without.

    ``kinds`` maps the ids of the questions scored under both to their kind; ``left_out`` counts the others.
    ``always_abstains``: without context nothing was ever answered, so that nothing could be known already but refusals.
    """

    kinds: Mapping[str, str]
    left_out: int
    always_abstains: bool

    @cached_property
    def counts(self) -> dict[str, int]:
        """Count the questions of each kind; they add up to those compared."""
        found = Counter(self.kinds.values())
        return {kind: found[kind] for kind in KINDS}

    @property
    def p_value(self) -> float:
        """Test whether context helps as often as it hurts: the exact McNemar test, two-sided."""
        return exact_mcnemar(self.counts[HELPED], self.counts[HURT])


class Success(NamedTuple):
    """When a question counts as solved: from a score on, or down from it where less of the metric is better."""

    metric: str = METRIC
    threshold: float = 0.5
    higher_is_better: bool = True

    def solves(self, score: float) -> bool:
        """Return whether a score solves its question."""
        return score >= self.threshold if self.higher_is_better else score <= self.threshold


SERVED = Success()
"""Answered rightly, or refused where there is no answer."""


def resolve_success(config: Mapping[str, Any], metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """Return the key ``success`` of a config with the metric that it stands for.

    Raises:
        ConfigError: A key that is none, a threshold that is no number, a metric without a direction, or one that is not
            measured though there are answers.
    """
    given = dict(config.get("success") or {})
    for key in given:
        if key not in Success._fields[:2]:
            raise ConfigError(f"success.{key}: no such key{nearest(str(key), Success._fields[:2])}")
    named, threshold = given.get("metric"), given.get("threshold", SERVED.threshold)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not math.isfinite(threshold):
        raise ConfigError(f"success.threshold: must be a number, given {threshold!r}")
    if named is None:
        return {"metric": _by_itself(objectives(config), metrics), "threshold": threshold}
    answered = any("answer" in metric.needs for metric in metrics.values())
    if named not in metrics and answered:
        raise ConfigError(f'success.metric: no metric "{named}"{nearest(str(named), metrics)}')
    if named in metrics and metrics[named].higher_is_better is None:
        raise ConfigError(f"success.metric: neither more nor less of {named} is better; name another one")
    return {"metric": named, "threshold": threshold}


def _by_itself(named: Sequence[str], metrics: Mapping[str, Metric]) -> str:
    """Choose the objective, where that is a score of answers that can be had without context."""
    found = metrics.get(named[0]) if named else None
    if found is None or found.unit or found.higher_is_better is None or WITHOUT_CONTEXT & set(found.needs):
        return METRIC
    return METRIC if isinstance(found, JudgedMetric) and "contexts" in found.uses else found.name


def compare(without: Columns, with_context: Columns, success: Success = SERVED) -> ContextEffect:
    """Compare two tables of outcomes, question by question.

    A question is solved where ``success`` says so. It is "known already" where both solve it, "helped"
    where only context does, "hurt" where only its absence does; of those that neither solves, "abstained" where the
    config with context refused it, and "never solved" else. To refuse an unanswerable question solves it.

    Args:
        without: Outcomes of the config without context.
        with_context: Outcomes of the other one.
        success: Which column decides, and from which score on.

    Raises:
        InputError: A table has no such column, or no answers.
    """
    base, other = (_scored(table, success.metric) for table in (without, with_context))
    refused = dict(zip(with_context["question_id"], with_context["abstained"], strict=True))
    both = [name for name in base if name in other and not math.isnan(base[name]) and not math.isnan(other[name])]
    solved = {name: (success.solves(base[name]), success.solves(other[name])) for name in both}
    kinds = {name: _kind(*solved[name], bool(refused[name])) for name in both}
    return ContextEffect(kinds, len(base.keys() | other.keys()) - len(both), _always_abstains(without))


def exact_mcnemar(helped: int, hurt: int) -> float:
    """Return the two-sided p-value of a difference between two paired shares.

    Of the pairs that differ, half would go either way by chance: twice the smaller tail of the binomial distribution
    with p = 1/2, at most 1 (McNemar 1947, "Note on the sampling error of the difference between correlated
    proportions", in its exact form). Without a pair that differs it is 1.
    """
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(helped, hurt), helped + hurt, 0.5)))


def _kind(known: bool, solved: bool, refused: bool) -> str:
    if solved:
        return KNOWN if known else HELPED
    if known:
        return HURT
    return ABSTAINED if refused else NEVER


def _scored(table: Columns, metric: str) -> dict[str, float]:
    for column in ("abstained", metric):
        if column not in table:
            fact = "no generator answered" if column == "abstained" else f'no metric "{metric}" was measured'
            raise InputError(f"the table of questions has no column {column}: {fact}{nearest(column, table)}")
    return dict(zip(table["question_id"], map(float, table[metric]), strict=True))


def _always_abstains(table: Columns) -> bool:
    """Return whether every answer that did not fail is a refusal."""
    failed = table.get("answer_failed") or [""] * len(table["abstained"])
    said = [bool(refused) for refused, reason in zip(table["abstained"], failed, strict=True) if not reason]
    return bool(said) and all(said)
