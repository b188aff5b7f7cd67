"""Metrics of the context: the first ``top_k`` chunks, which the generator is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import (
    CONVERSATIONAL,
    NO_DISTRACTORS,
    NO_SECTION,
    NO_TEXT,
    NOTHING_RETRIEVED,
    SECTION_UNKNOWN,
    score_where,
    score_with_evidence,
    score_with_retrieval,
)
from ragsweep.core.types import NO_CHUNK, Corpus, EvaluationView, Question, Scores
from ragsweep.golden.sections import section, words
from ragsweep.parts.metrics.bases import Proportion, divide, evidences, per_question
from ragsweep.parts.metrics.ranking import Ndcg, recall


class ContextRecall(Proportion):
    """Proportion of the relevant evidences that the context covers, by label."""

    VERSION = "1"
    name = "context_recall"

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        return score_with_evidence(view, recall(_truncated_view(view), view.top_k))


class ContextPrecision(Proportion):
    """Proportion of the context's chunks (not of ``top_k``) that cover an evidence, by label.

    An empty context scores 0, as in trec_eval.
    """

    VERSION = "1"
    name = "context_precision"

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        return score_with_evidence(view, divide(view.context_relevant.sum(axis=1), _context_lengths(view)))


class ContextNdcg(Proportion):
    """nDCG of the ranking cut at ``top_k``; see Ndcg for the formula."""

    VERSION = "1"

    def __init__(self, gain: str = "linear") -> None:
        self.name = f"context_{Ndcg(gain=gain).name}"
        self.gain = gain

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        return Ndcg(view.top_k, self.gain).score(_truncated_view(view))


class EvidenceCoverage(Proportion):
    """Mean proportion of an evidence's characters in the context, whatever the chunk boundaries.

    Of a whole document as evidence any chunk in the context suffices.
    """

    VERSION = "1"
    name = "evidence_coverage"

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        return score_with_evidence(view, divide(per_question(view, view.evidence_covered), evidences(view)))


class ContextTokenPrecision(Proportion):
    """Proportion of the context's tokens that are part of an evidence, which large chunks lower.

    An empty context scores 0, like context precision; a context without text (an imported run) is not scored.
    """

    VERSION = "1"
    name = "context_token_precision"

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        count = view.context_tokens.sum(axis=1)
        scores = score_with_evidence(view, divide(view.context_evidence_tokens.sum(axis=1), count))
        textless = (count == 0) & (_context_lengths(view) > 0) & (scores.reasons == "")
        reasons = np.where(textless, NO_TEXT, scores.reasons)
        return score_where(reasons == "", scores.values, reasons)


class ContextTokens(Proportion):
    """Number of tokens of the context with titles, by one fixed tokenizer, of questions that need retrieval."""

    VERSION = "1"
    name = "context_tokens"
    needs = ("retrieval",)
    unit = "tokens"
    higher_is_better = False
    bounds = (0.0, None)

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        return score_with_retrieval(view, view.context_tokens.sum(axis=1))


class EmptyRate(Proportion):
    """Whether nothing was retrieved: 1 or 0, of questions that need retrieval, unanswerable ones included."""

    VERSION = "1"
    name = "empty_rate"
    needs = ("retrieval",)
    higher_is_better = False

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        return score_with_retrieval(view, _ranking_lengths(view) == 0)


class Results(Proportion):
    """Number of chunks in the ranking, of questions that need retrieval."""

    VERSION = "1"
    name = "results"
    needs = ("retrieval",)
    higher_is_better = None
    bounds = (0.0, None)

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        return score_with_retrieval(view, _ranking_lengths(view))


class TopScore(Proportion):
    """Score of the first chunk, on the retriever's or reranker's own scale, of questions that need retrieval."""

    VERSION = "1"
    name = "top_score"
    needs = ("retrieval",)
    higher_is_better = None
    bounds = (None, None)

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        found = _ranking_lengths(view) > 0
        first = view.rankings.scores[:, 0] if view.rankings.scores.shape[1] else np.full(len(found), np.nan)
        scores = score_with_retrieval(view, first)
        missing = ~found & (scores.reasons == "")
        reasons = np.where(missing, NOTHING_RETRIEVED, scores.reasons)
        return score_where(reasons == "", scores.values, reasons)


def _ranking_lengths(view: EvaluationView) -> NDArray[np.int64]:
    return np.asarray((view.rankings.positions >= 0).sum(axis=1))


def _context_lengths(view: EvaluationView) -> NDArray[np.int64]:
    return np.asarray((view.context >= 0).sum(axis=1))


def _truncated_view(view: EvaluationView) -> EvaluationView:
    """Set the ranks of chunks beyond the context's token budget to 0."""
    if view.context_length is None:
        return view
    length = view.context_length[view.evidence_question]
    first, credited = (np.where(rank <= length, rank, 0) for rank in (view.first_rank, view.credited_rank))
    return replace(view, first_rank=first, credited_rank=credited)


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
    return _expectations(questions, rows, [NO_DISTRACTORS] * len(questions))


@memoize_by_identity
def _sections(questions: Sequence[Question], corpus: Corpus) -> Expected:
    """Locate each question's expected section."""
    rows = [
        (n, document, *span)
        for n, question in enumerate(questions)
        for document in dict.fromkeys(corpus.position.get(one.document, -1) for one in question.evidence)
        if question.section and document >= 0 and (span := _section_span(corpus, document, question.section))
    ]
    return _expectations(questions, rows, [SECTION_UNKNOWN if one.section else NO_SECTION for one in questions])


def _expectations(
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
