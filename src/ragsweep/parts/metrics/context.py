"""Metrics of the context: the first ``top_k`` chunks, which the generator is given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.missing import NO_TEXT, NOTHING_RETRIEVED, score_where, score_with_evidence, score_with_retrieval
from ragsweep.core.types import EvaluationView, Scores
from ragsweep.parts.metrics.proportion import Proportion, divide, evidences, per_question
from ragsweep.parts.metrics.ranking import Ndcg, recall


class ContextRecall(Proportion):
    """Proportion of the relevant evidences that the context covers, by label."""

    VERSION = "1"
    name = "context_recall"

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        return score_with_evidence(view, recall(_cut(view), view.top_k))


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
        return Ndcg(view.top_k, self.gain).score(_cut(view))


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


def _cut(view: EvaluationView) -> EvaluationView:
    """Set the ranks of chunks beyond the context's token budget to 0."""
    if view.context_length is None:
        return view
    length = view.context_length[view.evidence_question]
    first, credited = (np.where(rank <= length, rank, 0) for rank in (view.first_rank, view.credited_rank))
    return replace(view, first_rank=first, credited_rank=credited)
