"""Metrics of tasks: a base class for user-defined metrics, weighted sums, and whether a case is solved."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence, Set
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import INAPPLICABLE, NO_ANSWERS, UNEXPLAINED, UNREADABLE, score_where
from ragsweep.core.types import EvaluationView, Metric, PartTraits, Question, Scores
from ragsweep.parts.answer_outputs import read_outputs
from ragsweep.parts.metrics.bases import Proportion, to_scores


class TaskMetric(Proportion):
    """Base class of task metrics; they score the output that the config's output reader (``output=``) returns.

    If the metric has a ``unit``, such as "ms", its scores are amounts, unless the unit is "%" or "points". Configs are
    compared by the ratios of amounts if all amounts are above 0, and otherwise by the differences between scores.

    ``unread`` is the score of an answer from which no output can be read. By default, it is the reason "unreadable
    output": the question then has no score, but the result does not become partial. In comparisons of configs, the
    worst possible score replaces the missing score if the metric has no unit, its ``higher_is_better`` is not None, its
    scores range from 0 to 1, and another config has a score for the question.

    A class may define ``pairs(question, output)``, which yields a pair for each finding: the expected class and the
    class that was found, or "" for no class. ``ragsweep compare --report`` draws the confusion matrix of the pairs.
    """

    needs: tuple[str, ...] = ("answer", "output")
    unread: float | str = UNREADABLE

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per case; the result is cached, because other metrics may be computed from this one."""
        return _score_outputs(self, view)

    @abstractmethod
    def score_output(self, question: Question, output: Any) -> float | str:
        """Return an output's score, or the reason why it has none; ``question.fields`` contains the case's fields."""


@memoize_by_identity
def _score_outputs(metric: TaskMetric, view: EvaluationView) -> Scores:
    if view.answers is None or view.output is None:
        return to_scores([NO_ANSWERS] * len(view.questions))
    scores: list[float | str] = []
    rows = zip(view.questions, view.answers.answers, read_outputs(view.answers, view.output), strict=True)
    for question, answer, output in rows:
        if output.unreadable or answer.failed:
            scores.append(metric.unread if output.unreadable else answer.failed)
        else:
            scores.append(metric.score_output(question, output.value))
    return to_scores(scores)


class UnreadableOutput(TaskMetric):
    """Whether the output reader cannot read the answer: 1 or 0. A failed answer is not scored."""

    TRAITS = PartTraits(version="1")
    name = "unreadable_output"
    higher_is_better = False
    unread = 1.0

    def score_output(self, question: Question, output: Any) -> float | str:
        """Return 0.0, because the output was read."""
        return 0.0


class WeightedSum:
    """Weighted sum of other metrics, computed for each case.

    Args:
        name: The metric's name.
        terms: Name of each term -> a mapping with its ``metric`` (``${metrics.KEY}``) and its ``weight``.
        constant: A number that is added to the sum.
        unit: The unit of the score.
        bounds: The lowest and highest possible score, each a number or None for no limit; any other score is an error.
        higher_is_better: Whether a higher score is better; if false, a lower score is better.

    Raises ConfigError if the bounds or a term are invalid, or if there is no term.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="3")
    quantile = None

    def __init__(
        self,
        name: str,
        terms: Mapping[str, Mapping[str, Any]],
        constant: float = 0.0,
        unit: str = "",
        bounds: Sequence[float | None] = (None, None),
        higher_is_better: bool = True,
    ) -> None:
        self.name, self.unit, self.higher_is_better, self.constant = name, unit, higher_is_better, constant
        is_pair = isinstance(bounds, list | tuple) and len(bounds) == 2
        if not is_pair or not all(isinstance(bound, int | float | None) for bound in bounds):
            raise ConfigError(f"bounds: must be [LOWEST, HIGHEST], with null for no limit, got {bounds!r}")
        lowest, highest = self.bounds = (bounds[0], bounds[1])
        if lowest is not None and highest is not None and not lowest < highest:
            raise ConfigError(f"bounds: the first bound must be below the second, got {bounds!r}")
        _check_keys(terms, "terms", {"metric", "weight"})
        self.terms = {
            key: (_metric(term, f"terms.{key}"), _number(term, "weight", f"terms.{key}")) for key, term in terms.items()
        }
        self.parts = [metric for metric, _ in self.terms.values()]
        self.needs = tuple(dict.fromkeys(need for metric in self.parts for need in metric.needs))

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per case; NaN and the reason of the first term without a score, if any.

        Raises ValueError if a sum is outside the bounds by more than a rounding error.
        """
        total, reasons = np.full(len(view.questions), self.constant), np.full(len(view.questions), "")
        for metric, weight in self.terms.values():
            scores = metric.score(view)
            total = total + weight * scores.values
            reasons = np.where(reasons == "", _reasons(scores), reasons)
        lowest, highest = self.bounds
        low, high = -math.inf if lowest is None else lowest, math.inf if highest is None else highest
        slack = 1e-9 * np.maximum(1, np.abs(total))
        if (outside := total[(reasons == "") & ((total < low - slack) | (total > high + slack))]).size:
            raise ValueError(
                f"the sum {outside[0]:g} is outside its bounds, {self.bounds}; correct the bounds or the weights"
            )
        return score_where(reasons == "", np.clip(total, low, high), reasons)


class TaskSuccess(Proportion):
    """Whether a case is solved, that is, meets every criterion: 1 or 0.

    Args:
        criteria: Name of each criterion -> a mapping with its ``metric`` (``${metrics.KEY}``) and the limits of the
            metric's score: ``at_least``, ``at_most`` or both.
        name: The metric's name.

    Raises ConfigError if a criterion is invalid, or if there are no criteria.
    """

    TRAITS = PartTraits(version="4")

    def __init__(self, criteria: Mapping[str, Mapping[str, Any]], name: str = "task_success") -> None:
        self.name = name
        _check_keys(criteria, "criteria", {"metric", "at_least", "at_most"})
        self.criteria = {
            key: (
                _metric(one, f"criteria.{key}"),
                _number(one, "at_least", f"criteria.{key}", -math.inf),
                _number(one, "at_most", f"criteria.{key}", math.inf),
            )
            for key, one in criteria.items()
        }
        for key, one in criteria.items():
            if not {"at_least", "at_most"} & set(one):
                raise ConfigError(f"criteria.{key}: has no limit; add at_least, at_most or both")
            if self.criteria[key][1] > self.criteria[key][2]:
                fact = f"at_least {one['at_least']} exceeds at_most {one['at_most']}"
                raise ConfigError(f"criteria.{key}: {fact}, so no score can meet both")
        self.parts = [metric for metric, *_ in self.criteria.values()]
        self.needs = tuple(dict.fromkeys(need for metric in self.parts for need in metric.needs))

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per case: 0 if it misses a criterion, 1 if it meets all, or else NaN and a reason.

        The score is NaN if a metric has no score and no other criterion is missed. It is always NaN if a metric does
        not apply to the case, that is, gives a reason in ``INAPPLICABLE``. The reason is that of the first metric
        without a score. A score may miss its limit by up to 1e-9, to allow for rounding.
        """
        missed, reasons = np.zeros(len(view.questions), dtype=bool), np.full(len(view.questions), "")
        applies = ~missed
        for metric, least, most in self.criteria.values():
            scores = metric.score(view)
            missed |= (scores.values < least - 1e-9) | (scores.values > most + 1e-9)
            applies &= ~np.isin(scores.reasons, list(INAPPLICABLE))
            reasons = np.where(reasons == "", _reasons(scores), reasons)
        reasons = np.where(missed & applies, "", reasons)
        return score_where(reasons == "", np.where(missed, 0.0, 1.0), reasons)


def _reasons(scores: Scores) -> NDArray[np.str_]:
    """Return the reasons of a metric's scores; a missing score without a reason gets UNEXPLAINED."""
    return np.where(np.isnan(scores.values) & (scores.reasons == ""), UNEXPLAINED, scores.reasons)


def _check_keys(items: Mapping[str, Mapping[str, Any]], where: str, known: Set[str]) -> None:
    """Raise ConfigError if there are no items, or if an item has a key that is not in ``known``."""
    if not items:
        raise ConfigError(f"{where}: must have at least one entry")
    for name, item in items.items():
        for key in item:
            if key not in known:
                raise ConfigError(f"{where}.{name}.{key}: unknown key{nearest(str(key), known)}")


def _metric(term: Mapping[str, Any], where: str) -> Metric:
    metric: Any = term.get("metric")
    if not hasattr(metric, "score"):
        raise ConfigError(f"{where}.metric: must be a metric, such as ${{metrics.KEY}}, got {metric!r}")
    chosen: Metric = metric
    return chosen


def _number(term: Mapping[str, Any], key: str, where: str, default: float | None = None) -> float:
    if default is not None and key not in term:
        return default
    value = term.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{where}.{key}: must be a finite number, got {value!r}")
    return float(value)
