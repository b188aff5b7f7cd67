"""The contract of a metric, as tests: ``class TestMine(MetricContract): metric = Mine(...)``."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragsweep.core import missing as reasons_of_core
from ragsweep.core.types import (
    METRIC_NAME,
    NEEDS,
    Chunks,
    Corpus,
    EvaluationView,
    Evidence,
    GoldenSet,
    IndexComparison,
    JudgedMetric,
    Metric,
    Question,
    Rankings,
    Scores,
    Spans,
)
from ragsweep.evaluation.evidence import cover, view
from ragsweep.testing.answers import ROWS, answered
from ragsweep.testing.contract import Contract

_WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
_CORPUS = Corpus(["letters", "numbers"], ["Letters", ""], [" ".join(_WORDS), "one two three four five six"])
_SPANS = Spans(np.array([0, 0, 0, 1, 1], dtype=np.int32), np.array([0, 11, 23, 0, 14]), np.array([10, 22, 35, 13, 27]))
_QUESTIONS = (
    Question("all found", "", evidence=(Evidence("letters", "alpha"), Evidence("numbers", "one two", grade=2.0))),
    Question("one chunk covers two", "", evidence=(Evidence("letters", "gamma"), Evidence("letters", "delta"))),
    Question("half found", "", evidence=(Evidence("letters", "zeta"), Evidence("numbers", "six", grade=3.0))),
    Question("none found", "", evidence=(Evidence("numbers", "four"),)),
    Question("a whole document", "", evidence=(Evidence("letters"),)),
    Question("cut by a chunk's end", "", evidence=(Evidence("numbers", "three four five"),)),
    Question("nothing retrieved", "", evidence=(Evidence("letters", "beta"),)),
    Question("irrelevant evidence only", "", evidence=(Evidence("letters", "beta", grade=0.0),)),
    Question("unanswerable", "", answerable=False),
    Question("conversational", "", needs_retrieval=False),
)
_POSITIONS = np.array(
    [
        [0, 3, 1, 4], [3, 1, -1, -1], [2, 3, -1, -1], [0, 1, 2, 3], [4, 3, 1, 0], [3, 4, -1, -1], [-1, -1, -1, -1],
        [0, 1, -1, -1], [2, 4, 3, -1], [-1, -1, -1, -1],
    ],
    dtype=np.int32,
)  # fmt: skip
_EXACT = np.array(
    [
        [0, 2, 3, 1], [3, 1, 0, 2], [2, 3, 4, 0], [1, 4, 0, 2], [4, 3, 1, 0], [3, 4, 2, 0], [0, 1, 2, 3], [0, 1, 2, 3],
        [2, 4, 3, 0], [-1, -1, -1, -1],
    ],
    dtype=np.int32,
)  # fmt: skip
_SECONDS = np.array([0.01, 0.02, 0.03, 0.01, 0.02, np.nan, 0.01, 0.02, 0.03, np.nan])

_REASONS = frozenset(value for value in vars(reasons_of_core).values() if isinstance(value, str))


def example(order: Sequence[int] | None = None, *, top_k: int = 2, empty: bool = False) -> EvaluationView:
    """Make a view of ten questions, one of every kind, over five chunks of two documents.

    Args:
        order: Indices of the questions, in order; None for all.
        top_k: Number of chunks in the context.
        empty: Whether the rankings are empty, except the exact ones with which they are compared.
    """
    rows = list(range(len(_QUESTIONS))) if order is None else list(order)
    positions = np.full_like(_POSITIONS, -1) if empty else _POSITIONS[rows]
    rankings, exact = _scored(positions), _scored(_EXACT[rows])
    coverage = cover(Chunks(_CORPUS, _SPANS), GoldenSet(tuple(_QUESTIONS[n] for n in rows)))
    latency = {"retrieve": _SECONDS[rows], "rerank": _SECONDS[rows] * 2}
    leg = IndexComparison(rankings, exact, coverage.first_ranks(rankings), coverage.first_ranks(exact))
    return view(coverage, rankings, top_k, latency, {"vector": leg})


def _scored(positions: NDArray[np.int32]) -> Rankings:
    falling = np.array([0.9, 0.7, 0.5, 0.3], dtype=np.float32)
    return Rankings(positions, np.where(positions >= 0, falling, -np.inf).astype(np.float32))


class MetricContract(Contract):
    """The contract of a metric: set ``metric`` to an instance."""

    metric: Metric

    def test_attributes_are_complete(self) -> None:
        """Check needs, unit, direction, bounds, quantile, and the form of the name (``METRIC_NAME``)."""
        lowest, highest = self.metric.bounds
        assert self.metric.name, "the metric has an empty name; set name in its class"
        assert METRIC_NAME.fullmatch(self.metric.name), "MLflow may reject the name; use letters, digits and _"
        assert isinstance(self.metric.needs, tuple)
        assert set(self.metric.needs) <= NEEDS, f"needs may only contain {', '.join(sorted(NEEDS))}"
        assert isinstance(self.metric.unit, str)
        assert self.metric.higher_is_better in (True, False, None)
        assert lowest is None or highest is None or lowest < highest
        assert self.metric.quantile is None or 0 < self.metric.quantile < 1

    def test_every_question_has_a_value_within_bounds_or_a_reason(self) -> None:
        """Check that each question has a value within the bounds or, if the value is NaN, a reason, but never both."""
        for top_k in (1, 2, 4, 9):
            self._check(self.metric.score(example(top_k=top_k)), len(_QUESTIONS))
        self._check(self.metric.score(answered(metric=self.metric)), len(ROWS))

    def test_empty_rankings_are_scored(self) -> None:
        """Check a retriever that returns nothing, which is a result and not an error."""
        self._check(self.metric.score(example(empty=True)), len(_QUESTIONS))

    def test_no_questions_give_no_scores(self) -> None:
        """Check an empty partition, which is not an error."""
        self._check(self.metric.score(example(order=[])), 0)
        self._check(self.metric.score(answered([], self.metric)), 0)

    def test_order_of_questions_is_irrelevant(self) -> None:
        """Check that a question's score depends only on that question."""
        turned = list(reversed(range(len(_QUESTIONS))))
        self._compare(self.metric.score(example()), self.metric.score(example(turned)), turned)
        turned = list(reversed(range(len(ROWS))))
        straight = self.metric.score(answered(metric=self.metric))
        self._compare(straight, self.metric.score(answered(turned, self.metric)), turned)

    def test_failed_answer_is_no_score(self) -> None:
        """Check that at least one failed answer has no score, and its failure as the reason."""
        if "answer" in self.metric.needs:
            reasons = self.metric.score(answered(metric=self.metric)).reasons
            failed = [n for n, row in enumerate(ROWS) if row[2].failed]
            assert "timed out" in reasons[failed]

    def test_some_question_of_the_example_is_scored(self) -> None:
        """Check that a metric is not always NaN on an example that has everything it needs."""
        if set(self.metric.needs) <= {"evidence", "retrieval", "latency", "exact"}:
            assert not np.isnan(self.metric.score(example()).values).all()
        if set(self.metric.needs) <= {"answer", "reference", "keywords"}:
            assert not np.isnan(self.metric.score(answered(metric=self.metric)).values).all()

    def _compare(self, straight: Scores, turned: Scores, order: Sequence[int]) -> None:
        np.testing.assert_array_equal(straight.values[order], turned.values)
        np.testing.assert_array_equal(straight.reasons[order], turned.reasons)

    def _check(self, scores: Scores, questions: int) -> None:
        lowest, highest = self.metric.bounds
        missing = np.isnan(scores.values)
        assert scores.values.shape == scores.reasons.shape == (questions,)
        assert not np.isinf(scores.values).any()
        np.testing.assert_array_equal(missing, scores.reasons != "")
        if "judge" not in self.metric.needs and not isinstance(self.metric, JudgedMetric):  # a judge has other reasons
            own = {str(reason) for reason in scores.reasons if reason} - _REASONS
            assert not own, f"{own} would count as failed measurements; use reasons of ragsweep.core.missing"
        measured = scores.values[~missing]
        assert lowest is None or (measured >= lowest).all()
        assert highest is None or (measured <= highest).all()
