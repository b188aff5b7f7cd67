"""Every metric keeps the contract that users' metrics keep, too."""

import math

import pytest

from ragsweep.core.types import Metric
from ragsweep.parts import metrics
from ragsweep.testing.metrics import MetricContract
from support.metrics import OPTIONS, shipped_metrics
from support.parts import Letters

SHIPPED = shipped_metrics(*OPTIONS, embedder=Letters())
SHIPPED.pop("faithfulness_nli")  # without a model, it scores nothing
METRICS: list[Metric] = [
    *SHIPPED.values(), metrics.Ndcg(2, gain="exponential"), metrics.MeanAveragePrecision(2), metrics.AnnRecall(3),
    metrics.Latency(stage="retrieve"), metrics.Latency(stage="retrieval"), metrics.AnswerSpeed(),
    metrics.UnreadableOutput(),
    metrics.WeightedSum("sum", {"one": {"metric": metrics.TokenF1(), "weight": 2}}, bounds=(0, 2)),
    metrics.TaskSuccess({"one": {"metric": metrics.TokenF1(), "at_least": 0.5}}),
]  # fmt: skip


class TestMetrics(MetricContract):
    @pytest.fixture(autouse=True, params=METRICS, ids=lambda metric: metric.name)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.metric: Metric = request.param


class Words(metrics.EmptyRate):
    bounds = (0.0, math.inf)


def test_a_metric_with_an_infinite_bound_breaks_the_contract() -> None:
    contract = MetricContract()
    contract.metric = Words()
    with pytest.raises(AssertionError, match="use None"):
        contract.test_attributes_are_complete()


class OfEvidence(metrics.EmptyRate):
    needs = ("evidence",)


def test_a_metric_that_scores_questions_without_the_evidence_that_it_needs_breaks_the_contract() -> None:
    contract = MetricContract()
    contract.metric = OfEvidence()
    with pytest.raises(AssertionError, match="use score_with_evidence"):
        contract.test_a_metric_that_needs_evidence_has_no_value_without_it()
