"""The ranking family: by hand, against pytrec_eval, and the laws."""

import math
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Chunks, Corpus, EvaluationView, Evidence, GoldenSet, Metric, Question, Rankings, Spans
from ragsweep.evaluation.evidence import cover, view
from ragsweep.parts.metrics import F1, HitRate, MeanAveragePrecision, Mrr, Ndcg, Precision, Recall
from support.inputs.trec_files import align, read_run
from support.metrics import rows

LOG3 = math.log2(3)


def example(*evidence: Evidence, ranking: list[int]) -> EvaluationView:
    """One question; the document reads "alpha beta gamma delta", in chunks "alpha beta ", "gamma " and "delta"."""
    spans = Spans(np.zeros(3, np.int32), np.array([0, 11, 17]), np.array([11, 17, 22]))
    chunks = Chunks(Corpus(["d"], [""], ["alpha beta gamma delta"]), spans)
    rankings = Rankings(np.array([ranking], np.int32), np.zeros((1, len(ranking)), np.float32))
    return view(cover(chunks, GoldenSet((Question("q", "", evidence=evidence),))), rankings, 2)


def value(metric: Metric, looked: EvaluationView) -> float:
    return float(metric.score(looked).values[0])


# Second chunk first: gamma at rank 1, alpha at 2, delta not at all.
PLAIN = example(Evidence("d", "alpha"), Evidence("d", "gamma"), Evidence("d", "delta"), ranking=[1, 0])
# One chunk covers alpha (grade 1) and beta (grade 2): first ranks 1 and 1, credited 2 and 1; gamma moves from 2 to 3.
SHARED = example(Evidence("d", "alpha"), Evidence("d", "beta", grade=2.0), Evidence("d", "gamma"), ranking=[0, 1])


@pytest.mark.parametrize(
    ("metric", "plain", "shared"),
    [
        (Recall(1), 1 / 3, 2 / 3),
        (Recall(2), 2 / 3, 1.0),
        (Recall(), 2 / 3, 1.0),
        (Precision(1), 1.0, 1.0),
        (Precision(5), 2 / 5, 3 / 5),
        (HitRate(1), 1.0, 1.0),
        (F1(1), 2 * (1 / 3) / (4 / 3), 2 * (2 / 3) / (5 / 3)),
        (Mrr(), 1.0, 1.0),
        (MeanAveragePrecision(), (1 / 1 + 2 / 2) / 3, 1.0),
        (MeanAveragePrecision(2), (1 / 1 + 2 / 2) / 3, 2 / 3),
        (Ndcg(2), 1.0, 1.0),
        (Ndcg(), (1 + 1 / LOG3) / (1 + 1 / LOG3 + 1 / 2), 1.0),
        (Ndcg(3, gain="exponential"), (1 + 1 / LOG3) / (1 + 1 / LOG3 + 1 / 2), 1.0),
    ],
    ids=lambda case: case.name if hasattr(case, "name") else "",
)
def test_hand_computed_values(metric: Metric, plain: float, shared: float) -> None:
    assert value(metric, PLAIN) == pytest.approx(plain, abs=1e-12)
    assert value(metric, SHARED) == pytest.approx(shared, abs=1e-12)


def test_gain_is_the_grade_or_exponential() -> None:
    looked = example(Evidence("d", "gamma"), Evidence("d", "alpha", grade=3.0), ranking=[1, 2, 0])  # grades 1, -, 3
    assert value(Ndcg(10), looked) == pytest.approx((1 + 3 / 2) / (3 + 1 / LOG3), abs=1e-12)
    assert value(Ndcg(10, gain="exponential"), looked) == pytest.approx((1 + 7 / 2) / (7 + 1 / LOG3), abs=1e-12)


def test_a_grade_whose_exponential_gain_would_overflow_is_refused() -> None:
    def graded(grade: float) -> EvaluationView:
        return example(Evidence("d", "gamma"), Evidence("d", "alpha", grade=grade), ranking=[0, 1])

    assert value(Ndcg(10, gain="exponential"), graded(1000.0)) == 1.0
    assert value(Ndcg(10), graded(2000.0)) == 1.0
    with pytest.raises(ConfigError, match="highest grade is 2,000"):
        value(Ndcg(10, gain="exponential"), graded(2000.0))


def test_question_without_evidence_is_nan_and_says_what_it_is_instead() -> None:
    questions = (
        Question("labelled irrelevant", "", evidence=(Evidence("d", grade=0.0),)),
        Question("unanswerable", "", answerable=False),
        Question("conversation", "", needs_retrieval=False),
    )
    chunks = Chunks(Corpus(["d"], [""], ["x"]), Spans(np.zeros(1, np.int32), np.zeros(1, int), np.ones(1, int)))
    rankings = Rankings(np.zeros((3, 1), np.int32), np.ones((3, 1), np.float32))
    looked = view(cover(chunks, GoldenSet(questions)), rankings, 1)
    for metric in (Recall(1), Precision(1), HitRate(1), F1(1), Mrr(), MeanAveragePrecision(), Ndcg()):
        assert rows(metric, looked) == ["no evidence", "unanswerable", "conversational"]


def test_name_tells_the_cutoff_and_the_gain() -> None:
    built = (Ndcg(10), Ndcg(10, "exponential"), Ndcg(), Mrr(10), MeanAveragePrecision())
    assert [metric.name for metric in built] == ["ndcg_at_10", "ndcg_exp_at_10", "ndcg", "mrr_at_10", "map"]


def test_cutoff_below_one_and_unknown_gain_are_errors() -> None:
    with pytest.raises(ConfigError, match=r"metrics\.recall\.cutoff must be at least 1, got 0"):
        Recall(0)
    for part in ("Ndcg", "ContextNdcg"):
        with pytest.raises(ConfigError, match=r"m\.gain: must be 'linear' or 'exponential', got 'lineal'"):
            Builder().build({"_target_": f"ragsweep.parts.metrics.{part}", "gain": "lineal"}, "m")


# --- pytrec_eval says the same -----------------------------------------------------------------------------------

CUTOFFS = (1, 2, 3, 5, 10)
SAME = {
    "ndcg": Ndcg(), "map": MeanAveragePrecision(), "recip_rank": Mrr(),
    **{f"ndcg_cut_{k}": Ndcg(k) for k in CUTOFFS}, **{f"map_cut_{k}": MeanAveragePrecision(k) for k in CUTOFFS},
    **{f"recall_{k}": Recall(k) for k in CUTOFFS}, **{f"P_{k}": Precision(k) for k in CUTOFFS},
    **{f"success_{k}": HitRate(k) for k in CUTOFFS},
}  # fmt: skip
MEASURES = {"ndcg", "map", "recip_rank"} | {
    f"{name}.{','.join(map(str, CUTOFFS))}" for name in ("ndcg_cut", "map_cut", "recall", "P", "success")
}
DOCUMENTS = [f"d{n}" for n in range(14)]
# scores with many ties, and some that differ only beyond single precision
SCORES = st.sampled_from([0.0, 0.5, 0.50000000001, 1.0, 1.0000001, -2.0]) | st.floats(-5, 5, allow_nan=False)


@st.composite
def judged_runs(draw: st.DrawFn) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    names = [f"q{n}" for n in range(draw(st.integers(1, 3)))]
    run = {name: draw(st.dictionaries(st.sampled_from(DOCUMENTS), SCORES, min_size=1)) for name in names}
    qrels = {name: draw(st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3))) for name in names}
    for grades in qrels.values():
        grades[draw(st.sampled_from(DOCUMENTS))] = draw(st.integers(1, 3))
    return run, qrels


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(judged_runs())
def test_every_metric_equals_pytrec_eval(
    tmp_path: Path, case: tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]
) -> None:
    run, qrels = case
    path = tmp_path / "run.txt"
    path.write_text("".join(f"{q} Q0 {d} 1 {score!r} tag\n" for q, row in run.items() for d, score in row.items()))
    chunks, golden, rankings = align(read_run(path), qrels)
    looked = view(cover(chunks, golden), rankings, 5)
    expected = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(run)
    for name, metric in SAME.items():
        wanted = [expected[question.id][name] for question in golden.questions]
        np.testing.assert_allclose(metric.score(looked).values, wanted, atol=1e-6, rtol=0, err_msg=name)
