"""Metrics of the context (the chunks passed to the generator), and of the number and scores of ranked chunks."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import (
    CONVERSATIONAL,
    NO_COUNT,
    NO_DISTRACTORS,
    NO_SECTION,
    NO_TEXT,
    NOTHING_RETRIEVED,
    SECTION_UNKNOWN,
    score_where,
    score_with_evidence,
    score_with_retrieval,
)
from ragsweep.core.types import NO_CHUNK, Corpus, EvaluationView, PartTraits, Question, Scores
from ragsweep.golden.markdown import section, words
from ragsweep.parts.metrics.bases import (
    EvidenceMetric,
    Proportion,
    RetrievalMetric,
    divide,
    evidences,
    per_question,
    withhold,
)
from ragsweep.parts.metrics.ranking import Gain, Ndcg, recall


class ContextRecall(EvidenceMetric):
    """Proportion of the question's relevant pieces of evidence (labelled in the golden set) that the context covers."""

    TRAITS = PartTraits(version="1")
    name = "context_recall"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        return recall(_truncated_view(view), view.top_k)


class ContextPrecision(EvidenceMetric):
    """Proportion of the context's chunks that cover a relevant piece of evidence.

    The divisor is the number of chunks in the context, even if it is less than ``top_k``. An empty context scores 0,
    as in trec_eval.
    """

    TRAITS = PartTraits(version="1")
    name = "context_precision"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        return divide(view.context_relevant.sum(axis=1), _context_lengths(view))


class ContextNdcg(Proportion):
    """Discounted cumulative gain of the context, divided by the ideal gain: evidence at early ranks counts more.

    See ``ranking.Ndcg`` for the formula. The ideal ranking is cut at ``top_k``, even if a token budget makes the
    context shorter.
    """

    TRAITS = PartTraits(version="2")

    def __init__(self, gain: Gain = "linear") -> None:
        self.name = f"context_{Ndcg(gain=gain).name}"
        self.gain = gain

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason for a question without relevant evidence."""
        return Ndcg(view.top_k, self.gain).score(_truncated_view(view))


class EvidenceCoverage(EvidenceMetric):
    """Proportion of the evidence's characters that the context contains, averaged over the pieces of evidence.

    If a piece of evidence is a whole document, its proportion is 1 as soon as the context contains any chunk of the
    document.
    """

    TRAITS = PartTraits(version="1")
    name = "evidence_coverage"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        return divide(per_question(view, view.evidence_covered), evidences(view))


class ContextTokenPrecision(Proportion):
    """Proportion of the context's tokens that belong to evidence; chunks much longer than the evidence lower the score.

    An empty context scores 0, as in ContextPrecision. A context without text, such as the context of an imported run,
    is not scored.
    """

    TRAITS = PartTraits(version="2")
    name = "context_token_precision"

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason for a question that is not scored."""
        count = view.context_tokens.sum(axis=1)
        scores = score_with_evidence(view, divide(view.context_evidence_tokens.sum(axis=1), count))
        return withhold(scores, (count == 0) & (_context_lengths(view) > 0), NO_TEXT)


class ContextTokens(RetrievalMetric):
    """Number of tokens in the context, including titles, counted with the same tokenizer for all configs.

    Only questions that need retrieval are scored.
    """

    TRAITS = PartTraits(version="2")
    name = "context_tokens"
    unit = "tokens"
    higher_is_better = False
    bounds = (0.0, None)

    def _values(self, view: EvaluationView) -> NDArray[np.int64]:
        return np.asarray(view.context_tokens.sum(axis=1))


class EmptyRate(RetrievalMetric):
    """Whether the ranking is empty: 1 or 0; all questions that need retrieval are scored."""

    TRAITS = PartTraits(version="1")
    name = "empty_rate"
    higher_is_better = False

    def _values(self, view: EvaluationView) -> NDArray[np.bool_]:
        return np.asarray(view.rankings.lengths == 0)


class Results(RetrievalMetric):
    """Number of chunks in the ranking; only questions that need retrieval are scored."""

    TRAITS = PartTraits(version="1")
    name = "results"
    higher_is_better = None
    bounds = (0.0, None)

    def _values(self, view: EvaluationView) -> NDArray[np.int64]:
        return view.rankings.lengths


class ExpectedCountMet(Proportion):
    """Whether the ranking has exactly as many chunks as the question's ``expected_count``: 1 or 0.

    Questions without this key, and conversational questions, are not scored.
    """

    TRAITS = PartTraits(version="1")
    name = "expected_count_met"
    needs = ("count",)

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason for a question that is not scored."""
        expected = np.array([question.expected_count for question in view.questions], dtype=np.float64)  # None: NaN
        met = view.rankings.lengths == expected
        return withhold(score_with_retrieval(view, met), np.isnan(expected), NO_COUNT)


class TopScore(Proportion):
    """Score of the ranking's first chunk, on the scale of the retriever or, if there is one, the reranker."""

    TRAITS = PartTraits(version="1")
    name = "top_score"
    needs = ("retrieval",)
    higher_is_better = None
    bounds = (None, None)

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason if the ranking is empty or the question is conversational."""
        scores = view.rankings.scores
        first = scores[:, 0] if scores.shape[1] else np.full(len(scores), np.nan)
        return withhold(score_with_retrieval(view, first), view.rankings.lengths == 0, NOTHING_RETRIEVED)


def _context_lengths(view: EvaluationView) -> NDArray[np.int64]:
    return np.asarray((view.context != NO_CHUNK).sum(axis=1))


def _truncated_view(view: EvaluationView) -> EvaluationView:
    """Return a view in which evidence has rank 0 if a token budget excludes it from the context."""
    if view.context_length is None:
        return view
    inside = view.first_rank <= view.context_length[view.evidence_question]  # not credited_rank, which may be later
    first, credited = (np.where(inside, rank, 0) for rank in (view.first_rank, view.credited_rank))
    return replace(view, first_rank=first, credited_rank=credited)


HALF = 0.5
"""Minimum overlap of a chunk and its section, as a proportion of the shorter of the two."""


ExpectedParts = tuple[NDArray[np.int64], NDArray[np.str_]]
"""An array of the distractors or sections of all questions, and one reason per question ("" if it is scored).

The array (4, items) has a column for each distractor or section. Its rows are the index of the question, the position
of the document, and the start and the end in the document.
"""


class DistractorRate(Proportion):
    """Proportion of the context's chunks that come from distractors (wrong documents that resemble relevant ones).

    An empty context scores 0. Questions without distractors in the corpus, and conversational questions, are not
    scored.
    """

    TRAITS = PartTraits(version="1")
    name = "distractor_rate"
    needs = ("distractors",)
    higher_is_better = False

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason for a question that is not scored."""
        (question, document, _, _), reasons = _distractors(view.questions, view.chunks.corpus)
        documents = np.append(view.chunks.spans.document, NO_CHUNK)[view.context]
        sums = np.zeros(len(view.context))
        np.add.at(sums, question, (documents[question] == document[:, None]).sum(axis=1))
        return score_where(reasons == "", divide(sums, _context_lengths(view)), reasons)


class SectionHit(Proportion):
    """Whether a chunk of the context belongs to the expected section: 1 or 0.

    The section is located by its heading in the documents of the question's relevant evidence. If a document's title
    equals the heading, the whole document is the section. A chunk belongs to the section if their overlap is at least
    half as long as the shorter of the two. A question is not scored if no section is expected or found, or if it is
    conversational.
    """

    TRAITS = PartTraits(version="2")
    name = "section_hit"
    needs = ("section",)

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason for a question that is not scored."""
        (question, *located), reasons = _sections(view.questions, view.chunks.corpus)
        document, start, end = (column[:, None] for column in located)
        context = view.context[question]
        chunk_document, chunk_start, chunk_end = (np.append(column, NO_CHUNK)[context] for column in view.chunks.spans)
        shared = np.minimum(chunk_end, end) - np.maximum(chunk_start, start)
        least = np.minimum(chunk_end - chunk_start, end - start)
        is_part = (chunk_document == document) & (shared > 0) & (shared >= HALF * least)
        hits = np.zeros(len(view.questions))
        np.maximum.at(hits, question, is_part.any(axis=1))
        return score_where(reasons == "", hits, reasons)


@memoize_by_identity
def _distractors(questions: Sequence[Question], corpus: Corpus) -> ExpectedParts:
    """Locate each question's distractors in the corpus; start and end are 0, because each is a whole document."""
    rows = [
        (n, corpus.position[name], 0, 0)
        for n, question in enumerate(questions)
        for name in dict.fromkeys(question.distractors)
        if name in corpus.position
    ]
    return _expected_parts(questions, rows, [NO_DISTRACTORS] * len(questions))


@memoize_by_identity
def _sections(questions: Sequence[Question], corpus: Corpus) -> ExpectedParts:
    """Locate each question's expected section in every document with relevant evidence for the question."""
    rows = [
        (n, document, *span)
        for n, question in enumerate(questions)
        for document in dict.fromkeys(corpus.position.get(one.document, -1) for one in question.relevant)
        if question.section and document >= 0 and (span := _section_span(corpus, document, question.section))
    ]
    lacking = [SECTION_UNKNOWN if question.section else NO_SECTION for question in questions]
    return _expected_parts(questions, rows, lacking)


def _expected_parts(
    questions: Sequence[Question], rows: Sequence[tuple[int, int, int, int]], lacking: Sequence[str]
) -> ExpectedParts:
    located = {row[0] for row in rows}
    reasons = [
        CONVERSATIONAL if not question.needs_retrieval else "" if n in located else lacking[n]
        for n, question in enumerate(questions)
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 4).T, np.array(reasons, dtype=np.str_)


def _section_span(corpus: Corpus, document: int, name: str) -> tuple[int, int] | None:
    if words(corpus.titles[document]) == words(name) != []:
        return 0, len(corpus.texts[document])
    return section(corpus.texts[document], name)
