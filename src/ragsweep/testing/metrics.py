"""Contract tests for a metric; to apply them, write ``class TestMine(MetricContract): metric = Mine(...)``."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ragsweep.core import missing as reasons_of_core
from ragsweep.core.types import (
    METRIC_NAME,
    NEEDS,
    Answer,
    Answers,
    Case,
    Chunks,
    Corpus,
    EvaluationView,
    Evidence,
    GoldenSet,
    IndexComparison,
    JudgedMetric,
    Judgement,
    Metric,
    Passage,
    Question,
    Rankings,
    Scores,
    Spans,
    Turn,
    Usage,
)
from ragsweep.evaluation.evidence import cover, view
from ragsweep.evaluation.scoring import checked_scores
from ragsweep.parts.outputs import WholeText
from ragsweep.testing.contract import Contract

_WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
_CORPUS = Corpus(["letters", "numbers"], ["Letters", ""], [" ".join(_WORDS), "one two three four five six"])
_SPANS = Spans(np.array([0, 0, 0, 1, 1], dtype=np.int32), np.array([0, 11, 23, 0, 14]), np.array([10, 22, 35, 13, 27]))
_QUESTIONS = (
    Question("all found", "", evidence=(Evidence("letters", "alpha"), Evidence("numbers", "one two", grade=2.0))),
    Question("one chunk covers two", "", evidence=(Evidence("letters", "gamma"), Evidence("letters", "delta"))),
    Question("half found", "", evidence=(Evidence("letters", "zeta"), Evidence("numbers", "six", grade=3.0))),
    Question("none found", "", evidence=(Evidence("numbers", "four"),)),
    Question("a whole document", "", evidence=(Evidence("letters"),)),
    Question("cut by a chunk's end", "", evidence=(Evidence("numbers", "three four five"),)),
    Question("nothing retrieved", "", evidence=(Evidence("letters", "beta"),)),
    Question("irrelevant evidence only", "", evidence=(Evidence("letters", "beta", grade=0.0),)),
    Question("unanswerable", "", answerable=False),
    Question("conversational", "", needs_retrieval=False),
)
_POSITIONS = np.array(
    [
        [0, 3, 1, 4], [3, 1, -1, -1], [2, 3, -1, -1], [0, 1, 2, 3], [4, 3, 1, 0], [3, 4, -1, -1], [-1, -1, -1, -1],
        [0, 1, -1, -1], [2, 4, 3, -1], [-1, -1, -1, -1],
    ],
    dtype=np.int32,
)  # fmt: skip
_EXACT = np.array(
    [
        [0, 2, 3, 1], [3, 1, 0, 2], [2, 3, 4, 0], [1, 4, 0, 2], [4, 3, 1, 0], [3, 4, 2, 0], [0, 1, 2, 3], [0, 1, 2, 3],
        [2, 4, 3, 0], [-1, -1, -1, -1],
    ],
    dtype=np.int32,
)  # fmt: skip
_SECONDS = np.array([0.01, 0.02, 0.03, 0.01, 0.02, np.nan, 0.01, 0.02, 0.03, np.nan])

_REASONS = frozenset(value for value in vars(reasons_of_core).values() if isinstance(value, str))


def example(order: Sequence[int] | None = None, *, top_k: int = 2, empty: bool = False) -> EvaluationView:
    """Return a view of ten questions, each of a different kind, over five chunks of two documents.

    Args:
        order: Indices of the questions in the view, in order; None for all questions.
        top_k: Number of chunks in the context.
        empty: Whether the rankings are empty; this does not affect the rankings of the exact search.
    """
    rows = list(range(len(_QUESTIONS))) if order is None else list(order)
    positions = np.full_like(_POSITIONS, -1) if empty else _POSITIONS[rows]
    rankings, exact = _scored(positions), _scored(_EXACT[rows])
    coverage = cover(Chunks(_CORPUS, _SPANS), GoldenSet(tuple(_QUESTIONS[n] for n in rows)))
    latency = {"retrieve": _SECONDS[rows], "rerank": _SECONDS[rows] * 2}
    leg = IndexComparison(rankings, exact, coverage.first_ranks(rankings), coverage.first_ranks(exact))
    return replace(view(coverage, rankings, top_k), latency=latency, approximate={"vector": leg})


def _scored(positions: NDArray[np.int32]) -> Rankings:
    falling = np.array([0.9, 0.7, 0.5, 0.3], dtype=np.float32)[: positions.shape[1]]
    return Rankings(positions, np.where(positions >= 0, falling, -np.inf).astype(np.float32))


class MetricContract(Contract):
    """Contract tests for a metric: set ``metric`` to an instance of your class."""

    metric: Metric

    def test_attributes_are_complete(self) -> None:
        """Check that name, needs, unit, direction, bounds and quantile are valid (see ``Metric``)."""
        lowest, highest = self.metric.bounds
        assert self.metric.name, "the metric has an empty name; set name in its class"
        assert METRIC_NAME.fullmatch(self.metric.name), "MLflow may reject the name; use letters, digits and _"
        assert isinstance(self.metric.needs, tuple)
        assert set(self.metric.needs) <= NEEDS, f"needs may contain only {', '.join(sorted(NEEDS))}"
        assert isinstance(self.metric.unit, str)
        assert self.metric.higher_is_better in (True, False, None)
        assert all(bound is None or math.isfinite(bound) for bound in (lowest, highest)), "use None for no bound"
        assert lowest is None or highest is None or lowest < highest
        assert self.metric.quantile is None or 0 < self.metric.quantile < 1

    def test_every_question_has_a_value_within_bounds_or_a_reason(self) -> None:
        """Check that each question has either a value within the bounds and no reason, or NaN and a reason."""
        for top_k in (1, 2, 4, 9):
            self._check(self.metric.score(example(top_k=top_k)), len(_QUESTIONS))
        self._check(self.metric.score(answered(metric=self.metric)), len(ROWS))

    def test_a_metric_that_needs_evidence_has_no_value_without_it(self) -> None:
        """Check that the last three questions of ``example``, without relevant evidence, have the value NaN."""
        if "evidence" in self.metric.needs:
            values = self.metric.score(example()).values[-3:]
            assert np.isnan(values).all(), "a question without relevant evidence has a value; use score_with_evidence"

    def test_empty_rankings_are_scored(self) -> None:
        """Check that empty rankings are scored without an error, as if a retriever found nothing."""
        self._check(self.metric.score(example(empty=True)), len(_QUESTIONS))

    def test_no_questions_give_no_scores(self) -> None:
        """Check that a view without questions gives no scores and no error."""
        self._check(self.metric.score(example(order=[])), 0)
        self._check(self.metric.score(answered([], self.metric)), 0)

    def test_other_questions_are_irrelevant(self) -> None:
        """Check that each question keeps its score if the order is reversed, and if other questions are left out."""
        for step in (-1, -2):
            chosen = list(range(len(_QUESTIONS)))[::step]
            self._compare(self.metric.score(example()), self.metric.score(example(chosen)), chosen)
            chosen = list(range(len(ROWS)))[::step]
            straight = self.metric.score(answered(metric=self.metric))
            self._compare(straight, self.metric.score(answered(chosen, self.metric)), chosen)

    def test_failed_answer_is_no_score(self) -> None:
        """Check that, for at least one failed answer, a metric of answers gives the failure as the reason."""
        if "answer" in self.metric.needs:
            reasons = self.metric.score(answered(metric=self.metric)).reasons
            failed = [n for n, row in enumerate(ROWS) if row[2].failed]
            assert "timed out" in reasons[failed], "the reason for a failed answer must be Answer.failed"

    def test_some_question_of_the_example_is_scored(self) -> None:
        """Check that the metric scores at least one question of each example that contains what the metric needs."""
        if set(self.metric.needs) <= {"evidence", "retrieval", "latency", "exact"}:
            assert not np.isnan(self.metric.score(example()).values).all()
        if set(self.metric.needs) <= {"answer", "reference", "keywords"}:
            assert not np.isnan(self.metric.score(answered(metric=self.metric)).values).all()

    def _compare(self, straight: Scores, turned: Scores, order: Sequence[int]) -> None:
        np.testing.assert_array_equal(straight.values[order], turned.values)
        np.testing.assert_array_equal(straight.reasons[order], turned.reasons)

    def _check(self, scores: Scores, questions: int) -> None:
        reasons = checked_scores(scores, questions, self.metric.bounds).reasons
        assert reasons_of_core.UNEXPLAINED not in reasons, "a missing score has no reason; see ragsweep.core.missing"
        if "judge" not in self.metric.needs and not isinstance(self.metric, JudgedMetric):  # a judge has other reasons
            own = {str(reason) for reason in reasons if reason} - _REASONS
            assert not own, f"{own} would count as failed measurements; use reasons of ragsweep.core.missing"


_TEXTS = (
    "The cat sat on the red mat. It was sleeping there all day.",
    "Stars are larger than planets and moons.",
    "Le chat est assis dans la cuisine avec les enfants.",
)
_FIRST, _SECOND, _THIRD = (Passage(f"d{n}", text) for n, text in enumerate(_TEXTS))
_BOTH = (_FIRST, _SECOND)
_COUNTED = Usage(1, 120, 9)

_ASKED = Question(
    "",
    "Where is the cat?",
    references=("on the mat", "the red mat"),
    keywords=("mat", "red mat"),
    evidence=(Evidence("d0"),),
)
_UNANSWERABLE = Question("", "Who painted the mat?", answerable=False, unanswerable_type="no such fact")
_FRENCH = Question(
    "",
    "Où est le chat ?",
    references=("dans la cuisine",),
    keywords=("Cuisine",),
    labels={"language": "fr"},
    evidence=(Evidence("d2"),),
)
_CHAT = Question("", "Thank you!", needs_retrieval=False, history=(Turn("user", "Where is the cat?"),))

ROWS: Sequence[tuple[str, Question, Answer, tuple[Passage, ...]]] = (
    ("right", _ASKED, Answer("The red mat.", support=0.9, seconds=0.5, usage=_COUNTED), _BOTH),
    ("right, in a sentence", _ASKED, Answer("The cat sat on the red mat [1].", support=0.8, usage=_COUNTED), _BOTH),
    ("wrong", _ASKED, Answer("It is larger than the moons. [2]", support=0.4, usage=_COUNTED), _BOTH),
    ("invented citation", _ASKED, Answer("The cat sat on the red mat.[7]", support=0.8), _BOTH),
    ("wrong citation", _ASKED, Answer("The cat sat on the red mat [2]. It slept.", support=0.7), _BOTH),
    ("abstained", _ASKED, Answer("I do not know.", abstained=True, support=0.1, usage=_COUNTED), _BOTH),
    ("failed", _ASKED, Answer(failed="timed out"), _BOTH),
    ("blank", _ASKED, Answer("  "), _BOTH),
    ("only signs", _ASKED, Answer("?!"), _BOTH),
    ("without context", _ASKED, Answer("On the mat, as far as I know.", support=0.3), ()),
    ("abstained without context", _ASKED, Answer(abstained=True), ()),
    ("invented", _UNANSWERABLE, Answer("The cat painted the mat.", support=0.5), _BOTH),
    ("refused", _UNANSWERABLE, Answer("I do not know.", abstained=True, support=0.2), _BOTH),
    ("failed, unanswerable", _UNANSWERABLE, Answer(failed="timed out"), _BOTH),
    ("in French", _FRENCH, Answer("Le chat est dans la cuisine avec les enfants [1].", support=0.8), (_THIRD,)),
    ("in another language", _FRENCH, Answer("The cat is in the kitchen with them.", support=0.8), (_THIRD,)),
    ("no reference", replace(_ASKED, references=()), Answer("The red mat", support=0.9), _BOTH),
    ("no keywords", replace(_ASKED, keywords=()), Answer("The red mat", support=0.9), _BOTH),
    ("nothing to compare with", replace(_ASKED, references=(), keywords=()), Answer("The red mat"), _BOTH),
    ("conversational", _CHAT, Answer("You are welcome."), ()),
)
"""Each row contains the kind of answer, the question, the answer, and the passages in the answer's context."""


def answered(order: Sequence[int] | None = None, metric: object = None) -> EvaluationView:
    """Return a view of the questions and answers in `ROWS`.

    Args:
        order: Indices in `ROWS` of the questions in the view, in order; None for all questions.
        metric: If it is a JudgedMetric, the view contains its judgements of the answers; else, it is ignored.
    """
    rows = [ROWS[n] for n in (range(len(ROWS)) if order is None else order)]
    questions = tuple(replace(question, id=name) for name, question, _, _ in rows)
    given = [answer._replace(money=1e-5 * answer.usage.tokens_out) for _, _, answer, _ in rows]
    answers = Answers(given, [row[3] for row in rows], np.zeros(len(rows), dtype=np.int64))
    example = replace(_ranked(questions, answers), answers=answers, output=WholeText())
    return replace(example, judgements=judgements(example, metric)) if isinstance(metric, JudgedMetric) else example


def judgements(example: EvaluationView, metric: JudgedMetric) -> dict[str, list[Judgement]]:
    """Judge the answers of a view with a metric; return {name of the metric: judgements}, one judgement per answer.

    An answer that failed, or whose case lacks a field that the metric uses, is not judged and gets only a reason.
    """
    assert example.answers is not None
    answers, passages = example.answers.answers, example.answers.passages
    cases = [
        Case(question.text, answer.text, tuple(passage.text for passage in context), next(iter(question.expected), ""))
        for question, answer, context in zip(example.questions, answers, passages, strict=True)
    ]
    complete = [n for n, case in enumerate(cases) if all(getattr(case, use) for use in metric.uses)]
    numbers = [n for n in complete if not answers[n].failed]
    results = [Judgement(reason=answer.failed or "lacks what it needs") for answer in answers]
    metric.judge([cases[n] for n in numbers], lambda n, judgement: results.__setitem__(numbers[n], judgement))
    return {metric.name: results}


def _ranked(questions: tuple[Question, ...], answers: Answers) -> EvaluationView:
    """Return a view in which the ranking of each question consists of the passages in the context of its answer."""
    chunks = Chunks(
        Corpus(["d0", "d1", "d2"], ["", "", ""], list(_TEXTS)),
        Spans(np.arange(3, dtype=np.int32), np.zeros(3, dtype=np.int64), np.array([len(text) for text in _TEXTS])),
    )
    positions = np.full((len(questions), 2), -1, dtype=np.int32)
    for row, context in enumerate(answers.passages):
        positions[row, : len(context)] = [int(passage.name[1:]) for passage in context]
    return view(cover(chunks, GoldenSet(questions)), _scored(positions), 2)
