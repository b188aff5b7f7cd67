"""How good the context is: the first ``top_k`` chunks, which are what the generator gets to read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.reasons import NO_TEXT, NOTHING_RETRIEVED, score_where, score_with_evidence, score_with_retrieval
from ragsweep.core.remembering import remembered
from ragsweep.core.types import Scores, View
from ragsweep.parts.metrics.proportion import Proportion, divide, evidences, per_question
from ragsweep.parts.metrics.ranking import Ndcg, recall


class ContextRecall(Proportion):
    """Count the evidences that a chunk of the context covers, of all relevant ones; by label, no LLM is asked."""

    name = "context_recall"

    def score(self, view: View) -> Scores:
        """Score every question."""
        return score_with_evidence(view, recall(_cut(view), view.top_k))


class ContextPrecision(Proportion):
    """Count the chunks of the context that cover an evidence, of those handed on (not of ``top_k``); by label.

    An empty context scores 0, as in trec_eval: evidence was there to be found.
    """

    name = "context_precision"

    def score(self, view: View) -> Scores:
        """Score every question."""
        return score_with_evidence(view, divide(view.context_relevant.sum(axis=1), _handed_on(view)))


class ContextNdcg(Proportion):
    """Take the nDCG of the context: that of the ranking, cut at ``top_k``. See Ndcg for the formula."""

    def __init__(self, gain: str = "linear") -> None:
        self.name = f"context_{Ndcg(gain=gain).name}"
        self.gain = gain

    def score(self, view: View) -> Scores:
        """Score every question."""
        return Ndcg(view.top_k, self.gain).score(_cut(view))


class EvidenceCoverage(Proportion):
    """Average over the evidences the share of their characters that stands in the context, however it is cut.

    A whole document named as evidence counts as soon as any chunk of it is in the context.
    """

    name = "evidence_coverage"

    def score(self, view: View) -> Scores:
        """Score every question."""
        return score_with_evidence(view, divide(per_question(view, view.evidence_covered), evidences(view)))


class ContextTokenPrecision(Proportion):
    """Count the tokens of the context that stand in an evidence, of all its tokens: what a large chunk pays.

    An empty context scores 0, like context precision; a context without text (an imported run) has no score.
    """

    name = "context_token_precision"

    def score(self, view: View) -> Scores:
        """Score every question."""
        count = view.context_tokens.sum(axis=1)
        scores = score_with_evidence(view, divide(view.context_evidence_tokens.sum(axis=1), count))
        textless = (count == 0) & (_handed_on(view) > 0) & (scores.reasons == "")
        if not textless.any():
            return scores
        reasons = np.where(textless, NO_TEXT, scores.reasons)
        return score_where(reasons == "", scores.values, reasons)


class ContextTokens(Proportion):
    """Count the tokens of the context, with titles, by one tokenizer whatever the config; where retrieval is needed."""

    name = "context_tokens"
    needs = ("retrieval",)
    unit = "tokens"
    higher_is_better = False
    bounds = (0.0, None)

    def score(self, view: View) -> Scores:
        """Score every question."""
        return score_with_retrieval(view, view.context_tokens.sum(axis=1))


class EmptyRate(Proportion):
    """Say whether nothing at all was retrieved: 1 or 0; of all questions that need retrieval, unanswerable ones too."""

    name = "empty_rate"
    needs = ("retrieval",)
    higher_is_better = False

    def score(self, view: View) -> Scores:
        """Score every question."""
        return score_with_retrieval(view, _retrieved(view) == 0)


class Results(Proportion):
    """Count the chunks in the ranking, at most its depth; of all questions that need retrieval."""

    name = "results"
    needs = ("retrieval",)
    higher_is_better = None
    bounds = (0.0, None)

    def score(self, view: View) -> Scores:
        """Score every question."""
        return score_with_retrieval(view, _retrieved(view))


class TopScore(Proportion):
    """Take the score of the first chunk, on the retriever's or reranker's own scale; of all that need retrieval."""

    name = "top_score"
    needs = ("retrieval",)
    higher_is_better = None
    bounds = (None, None)

    def score(self, view: View) -> Scores:
        """Score every question."""
        found = _retrieved(view) > 0
        first = view.rankings.scores[:, 0] if view.rankings.scores.shape[1] else np.full(len(found), np.nan)
        scores = score_with_retrieval(view, first)
        missing = ~found & (scores.reasons == "")
        if not missing.any():
            return scores
        reasons = np.where(missing, NOTHING_RETRIEVED, scores.reasons)
        return score_where(reasons == "", scores.values, reasons)


def _retrieved(view: View) -> NDArray[np.int64]:
    return _lengths(view.rankings.positions)


@remembered
def _lengths(positions: NDArray[np.int32]) -> NDArray[np.int64]:
    """Count the chunks of every ranking."""
    return np.asarray((positions >= 0).sum(axis=1))


def _handed_on(view: View) -> NDArray[np.int64]:
    return np.asarray((view.context >= 0).sum(axis=1))


def _cut(view: View) -> View:
    """Take out of the ranks those of chunks that a budget of tokens left out of the context."""
    if view.context_length is None:
        return view
    length = view.context_length[view.evidence_question]
    first, credited = (np.where(rank <= length, rank, 0) for rank in (view.first_rank, view.credited_rank))
    return replace(view, first_rank=first, credited_rank=credited)
