"""Expectations of golden entries beyond evidence: no distractors, and the right section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import CONVERSATIONAL, NO_DISTRACTORS, NO_SECTION, NO_TEXT, SECTION_UNKNOWN, score_where
from ragsweep.core.types import NO_CHUNK, Corpus, EvaluationView, Question, Scores
from ragsweep.golden.sections import section, words
from ragsweep.parts.metrics.proportion import Proportion, divide

HALF = 0.5
"""Proportion of a chunk, or of a shorter section, from which the chunk counts as part of the section."""


class Expected(NamedTuple):
    """Parts of documents named by questions, one row per part, and why a question names none (questions,)."""

    question: NDArray[np.int64]
    document: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    reasons: NDArray[np.str_]


class DistractorRate(Proportion):
    """Proportion of the context's chunks that come from a distractor of the question.

    An empty context scores 0. A question without distractors in the corpus is not scored.
    """

    VERSION = "1"
    name = "distractor_rate"
    needs = ("distractors",)
    higher_is_better = False

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        if view.chunks is None:
            return _unscored(view)
        named, context = _distractors(view.questions, view.chunks.corpus), view.context
        documents = np.append(view.chunks.spans.document, NO_CHUNK)[context]
        sums = np.zeros(len(context))
        np.add.at(sums, named.question, (documents[named.question] == named.document[:, None]).sum(axis=1))
        lengths = (context != NO_CHUNK).sum(axis=1)
        return score_where(named.reasons == "", divide(sums, lengths), named.reasons)


class SectionHit(Proportion):
    """Whether a chunk of the context is part of the expected section: 1 or 0.

    The section is found by its heading, or a document's title, in the documents of the question's evidence. A chunk is
    part of it with half of its own text, or half of the section's. Without such a section there is no score.
    """

    VERSION = "1"
    name = "section_hit"
    needs = ("section",)

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        if view.chunks is None:
            return _unscored(view)
        named, spans = _sections(view.questions, view.chunks.corpus), view.chunks.spans
        context = view.context[named.question]
        document, begin, end = (np.append(column, NO_CHUNK)[context] for column in spans)
        shared = np.minimum(end, named.end[:, None]) - np.maximum(begin, named.start[:, None])
        least = np.minimum(end - begin, (named.end - named.start)[:, None])
        is_part = (document == named.document[:, None]) & (shared > 0) & (shared >= HALF * least)
        hits = np.zeros(len(view.questions))
        np.maximum.at(hits, named.question, is_part.any(axis=1))
        return score_where(named.reasons == "", hits, named.reasons)


def _unscored(view: EvaluationView) -> Scores:
    nothing = np.zeros(len(view.questions))
    return score_where(nothing > 0, nothing, NO_TEXT)


@memoize_by_identity
def _distractors(questions: Sequence[Question], corpus: Corpus) -> Expected:
    """Locate the distractors of each question."""
    rows = [
        (n, corpus.position[name], 0, 0)
        for n, question in enumerate(questions)
        for name in dict.fromkeys(question.distractors)
        if name in corpus.position
    ]
    return _expected(questions, rows, [NO_DISTRACTORS] * len(questions))


@memoize_by_identity
def _sections(questions: Sequence[Question], corpus: Corpus) -> Expected:
    """Locate each question's expected section."""
    rows = [
        (n, document, *span)
        for n, question in enumerate(questions)
        for document in dict.fromkeys(corpus.position.get(one.document, -1) for one in question.evidence)
        if question.section and document >= 0 and (span := _section_span(corpus, document, question.section))
    ]
    return _expected(questions, rows, [SECTION_UNKNOWN if one.section else NO_SECTION for one in questions])


def _expected(
    questions: Sequence[Question], rows: Sequence[tuple[int, int, int, int]], lacking: Sequence[str]
) -> Expected:
    known = {row[0] for row in rows}
    reasons = [
        CONVERSATIONAL if not question.needs_retrieval else "" if n in known else lacking[n]
        for n, question in enumerate(questions)
    ]
    question, document, start, end = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return Expected(question, document, start, end, np.array(reasons, dtype=np.str_))


def _section_span(corpus: Corpus, document: int, name: str) -> tuple[int, int] | None:
    if words(corpus.titles[document]) == words(name) != []:
        return 0, len(corpus.texts[document])
    return section(corpus.texts[document], name)
