"""Run files and qrels by evidence: trec_eval's numbers of them are ours, question by question."""

from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.core.results import Evaluation
from ragsweep.core.types import Chunks, Corpus, Evidence, GoldenSet, Question, Rankings, Spans
from ragsweep.evaluation.evidence import Coverage, cover, view
from ragsweep.evaluation.trec_texts import evidence_qrels_text, evidence_run_text
from ragsweep.parts.metrics import (
    ContextNdcg,
    ContextRecall,
    HitRate,
    MeanAveragePrecision,
    Mrr,
    Ndcg,
    Precision,
    Recall,
)
from ragsweep.sweep.running.session import Session
from support.commands import beir, evaluate_with_artifacts

SAME = {
    "ndcg": Ndcg(), "ndcg_cut_3": Ndcg(3), "map": MeanAveragePrecision(), "map_cut_3": MeanAveragePrecision(3),
    "P_5": Precision(5), "success_1": HitRate(1), "recip_rank": Mrr(), "set_recall": Recall(),
}  # fmt: skip
MEASURES = {"ndcg", "ndcg_cut.3,10", "map", "map_cut.3", "P.5", "success.1", "recip_rank", "set_recall", "recall.10"}
TEXT = "alpha beta gamma delta epsilon zeta "
WORDS = TEXT.split()
GRADES = st.integers(1, 3)

Table = dict[str, dict[str, float]]


def outside(run: str, qrels: str, most: int | None = None) -> Table:
    """Evaluate files with pytrec_eval; ``most``: only the lines whose rank field is at most this."""
    lines = [line for line in run.splitlines() if most is None or int(line.split()[3]) <= most]
    evaluator = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(qrels.splitlines()), MEASURES)
    found: Table = evaluator.evaluate(pytrec_eval.parse_run(lines))
    return found


@st.composite
def covered(draw: st.DrawFn) -> tuple[Coverage, Rankings, np.ndarray]:
    """Draw overlapping chunks of one text, evidences in it, rankings, and lengths of contexts."""
    ends = [n for n, letter in enumerate(TEXT) if letter == " "]
    starts = [0, *(end + 1 for end in ends[:-1])]
    spans = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=6)
    chosen = [(0, 2), (3, 2), *draw(spans)]  # the first two hold the whole text
    begin, end = np.array(sorted({(starts[low], ends[min(low + size, 5)]) for low, size in chosen})).T
    chunks = Chunks(Corpus(["d"], [""], [TEXT]), Spans(np.zeros(len(begin), dtype=np.int32), begin, end))
    anchors = st.lists(st.sampled_from(WORDS), unique=True, min_size=1, max_size=5)
    questions = tuple(
        Question(f"q {n}", "", evidence=tuple(Evidence("d", one, grade=draw(GRADES)) for one in draw(anchors)))
        for n in range(2)
    )
    depth = draw(st.integers(1, len(begin)))
    orders = [draw(st.permutations(range(len(begin))))[:depth] for _ in questions]
    scores = np.tile(-np.arange(depth, dtype=np.float32), (2, 1))
    length = np.array([draw(st.integers(0, 3)), draw(st.integers(0, 3))])
    return cover(chunks, GoldenSet(questions)), Rankings(np.array(orders, dtype=np.int32), scores), length


@settings(deadline=None)
@given(covered())
def test_every_metric_is_trec_evals_where_chunks_overlap_and_cover_several(
    case: tuple[Coverage, Rankings, np.ndarray],
) -> None:
    coverage, rankings, _ = case
    looked = view(coverage, rankings, 3)
    run, qrels = evidence_run_text(looked, "tag"), evidence_qrels_text(coverage)
    names = [question.id.replace(" ", "%20") for question in coverage.questions]
    for measure, metric in SAME.items():
        found = outside(run, qrels)
        np.testing.assert_allclose(metric.score(looked).values, [found[name][measure] for name in names], atol=1e-6,
                                   err_msg=measure)  # fmt: skip
    near = outside(run, qrels, most=3)
    shares = [near.get(name, {"set_recall": 0.0})["set_recall"] for name in names]
    np.testing.assert_allclose(Recall(3).score(looked).values, shares, atol=1e-6)


@settings(deadline=None)
@given(covered())
def test_context_that_a_budget_cuts_has_trec_evals_recall_and_ndcg(
    case: tuple[Coverage, Rankings, np.ndarray],
) -> None:
    coverage, rankings, length = case
    looked = view(coverage, rankings, 3, length=np.minimum(length, rankings.positions.shape[1]))
    found = outside(evidence_run_text(looked, "tag"), evidence_qrels_text(coverage))
    for n, question in enumerate(coverage.questions):
        row = found[question.id.replace(" ", "%20")]
        assert row["set_recall"] == pytest.approx(ContextRecall().score(looked).values[n], abs=1e-6)
        assert row["ndcg_cut_3"] == pytest.approx(ContextNdcg().score(looked).values[n], abs=1e-6)


def check_outside(evaluation: Evaluation, top_k: int) -> None:
    result, artifacts = evaluation
    (run,), (qrels,) = artifacts.evidence_runs.values(), artifacts.evidence_qrels.values()
    whole, near = outside(run, qrels), outside(run, qrels, most=10)
    context = outside(run, qrels, most=top_k)
    for n, question in enumerate(result.questions["question_id"]):
        ours = {name: column[n] for name, column in result.questions.items() if name in result.summaries.metrics}
        if question not in whole:
            assert np.isnan(ours["ndcg_at_10"])
            continue
        theirs = {"ndcg_at_10": whole[question]["ndcg_cut_10"], "mrr": whole[question]["recip_rank"],
                  "map": whole[question]["map"], "recall_at_10": near.get(question, {}).get("set_recall", 0.0),
                  "context_recall": context.get(question, {}).get("set_recall", 0.0)}  # fmt: skip
        assert theirs == pytest.approx({name: ours[name] for name in theirs}, abs=1e-6)


@pytest.mark.nightly
def test_the_bundled_set_has_trec_evals_numbers() -> None:
    check_outside(evaluate_with_artifacts(Session(), "retriever=bm25", "chunker.size=300", "top_k=5"), 5)


@pytest.mark.nightly
def test_chunks_of_a_collection_have_trec_evals_numbers(collections: Path) -> None:
    check_outside(
        evaluate_with_artifacts(Session(), *beir(collections / "python_faq_en"), "retriever=bm25", "top_k=5"), 5
    )
