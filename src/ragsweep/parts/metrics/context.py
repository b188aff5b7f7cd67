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
    to_scores,
    withhold,
)
from ragsweep.parts.metrics.ranking import Gain, Ndcg, recall


class ContextRecall(EvidenceMetric):
    """Proportion of the relevant evidence, as labelled in the golden set, that the context covers."""

    TRAITS = PartTraits(version="1")
    name = "context_recall"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        return recall(_truncated_view(view), view.top_k)


class ContextPrecision(EvidenceMetric):
    """Proportion of the context's chunks (not of ``top_k``) that cover a labelled piece of evidence.

    An empty context scores 0, as in trec_eval.
    """

    TRAITS = PartTraits(version="1")
    name = "context_precision"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        return divide(view.context_relevant.sum(axis=1), _lengths(view.context))


class ContextNdcg(Proportion):
    """Discounted cumulative gain of the context, divided by the ideal gain: evidence at early ranks counts more.

    See Ndcg for the formula. The ideal ranking is cut at ``top_k``, even if a token budget shortens the context.
    """

    TRAITS = PartTraits(version="1")

    def __init__(self, gain: Gain = "linear") -> None:
        self.name = f"context_{Ndcg(gain=gain).name}"
        self.gain = gain

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        return Ndcg(view.top_k, self.gain).score(_truncated_view(view))


class EvidenceCoverage(EvidenceMetric):
    """Proportion of the evidence's characters that the context contains, averaged over the pieces of evidence.

    A piece that is a whole document is fully contained if any of its chunks is in the context.
    """

    TRAITS = PartTraits(version="1")
    name = "evidence_coverage"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        return divide(per_question(view, view.evidence_covered), evidences(view))


class ContextTokenPrecision(Proportion):
    """Proportion of the context's tokens that belong to evidence; large chunks lower it.

    An empty context scores 0, as in ContextPrecision; a context without text (an imported run) is not scored.
    """

    TRAITS = PartTraits(version="2")
    name = "context_token_precision"

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        count = view.context_tokens.sum(axis=1)
        scores = score_with_evidence(view, divide(view.context_evidence_tokens.sum(axis=1), count))
        return withhold(scores, (count == 0) & (_lengths(view.context) > 0), NO_TEXT)


class ContextTokens(RetrievalMetric):
    """Number of tokens of the context, titles included, counted by one fixed tokenizer.

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
    """Whether nothing was retrieved: 1 or 0, for questions that need retrieval, including unanswerable ones."""

    TRAITS = PartTraits(version="1")
    name = "empty_rate"
    higher_is_better = False

    def _values(self, view: EvaluationView) -> NDArray[np.bool_]:
        return np.asarray(_lengths(view.rankings.positions) == 0)


class Results(RetrievalMetric):
    """Number of chunks in the ranking, for questions that need retrieval."""

    TRAITS = PartTraits(version="1")
    name = "results"
    higher_is_better = None
    bounds = (0.0, None)

    def _values(self, view: EvaluationView) -> NDArray[np.int64]:
        return _lengths(view.rankings.positions)


class ExpectedCountMet(Proportion):
    """Whether the ranking has as many chunks as ``expected_count``: 1 or 0; without that key, there is no score."""

    TRAITS = PartTraits(version="1")
    name = "expected_count_met"
    needs = ("count",)

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        expected = [question.expected_count for question in view.questions]
        met = _lengths(view.rankings.positions) == np.array([-1 if one is None else one for one in expected])
        missing = np.array([one is None for one in expected], dtype=bool)
        return withhold(score_with_retrieval(view, met), missing, NO_COUNT)


class TopScore(Proportion):
    """Score of the first chunk, on the retriever's or reranker's own scale, for questions that need retrieval."""

    TRAITS = PartTraits(version="1")
    name = "top_score"
    needs = ("retrieval",)
    higher_is_better = None
    bounds = (None, None)

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        scores = view.rankings.scores
        first = scores[:, 0] if scores.shape[1] else np.full(len(scores), np.nan)
        return withhold(score_with_retrieval(view, first), _lengths(view.rankings.positions) == 0, NOTHING_RETRIEVED)


def _lengths(positions: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the number of chunks in each row, without padding."""
    return np.asarray((positions != NO_CHUNK).sum(axis=1))


def _truncated_view(view: EvaluationView) -> EvaluationView:
    """Set the ranks of evidence beyond the context's token budget to 0 (not found)."""
    if view.context_length is None:
        return view
    length = view.context_length[view.evidence_question]
    first, credited = (np.where(rank <= length, rank, 0) for rank in (view.first_rank, view.credited_rank))
    return replace(view, first_rank=first, credited_rank=credited)


HALF = 0.5
"""A chunk is part of a section if they share at least this proportion of the shorter one's text."""


ExpectedParts = tuple[NDArray[np.int64], NDArray[np.str_]]
"""The distractors, or the sections, of all questions, and why each question is not scored ("" if it is).

The first array has a column for each distractor or section, with the question's index, the document, start and end.
"""


class DistractorRate(Proportion):
    """Proportion of the context's chunks that come from a distractor of the question.

    An empty context scores 0. A question without distractors in the corpus is not scored.
    """

    TRAITS = PartTraits(version="1")
    name = "distractor_rate"
    needs = ("distractors",)
    higher_is_better = False

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        if view.chunks is None:
            return to_scores([NO_TEXT] * len(view.questions))
        (question, document, _, _), reasons = _distractors(view.questions, view.chunks.corpus)
        documents = np.append(view.chunks.spans.document, NO_CHUNK)[view.context]
        sums = np.zeros(len(view.context))
        np.add.at(sums, question, (documents[question] == document[:, None]).sum(axis=1))
        return score_where(reasons == "", divide(sums, _lengths(view.context)), reasons)


class SectionHit(Proportion):
    """Whether a chunk of the context is part of the expected section: 1 or 0.

    The section is found by its heading in the documents of the question's evidence; a document with this title is
    itself the section. A chunk is part of it if the two share at least half of the shorter one's text. If no section is
    found, there is no score.
    """

    TRAITS = PartTraits(version="1")
    name = "section_hit"
    needs = ("section",)

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        if view.chunks is None:
            return to_scores([NO_TEXT] * len(view.questions))
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
    """Locate the distractors of each question in the corpus; start and end are 0."""
    rows = [
        (n, corpus.position[name], 0, 0)
        for n, question in enumerate(questions)
        for name in dict.fromkeys(question.distractors)
        if name in corpus.position
    ]
    return _expected_parts(questions, rows, [NO_DISTRACTORS] * len(questions))


@memoize_by_identity
def _sections(questions: Sequence[Question], corpus: Corpus) -> ExpectedParts:
    """Locate each question's expected section."""
    rows = [
        (n, document, *span)
        for n, question in enumerate(questions)
        for document in dict.fromkeys(corpus.position.get(evidence.document, -1) for evidence in question.evidence)
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
