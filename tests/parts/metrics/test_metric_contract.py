"""Every metric of ours keeps the contract that users' metrics keep too."""

from __future__ import annotations

from ragsweep.parts import metrics
from ragsweep.testing.metrics import MetricContract


class TestNdcg(MetricContract):
    metric = metrics.Ndcg(10)


class TestExponentialNdcg(MetricContract):
    metric = metrics.Ndcg(2, gain="exponential")


class TestRecall(MetricContract):
    metric = metrics.Recall(2)


class TestPrecision(MetricContract):
    metric = metrics.Precision(1)


class TestHitRate(MetricContract):
    metric = metrics.HitRate(3)


class TestF1(MetricContract):
    metric = metrics.F1(2)


class TestMrr(MetricContract):
    metric = metrics.Mrr()


class TestMeanAveragePrecision(MetricContract):
    metric = metrics.MeanAveragePrecision(2)


class TestContextRecall(MetricContract):
    metric = metrics.ContextRecall()


class TestContextPrecision(MetricContract):
    metric = metrics.ContextPrecision()


class TestContextNdcg(MetricContract):
    metric = metrics.ContextNdcg()


class TestContextTokens(MetricContract):
    metric = metrics.ContextTokens()


class TestContextTokenPrecision(MetricContract):
    metric = metrics.ContextTokenPrecision()


class TestEvidenceCoverage(MetricContract):
    metric = metrics.EvidenceCoverage()


class TestEmptyRate(MetricContract):
    metric = metrics.EmptyRate()


class TestResults(MetricContract):
    metric = metrics.Results()


class TestTopScore(MetricContract):
    metric = metrics.TopScore()


class TestLatency(MetricContract):
    metric = metrics.Latency(quantile=0.95)


class TestLatencyOfOneStage(MetricContract):
    metric = metrics.Latency(stage="retrieve")


class TestAnnRecall(MetricContract):
    metric = metrics.AnnRecall(3)


class TestAnnEvidenceLost(MetricContract):
    metric = metrics.AnnEvidenceLost()


class TestDistractorRate(MetricContract):
    metric = metrics.DistractorRate()


class TestSectionHit(MetricContract):
    metric = metrics.SectionHit()
