"""Every metric keeps the contract that users' metrics keep, too."""

import pytest

from ragsweep.core.types import JudgedMetric, Metric
from ragsweep.parts import metrics
from ragsweep.parts.metrics.decisions import FATES
from ragsweep.parts.prices import Prices
from ragsweep.testing.metrics import MetricContract
from support.parts import Letters

METRICS: list[Metric] = [
    metrics.Ndcg(10), metrics.Ndcg(2, gain="exponential"), metrics.Recall(2), metrics.Precision(1), metrics.HitRate(3),
    metrics.F1(2), metrics.Mrr(), metrics.MeanAveragePrecision(2), metrics.ContextRecall(), metrics.ContextPrecision(),
    metrics.ContextNdcg(), metrics.ContextTokens(), metrics.ContextTokenPrecision(), metrics.EvidenceCoverage(),
    metrics.EmptyRate(), metrics.Results(), metrics.TopScore(), metrics.Latency(quantile=0.95),
    metrics.Latency(stage="retrieve"), metrics.AnnRecall(3), metrics.AnnEvidenceLost(), metrics.DistractorRate(),
    metrics.SectionHit(), metrics.RagasIdBasedContextPrecision(), metrics.RagasIdBasedContextRecall(),
    metrics.RagasNonLlmContextPrecision(), metrics.RagasNonLlmContextRecall(), metrics.JudgeSuspicious(),
    metrics.JudgeSpread(), metrics.ExactMatch(), metrics.TokenF1("french"), metrics.KeywordCoverage(),
    metrics.SemanticSimilarity(Letters()), metrics.SuccessRate(),
    *(metrics.AnswerFate(fate) for fate in FATES),  # type: ignore[arg-type]
    metrics.Refusal(), metrics.GroundingLexical(), metrics.GroundingSemantic(Letters()), metrics.CitationsCorrect(),
    metrics.CitationRecall(), metrics.AnswerLanguage(), metrics.AnswerLength(), metrics.AnswerTokensIn(),
    metrics.AnswerTokensOut(), metrics.CostPer1000(Prices("2025-08-15", "USD", "made up", {"*": [1, 2]})),
    metrics.AnswerSupport(), metrics.RougeL(), metrics.Bleu(), metrics.RouterAccuracy(), metrics.MissedSearch(),
    metrics.NeedlessSearch(), metrics.AnswerSpeed(), metrics.Latency(stage="retrieval"), metrics.UnreadableOutput(),
    metrics.WeightedSum("sum", {"one": {"metric": metrics.TokenF1(), "weight": 2}}, bounds=(0, 2)),
    metrics.SearchRate(), metrics.GroundingRougeL(), metrics.ExpectedCountMet(), metrics.ContextSimilarity(Letters()),
    metrics.TaskSuccess({"one": {"metric": metrics.TokenF1(), "at_least": 0.5}}),
]  # fmt: skip


class TestMetrics(MetricContract):
    @pytest.fixture(autouse=True, params=METRICS, ids=lambda metric: metric.name)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.metric: Metric = request.param


class OfEvidence(metrics.EmptyRate):
    needs = ("evidence",)


def test_a_metric_that_scores_questions_without_the_evidence_that_it_needs_breaks_the_contract() -> None:
    contract = MetricContract()
    contract.metric = OfEvidence()
    with pytest.raises(AssertionError, match="use score_with_evidence"):
        contract.test_a_metric_that_needs_evidence_has_no_value_without_it()


def test_judged_metrics_are_recognised() -> None:
    judged = (metrics.SemanticSimilarity(Letters()), metrics.GroundingSemantic(Letters()), metrics.FaithfulnessNli())
    assert all(isinstance(metric, JudgedMetric) for metric in judged)
    assert not isinstance(metrics.TokenF1(), JudgedMetric)
