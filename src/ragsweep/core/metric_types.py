"""The protocols of metrics, including judged metrics, and of parts that estimate the cost of their calls."""

import re
from collections.abc import Callable, MutableMapping, Sequence
from typing import Protocol, runtime_checkable

from ragsweep.core.answers import Case, CostEstimate, Judgement, RequestSize
from ragsweep.core.data import EvaluationView, Scores
from ragsweep.core.traits import HasTraits


@runtime_checkable
class CostEstimator(Protocol):
    """A part that estimates the cost of its calls: a generator, router, query writer, system or judged metric.

    A plan shows measured costs where they are available, otherwise the estimate. It shows no cost for a part that has
    neither.
    """

    def estimate_cost(self, size: RequestSize) -> CostEstimate:
        """Return the highest possible cost of one request or case of this size; make no calls and load no model."""


@runtime_checkable
class JudgedMetric(HasTraits, Protocol):
    """A metric (see Metric) whose values come from a judge or another slow model.

    Judgements are stored by case, so that equal cases share a judgement. ``score(view)`` reads the metric's judgements
    from ``view.judgements[name]``.
    """

    @property
    def name(self) -> str:
        """The metric's name, which is also the key of its judgements in ``EvaluationView.judgements``."""

    @property
    def uses(self) -> tuple[str, ...]:
        """The fields of a Case that the metric reads; a question that lacks any of them is not judged."""

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Judge every case, in any order, and call ``done(index of the case, judgement)`` once per case."""


ReplyCache = MutableMapping[str, str]
"""Hash of a request -> the judge's reply; an assigned reply is stored immediately."""


@runtime_checkable
class CachingMetric(Protocol):
    """A judged metric that makes several calls per case and caches each reply, so that a killed run loses no reply."""

    def judge_cached(self, cases: Sequence[Case], done: Callable[[int, Judgement], None], cache: ReplyCache) -> None:
        """Judge as ``judge`` does, but reuse the replies in ``cache``, and add new replies to it."""


NEEDS = frozenset({"evidence", "retrieval", "passages", "distractors", "section", "count", "reference", "keywords",
                   "answer", "judge", "router", "latency", "exact", "output"})  # fmt: skip
"""All possible requirements of a metric; see Metric."""
METRIC_NAME = re.compile(r"\w[\w.\- :]*(/\w[\w.\- :]*)*")
"""The pattern of valid metric names; MLflow rejects most other names."""


class Metric(HasTraits, Protocol):
    """A value per question, and the statistic that summarises the values of all questions.

    ``needs`` lists the requirements of the metric, any of NEEDS. Some are requirements on a question: "evidence"
    (labelled evidence), "retrieval" (the question needs retrieval), "passages" (quoted evidence), "distractors",
    "section" (an expected section), "count" (an expected count), "reference" (a reference answer), "keywords". The rest
    are requirements on the config, which must produce them: "answer", "judge" (judgements), "router" (the router's
    decision), "latency", "exact" (an exact search in addition to the approximate search), "output" (the answer,
    converted by an output reader). A metric of answers must list "answer".
    """

    @property
    def name(self) -> str:
        """The metric's name in tables and in MLflow."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The requirements of the metric on a question or on the config, any of NEEDS."""

    @property
    def unit(self) -> str:
        """The unit of the values; "" for values without a unit, such as shares."""

    @property
    def higher_is_better(self) -> bool | None:
        """Whether a higher value is better; None if neither direction is better."""

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The lowest and the highest possible score of a question; None on a side that is unbounded.

        The bounds also apply to the unknown score of a question whose measurement failed.
        """

    @property
    def quantile(self) -> float | None:
        """The quantile (0 to 1) that summarises the values of the questions; None if the mean summarises them."""

    def score(self, view: EvaluationView) -> Scores:
        """Return a score for every question of the view: a value, or NaN with a reason."""
