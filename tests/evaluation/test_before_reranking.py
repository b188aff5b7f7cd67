"""Which metrics are scored before reranking: those of rankings alone, because nothing else is computed for them."""

from collections.abc import Sequence

import numpy as np
import pytest

from ragsweep.core.types import Dataset, EvaluationView, PartTraits, Scores
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.parts.metrics import ContextRecall, DistractorRate, EmptyRate, Mrr, RagasNonLlmContextRecall
from support.parts import Whole, Words, built, corpus, golden


class Last:
    """Score the candidates against their order."""

    TRAITS = PartTraits(version="1", reordering=frozenset({"candidates", "min_score", "mix"}))
    candidates, min_score, mix = 4, None, 0.0

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Score a pair by how late it is asked for."""
        return np.arange(len(pairs), dtype=np.float32)


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
    texts, questions = corpus(), golden(("cats in the yard", "d1"), ("source code compiler", "d2"))
    laid = graph(Parts(texts, built(Whole()), built(Words()), built(Last(), candidates=4), 4, 1))
    metrics = (Mrr(), DistractorRate(), RecallPerSecond(), RagasNonLlmContextRecall())
    result = Evaluator().evaluate(
        Experiment("n", (), {}, {}, Dataset("t", texts, questions), laid, 1, metrics, 0.5, "s")
    )
    assert result.summaries.metrics["recall_per_second"].n_scored == 2
    assert list(result.summaries.first_stage) == ["mrr"]
    assert not caplog.records


def test_reranked_config_without_a_metric_of_evidence_has_no_scores_before_reranking() -> None:
    texts, questions = corpus(), golden(("cats in the yard", "d1"), ("source code compiler", "d2"))
    laid = graph(Parts(texts, built(Whole()), built(Words()), built(Last(), candidates=4), 4, 1))
    result = Evaluator().evaluate(
        Experiment("n", (), {}, {}, Dataset("t", texts, questions), laid, 1, (EmptyRate(),), 0.5, "s")
    )
    assert (result.summaries.first_stage, list(result.summaries.metrics)) == ({}, ["empty_rate"])
