"""Properties of every shipped metric, for any chunking, evidence, ranking and answers."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.core.types import (
    Answer,
    Answers,
    Chunks,
    Corpus,
    EvaluationView,
    Evidence,
    GoldenSet,
    JudgedMetric,
    Passage,
    Question,
    Rankings,
    Scores,
    Spans,
    Usage,
)
from ragsweep.evaluation.evidence import cover, view
from ragsweep.parts import metrics
from ragsweep.parts.metrics.bases import without_citations
from ragsweep.testing.metrics import answered, judgements
from support.metrics import shipped_metrics
from support.parts import Letters

TEXT = "one two, three four. five six; seven eight"
LETTERS = [n for n, letter in enumerate(TEXT) if letter != " "]


OF_RETRIEVAL = shipped_metrics("retrieval", embedder=Letters())
OF_ANSWERS = shipped_metrics("answers", "overlap", "grounding", embedder=Letters())


@st.composite
def rankings(draw: st.DrawFn) -> EvaluationView:
    """Draw overlapping chunks of one text, evidences of many lengths, and rankings of some of the chunks."""
    starts = sorted(draw(st.sets(st.sampled_from(LETTERS), max_size=6)) | {0})  # blank chunks have no token precision
    ends = [min(len(TEXT), end + draw(st.integers(0, 9))) for end in [*starts[1:], len(TEXT)]]
    chunks = Chunks(
        Corpus(["d"], [draw(st.sampled_from(["", "A title"]))], [TEXT]),
        Spans(np.zeros(len(starts), np.int32), np.array(starts), np.array(ends)),
    )
    questions = tuple(Question(f"q{n}", "", evidence=_evidence(draw)) for n in range(draw(st.integers(1, 3))))
    rows = [draw(st.permutations(range(len(starts)))) for _ in questions]
    length = np.array([draw(st.integers(0, len(starts))) for _ in questions])
    positions = np.where(np.arange(len(starts)) < length[:, None], np.array(rows), -1).astype(np.int32)
    scores = np.where(positions < 0, -np.inf, 1.0).astype(np.float32)
    return view(cover(chunks, GoldenSet(questions)), Rankings(positions, scores), draw(st.integers(1, 8)))


def _evidence(draw: st.DrawFn) -> tuple[Evidence, ...]:
    evidence = []
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.sampled_from(LETTERS))
        anchor = TEXT[start : start + draw(st.integers(1, 25))].rstrip()
        place = draw(st.sampled_from([(anchor, start), (None, None)]))
        evidence.append(Evidence("d", *place, draw(st.sampled_from([1.0, 2.0, 3.0]))))
    return tuple(evidence)


TEXTS = st.sampled_from([
    "", " ", "the cat", "Cat. [1]", "Le chat est là, dans l'école [2].", "A cat sat [1, 2]. It slept. [9]", "?!", "11",
    "`x[1]` is a list [1].", "Stars and planets are not moons.", "…", "été", "[1]", "I do not know",
]) | st.text(st.sampled_from("ab é.[1]`'\n"), max_size=15)  # fmt: skip
QUESTIONS = st.builds(
    Question, st.just("q"), TEXTS, answerable=st.booleans(), needs_retrieval=st.booleans(),
    references=st.lists(TEXTS, max_size=2).map(tuple),
    keywords=st.lists(st.sampled_from(["cat", "11", "été", "**"]), max_size=2).map(tuple),
    labels=st.sampled_from([{}, {"language": "fr"}, {"language": "??"}]),
)  # fmt: skip
ANSWERS = st.builds(
    Answer, TEXTS, st.booleans(), st.sampled_from(["", "", "timed out"]), st.sampled_from([0.5, float("nan")]),
    usage=st.sampled_from([Usage(), Usage(1, 10, 2)]), model=st.sampled_from(["", "priced-1"]),
    money=st.sampled_from([float("nan"), 0.0, 0.25]),
)  # fmt: skip


@st.composite
def answers(draw: st.DrawFn) -> EvaluationView:
    """Draw a few questions, each with any kind of answer."""
    size = draw(st.integers(0, 4))
    passages = st.lists(st.builds(Passage, st.just("p"), TEXTS), max_size=3).map(tuple)
    questions = tuple(draw(QUESTIONS) for _ in range(size))
    given = Answers([draw(ANSWERS) for _ in range(size)], [draw(passages) for _ in range(size)], np.zeros(size, int))
    return replace(answered([]), questions=questions, answers=given)


def scores(metric: Any, view: EvaluationView) -> Scores:
    judged = isinstance(metric, JudgedMetric)
    result: Scores = metric.score(replace(view, judgements=judgements(view, metric)) if judged else view)
    return result


def assert_within_bounds(metric: Any, view: EvaluationView) -> None:
    values, reasons = scores(metric, view)
    lowest, highest = metric.bounds
    measured = values[reasons == ""]
    assert np.isfinite(measured).all(), metric.name
    assert np.isnan(values[reasons != ""]).all(), metric.name
    assert lowest is None or (measured >= lowest).all(), metric.name
    assert highest is None or (measured <= highest).all(), metric.name


def test_shipped_metrics_are_keyed_by_their_names() -> None:
    by_name = OF_RETRIEVAL | OF_ANSWERS
    assert {key: metric.name for key, metric in by_name.items()} == {key: key for key in by_name}
    assert {"ndcg_at_10", "recall_at_10", "precision_at_5", "hit_rate_at_5", "f1_at_5", "mrr", "map", "context_recall",
            "context_precision", "context_ndcg", "context_tokens", "latency_p95_ms"} <= OF_RETRIEVAL.keys()  # fmt: skip
    assert {"keyword_coverage", "token_f1", "semantic_similarity", "success_rate"} <= OF_ANSWERS.keys()


@given(rankings())
def test_metrics_of_retrieval_are_within_their_bounds_and_give_a_reason_exactly_where_nan(
    view: EvaluationView,
) -> None:
    for metric in OF_RETRIEVAL.values():
        assert_within_bounds(metric, view)


@settings(max_examples=12)
@given(answers())
def test_metrics_of_answers_are_within_their_bounds_and_never_score_a_failed_answer(view: EvaluationView) -> None:
    assert view.answers is not None
    failed = [bool(answer.failed) for answer in view.answers.answers]
    for metric in OF_ANSWERS.values():
        assert_within_bounds(metric, view)
        assert np.isnan(scores(metric, view).values[failed]).all(), metric.name


@given(rankings())
def test_recall_and_hit_rate_never_fall_with_the_cutoff(view: EvaluationView) -> None:
    for kind in (metrics.Recall, metrics.HitRate):
        values = np.array([kind(cutoff).score(view).values for cutoff in range(1, 10)])
        assert (np.diff(np.nan_to_num(values), axis=0) >= 0).all()


@given(rankings())
def test_context_recall_and_ndcg_are_those_of_the_ranking_cut_at_top_k(view: EvaluationView) -> None:
    for of_context, of_ranking in (
        (metrics.ContextRecall(), metrics.Recall(view.top_k)),
        (metrics.ContextNdcg(), metrics.Ndcg(view.top_k)),
    ):
        np.testing.assert_array_equal(of_context.score(view).values, of_ranking.score(view).values)


@given(rankings())
def test_number_of_scored_questions_does_not_depend_on_what_was_found(view: EvaluationView) -> None:
    with_evidence = sum(any(evidence.grade > 0 for evidence in question.evidence) for question in view.questions)
    for metric in (metrics.Recall(1), metrics.Ndcg(), metrics.ContextPrecision(), metrics.ContextTokenPrecision()):
        assert np.isfinite(metric.score(view).values).sum() == with_evidence


@given(answers(), st.floats(0.01, 1), st.floats(0.01, 1))
def test_answer_that_is_right_at_a_high_threshold_is_right_at_a_low_one(
    view: EvaluationView, first: float, second: float
) -> None:
    low, high = (
        np.nan_to_num(metrics.SuccessRate(threshold).score(view).values) for threshold in sorted((first, second))
    )
    assert (low >= high).all()


@given(st.text())
def test_text_without_citations_has_none(text: str) -> None:
    assert "[1]" not in without_citations(f"{text.replace('`', '')} [1]")
