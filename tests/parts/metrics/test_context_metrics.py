"""The context family: by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragsweep.core.missing import SKIPPED
from ragsweep.core.types import Chunks, Corpus, EvaluationView, Evidence, GoldenSet, Metric, Question, Rankings, Spans
from ragsweep.evaluation.evidence import cover, view
from ragsweep.parts import metrics
from ragsweep.testing.metrics import example
from trec_files import align

NAMES = [question.id for question in example().questions]


def scores(metric: Metric, looked: EvaluationView) -> dict[str, float | str]:
    values, reasons = metric.score(looked)
    said = [reason or number for number, reason in zip(values.tolist(), reasons.tolist(), strict=True)]
    return dict(zip(NAMES, said, strict=True))


def hand(*evidence: Evidence, ranking: list[int], top_k: int) -> EvaluationView:
    """The document reads "alpha beta gamma delta!", in chunks "alpha beta ", "gamma " and "delta!"."""
    spans = Spans(np.zeros(3, np.int32), np.array([0, 11, 17]), np.array([11, 17, 23]))
    chunks = Chunks(Corpus(["d"], [""], ["alpha beta gamma delta!"]), spans)
    falling = np.arange(len(ranking), 0, -1, dtype=np.float32)[None, :]
    rankings = Rankings(np.array([ranking], np.int32), falling)
    return view(cover(chunks, GoldenSet((Question("q", "", evidence=evidence),))), rankings, top_k)


# The first chunk covers alpha and beta; delta stands in the third, which is ranked behind the context.
LOOKED = hand(Evidence("d", "alpha"), Evidence("d", "beta"), Evidence("d", "delta"), ranking=[1, 0, 2], top_k=2)
LOG3 = math.log2(3)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (metrics.ContextRecall(), 2 / 3),
        (metrics.ContextPrecision(), 1 / 2),
        (metrics.ContextNdcg(), (1 / LOG3) / (1 + 1 / LOG3)),  # credited at ranks 2 and 3, the context ends at 2
        (metrics.EvidenceCoverage(), 2 / 3),
        (metrics.ContextTokens(), 3.0),
        (metrics.ContextTokenPrecision(), 2 / 3),
        (metrics.EmptyRate(), 0.0),
        (metrics.Results(), 3.0),
        (metrics.TopScore(), 3.0),
    ],
    ids=lambda case: getattr(case, "name", ""),
)
def test_hand_computed_values(metric: Metric, expected: float) -> None:
    assert metric.score(LOOKED).values.tolist() == [pytest.approx(expected, abs=1e-12)]


def test_large_chunk_pays_in_token_precision_what_it_gains_in_recall() -> None:
    small = hand(Evidence("d", "gamma"), ranking=[1], top_k=1)
    large = hand(Evidence("d", "gamma"), ranking=[0, 1, 2], top_k=3)
    assert metrics.ContextRecall().score(small).values == metrics.ContextRecall().score(large).values == 1.0
    assert metrics.ContextTokenPrecision().score(small).values == 1.0
    assert metrics.ContextTokenPrecision().score(large).values == 1 / 5


def test_context_precision_divides_by_what_was_handed_on_not_by_top_k() -> None:
    assert metrics.ContextPrecision().score(hand(Evidence("d", "gamma"), ranking=[1, 0], top_k=9)).values == 1 / 2


def test_evidence_that_stands_half_in_the_context_is_half_covered() -> None:
    looked = hand(Evidence("d", "beta gamma"), Evidence("d", "gamma"), ranking=[1, 0], top_k=1)  # 5 of 10, all
    assert metrics.EvidenceCoverage().score(looked).values == (1 / 2 + 1) / 2


@pytest.mark.parametrize("metric", [metrics.ContextRecall(), metrics.ContextPrecision(), metrics.ContextNdcg(),
                                    metrics.EvidenceCoverage(), metrics.ContextTokenPrecision()])  # fmt: skip
def test_empty_context_scores_zero_where_there_was_evidence_to_find(metric: Metric) -> None:
    found = scores(metric, example(empty=True))
    assert found["all found"] == found["a whole document"] == 0.0
    assert (found["unanswerable"], found["conversational"]) == ("unanswerable", "conversational")
    assert found["irrelevant evidence only"] == "no evidence"


def test_tokens_and_empty_rate_are_of_all_questions_that_need_retrieval() -> None:
    empty, counts = scores(metrics.EmptyRate(), example()), scores(metrics.ContextTokens(), example())
    assert {name for name, number in empty.items() if number == 1.0} == {"nothing retrieved"}
    assert (empty["unanswerable"], empty["conversational"]) == (0.0, "conversational")
    assert counts["nothing retrieved"] == 0.0
    assert counts["unanswerable"] == 6.0  # "Letters epsilon zeta" and "four five six"
    assert counts["conversational"] == "conversational"


def test_top_score_of_nothing_is_a_failure_not_a_skip() -> None:
    found = scores(metrics.TopScore(), example())
    assert found["unanswerable"] == pytest.approx(0.9)
    assert found["nothing retrieved"] == "nothing retrieved"
    assert "nothing retrieved" not in SKIPPED
    assert found["conversational"] in SKIPPED


def test_imported_run_has_no_text_and_therefore_no_token_precision() -> None:
    chunks, golden, rankings = align({"q": [("a", 1.0)]}, {"q": {"a": 1}, "r": {"a": 1}})
    values, reasons = metrics.ContextTokenPrecision().score(view(cover(chunks, golden), rankings, 5))
    assert reasons.tolist() == ["no text", ""]
    assert values[1] == 0.0


def test_latency_sums_the_stages_in_milliseconds() -> None:
    found = scores(metrics.Latency(), example())
    assert found["all found"] == pytest.approx(30.0)
    assert scores(metrics.Latency(stage="rerank"), example())["all found"] == pytest.approx(20.0)
    assert found["conversational"] == "not probed"
    assert set(scores(metrics.Latency(stage="judge"), example()).values()) == {"not probed"}


def test_latency_of_a_question_missed_in_one_stage_is_not_that_of_the_other_stages() -> None:
    looked = hand(ranking=[0], top_k=1)
    partly = EvaluationView(**{**vars(looked), "latency": {"retrieve": np.array([0.1]), "rerank": np.array([np.nan])}})
    assert metrics.Latency().score(partly).reasons.tolist() == ["not probed"]


def test_latency_names_and_quantiles() -> None:
    named = {metrics.Latency(quantile).name: quantile for quantile in (None, 0.5, 0.95, 0.99)}
    assert list(named) == ["latency_mean_ms", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms"]
    assert metrics.Latency(0.95, "rerank").name == "latency_rerank_p95_ms"
    assert metrics.Latency(0.95).quantile == 0.95
