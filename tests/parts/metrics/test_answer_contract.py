"""Every metric of answers keeps the contract that users' metrics keep too."""

from __future__ import annotations

import numpy as np
import pytest

from ragsweep.core.reasons import NOT_CONFIGURED
from ragsweep.core.types import JudgedMetric, Metric
from ragsweep.parts import metrics
from ragsweep.parts.metrics.answerability import FATES
from ragsweep.parts.prices import Prices
from ragsweep.testing.answers import answered
from ragsweep.testing.metrics import MetricContract
from toys import Letters


class TestExactMatch(MetricContract):
    metric = metrics.ExactMatch()


class TestTokenF1(MetricContract):
    metric = metrics.TokenF1("french")


class TestKeywordCoverage(MetricContract):
    metric = metrics.KeywordCoverage()


class TestSemanticSimilarity(MetricContract):
    metric = metrics.SemanticSimilarity(Letters())


class TestSuccessRate(MetricContract):
    metric = metrics.SuccessRate()


class TestAnswerFate(MetricContract):
    @pytest.fixture(autouse=True, params=FATES)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.metric: Metric = metrics.AnswerFate(request.param)


class TestRefusal(MetricContract):
    metric = metrics.Refusal()


class TestGroundingLexical(MetricContract):
    metric = metrics.GroundingLexical()


class TestGroundingSemantic(MetricContract):
    metric = metrics.GroundingSemantic(Letters())


class TestFaithfulnessWithoutModel(MetricContract):
    metric = metrics.FaithfulnessNli()

    def test_some_question_of_the_example_is_scored(self) -> None:
        """None is: no model is named."""
        scores = self.metric.score(answered(metric=self.metric))
        assert np.isnan(scores.values).all()
        assert NOT_CONFIGURED in scores.reasons

    def test_failed_answer_is_no_score(self) -> None:
        """What is not measured does not fail: the answer's own failure is not this metric's."""
        reasons = set(self.metric.score(answered(metric=self.metric)).reasons.tolist())
        assert "" not in reasons


class TestCitationsCorrect(MetricContract):
    metric = metrics.CitationsCorrect()


class TestCitationRecall(MetricContract):
    metric = metrics.CitationRecall()


class TestAnswerLanguage(MetricContract):
    metric = metrics.AnswerLanguage()


class TestAnswerLength(MetricContract):
    metric = metrics.AnswerLength()


class TestAnswerTokensIn(MetricContract):
    metric = metrics.AnswerTokensIn()


class TestAnswerTokensOut(MetricContract):
    metric = metrics.AnswerTokensOut()


class TestCostPer1000(MetricContract):
    metric = metrics.CostPer1000(Prices("2025-08-15", "USD", "made up", {"*": [1, 2]}))


class TestAnswerSupport(MetricContract):
    metric = metrics.AnswerSupport()


class TestRougeL(MetricContract):
    metric = metrics.RougeL()


class TestBleu(MetricContract):
    metric = metrics.Bleu()


def test_judged_metrics_are_told_from_others() -> None:
    judged = (metrics.SemanticSimilarity(Letters()), metrics.GroundingSemantic(Letters()), metrics.FaithfulnessNli())
    assert all(isinstance(metric, JudgedMetric) for metric in judged)
    assert not isinstance(metrics.TokenF1(), JudgedMetric)
