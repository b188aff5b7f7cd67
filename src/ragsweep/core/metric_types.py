"""The protocols of metrics, including judged ones, and of parts that estimate their costs."""

import re
from collections.abc import Callable, MutableMapping, Sequence
from typing import Protocol, runtime_checkable

from ragsweep.core.answers import Case, CostEstimate, Judgement, RequestSize
from ragsweep.core.data import EvaluationView, Scores
from ragsweep.core.traits import HasTraits


@runtime_checkable
class CostEstimator(Protocol):
    """A part (generator, router, query writer, system, judged metric) that estimates the cost of its calls, for plans.

    Measured costs take precedence. A part that makes no calls lacks this method and costs no money.
    """

    def estimate_cost(self, size: RequestSize) -> CostEstimate:
        """Return the highest possible cost of one request or case of this size; makes no calls and loads nothing."""


@runtime_checkable
class JudgedMetric(HasTraits, Protocol):
    """A metric (see Metric) decided by a judge or another slow model; equal cases share one stored judgement.

    ``uses`` names the fields of a Case that the metric reads; ``score(view)`` reads ``view.judgements[name]``.
    """

    @property
    def name(self) -> str:
        """The metric's name."""

    @property
    def uses(self) -> tuple[str, ...]:
        """Fields of a Case to fill in; a question that lacks any of them is not judged."""

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Judge every case, in any order; call ``done(index of the case, judgement)`` once for each."""


ReplyCache = MutableMapping[str, str]
"""Hash of a request -> the judge's reply; an assigned reply is stored at once."""


@runtime_checkable
class CachingMetric(Protocol):
    """A judged metric that makes several calls per case and caches each reply, so that a killed run loses none."""

    def judge_cached(self, cases: Sequence[Case], done: Callable[[int, Judgement], None], cache: ReplyCache) -> None:
        """Judge as ``judge`` does, reading each reply from ``cache`` and writing it there."""


NEEDS = frozenset({"evidence", "retrieval", "passages", "distractors", "section", "count", "reference", "keywords",
                   "answer", "judge", "router", "latency", "exact", "output"})  # fmt: skip
"""All possible requirements of a metric; see Metric."""
METRIC_NAME = re.compile(r"\w[\w.\- :]*(/\w[\w.\- :]*)*")
"""The form of a metric's name; MLflow rejects most others."""


class Metric(HasTraits, Protocol):
    """A number per question, and the rule by which the numbers of all questions are summarised.

    ``needs`` names requirements, any of NEEDS. Some are what a question must have: "evidence" (labelled), "retrieval"
    (the question needs retrieval), "passages" (quoted evidence), "distractors", "section" (an expected section),
    "count" (an expected count), "reference" (a right answer), "keywords". Others are what the config must compute:
    "answer", "judge" (judgements), "router" (a decision), "latency", "exact" (an exact search beside the
    approximate one), "output" (read from the answer). A metric of answers must name "answer".
    """

    @property
    def name(self) -> str:
        """The metric's name, as in tables and in MLflow."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Requirements on a question or on the config, any of NEEDS."""

    @property
    def unit(self) -> str:
        """Unit of the value; empty for a share."""

    @property
    def higher_is_better(self) -> bool | None:
        """Whether a higher value is better; None if neither direction is."""

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Lowest and highest possible value for a question, even if its measurement failed; None: unbounded."""

    @property
    def quantile(self) -> float | None:
        """The quantile that summarises the questions; None for the mean."""

    def score(self, view: EvaluationView) -> Scores:
        """Score every question of the view."""
