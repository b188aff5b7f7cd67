"""Which metrics are scored before reranking: those of rankings alone, because nothing else is computed for them."""

import pytest

from ragsweep.core.types import EvaluationView, Scores
from ragsweep.parts.metrics import ContextRecall, DistractorRate, EmptyRate, Mrr, RagasNonLlmContextRecall
from test_evaluator import reranked


class RecallPerSecond(ContextRecall):
    name = "recall_per_second"
    needs = ("evidence", "latency")
    bounds = (0.0, None)

    def score(self, view: EvaluationView) -> Scores:
        scores = super().score(view)
        return scores._replace(values=scores.values / view.latency["rerank"])


def test_metric_that_also_needs_another_result_of_the_config_is_not_scored_before_reranking(
    caplog: pytest.LogCaptureFixture,
) -> None:
    result = reranked(0.0, metrics=(Mrr(), DistractorRate(), RecallPerSecond(), RagasNonLlmContextRecall()))
    assert result.summaries.metrics["recall_per_second"].n_scored == 3
    assert list(result.summaries.first_stage) == ["mrr"]
    assert not caplog.records


def test_reranked_config_without_a_metric_of_evidence_has_no_scores_before_reranking() -> None:
    result = reranked(0.0, metrics=(EmptyRate(),))
    assert (result.summaries.first_stage, list(result.summaries.metrics)) == ({}, ["empty_rate"])
