"""Example questions with answers of every kind, for MetricContract."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragsweep.core.types import (
    Answer,
    Answers,
    Case,
    Chunks,
    Corpus,
    EvaluationView,
    Evidence,
    GoldenSet,
    JudgedMetric,
    Judgement,
    Passage,
    Question,
    Rankings,
    Spans,
    Turn,
    Usage,
)
from ragsweep.evaluation.evidence import cover, view
from ragsweep.parts.outputs import WholeText

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
"""Each row: the kind of answer, the question, the answer, and the passages of its context."""


def answered(order: Sequence[int] | None = None, metric: object = None) -> EvaluationView:
    """Make a view of questions with answers of every kind.

    Args:
        order: Indices into `ROWS` of the questions, in order; None for all.
        metric: If it is a JudgedMetric, the view has its judgements.
    """
    rows = [ROWS[n] for n in (range(len(ROWS)) if order is None else order)]
    questions = tuple(replace(question, id=name) for name, question, _, _ in rows)
    given = [answer._replace(money=1e-5 * answer.usage.tokens_out) for _, _, answer, _ in rows]
    answers = Answers(given, [row[3] for row in rows], np.zeros(len(rows), dtype=np.int64))
    example = replace(_ranked(questions, answers), answers=answers, output=WholeText())
    return replace(example, judgements=judgements(example, metric)) if isinstance(metric, JudgedMetric) else example


def judgements(example: EvaluationView, metric: JudgedMetric) -> dict[str, list[Judgement]]:
    """Map a metric's name to its judgements, one per answer; failed or incomplete cases only get a reason."""
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
    """Return a view in which the context of each question is its ranking."""
    chunks = Chunks(
        Corpus(["d0", "d1", "d2"], ["", "", ""], list(_TEXTS)),
        Spans(np.arange(3, dtype=np.int32), np.zeros(3, dtype=np.int64), np.array([len(text) for text in _TEXTS])),
    )
    positions = np.full((len(questions), 2), -1, dtype=np.int32)
    for row, context in enumerate(answers.passages):
        positions[row, : len(context)] = [int(passage.name[1:]) for passage in context]
    scores = np.where(positions >= 0, np.array([0.9, 0.5], dtype=np.float32), -np.inf).astype(np.float32)
    return view(cover(chunks, GoldenSet(questions)), Rankings(positions, scores), 2)
