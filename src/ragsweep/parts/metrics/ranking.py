"""Metrics of the whole ranking, whatever ``top_k``; with one chunk per document they equal trec_eval's.

trec_eval: https://github.com/usnistgov/trec_eval, files m_ndcg_cut.c, m_recall.c, m_P.c, m_success.c, m_recip_rank.c
and m_map.c. Two differences: evidences are relevant, not chunks, so that no denominator depends on the chunking; and a
question without relevant evidence is not scored, where trec_eval scores it 0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import score_with_evidence
from ragsweep.core.types import EvaluationView, Scores
from ragsweep.parts.metrics.bases import Proportion, divide, evidences, is_within, name_at, per_question

GAINS: Mapping[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "linear": lambda grade: grade,
    "exponential": lambda grade: np.exp2(grade) - 1.0,
}


class Ndcg(Proportion):
    """Discounted cumulative gain of the ranking, relative to the ideal one cut at the same length.

    DCG = sum of gain / log2(rank + 1) (Järvelin and Kekäläinen 2002, "Cumulated gain-based evaluation of IR
    techniques", with the discount of trec_eval's m_ndcg.c). Linear gain is the grade, as in trec_eval; exponential gain
    is 2^grade - 1 (Burges et al. 2005, "Learning to rank using gradient descent"). The ideal ranking consists of the
    question's relevant evidences, highest grade first.
    """

    VERSION = "1"

    def __init__(self, cutoff: int | None = None, gain: str = "linear") -> None:
        if gain not in GAINS:
            raise ConfigError(f'there is no gain "{gain}"{nearest(gain, GAINS)}')
        self.name = name_at("ndcg" if gain == "linear" else "ndcg_exp", cutoff)
        self.cutoff = cutoff
        self.gain = gain

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        best = _ideal(view.evidence_question, view.grade, self.gain, self.cutoff, len(view.questions))
        discounted = _discount(view.grade, view.credited_rank, self.gain)
        found = per_question(view, np.where(is_within(view.credited_rank, self.cutoff), discounted, 0.0))
        return score_with_evidence(view, np.minimum(divide(found, best), 1.0))  # rounding


class _AtCutoff(Proportion):
    """A metric of the ranking down to a cutoff, or of the whole ranking, named after ``stem``."""

    stem: ClassVar[str]

    def __init__(self, cutoff: int | None = None) -> None:
        self.name = name_at(self.stem, cutoff)
        self.cutoff = cutoff

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        return score_with_evidence(view, self._values(view))

    @abstractmethod
    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        """Return one number per question (questions,)."""


class _AtGivenCutoff(_AtCutoff):
    """A metric that is not defined without a cutoff."""

    cutoff: int

    def __init__(self, cutoff: int) -> None:
        super().__init__(cutoff)


class Recall(_AtCutoff):
    """Proportion of the relevant evidences found within the cutoff (m_recall.c); a chunk may cover several."""

    VERSION = "1"
    stem = "recall"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        return recall(view, self.cutoff)


class Precision(_AtGivenCutoff):
    """Evidences credited within the cutoff, divided by the cutoff, however short the ranking (m_P.c)."""

    VERSION = "1"
    stem = "precision"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        return _precision(view, self.cutoff)


class F1(_AtGivenCutoff):
    """Harmonic mean of precision and recall at the cutoff, 0 where both are (van Rijsbergen 1979, ch. 7)."""

    VERSION = "1"
    stem = "f1"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        found, exact = recall(view, self.cutoff), _precision(view, self.cutoff)
        return divide(2 * found * exact, found + exact)


class HitRate(_AtGivenCutoff):
    """Whether any evidence was found within the cutoff: 1 or 0 (m_success.c)."""

    VERSION = "1"
    stem = "hit_rate"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        return (per_question(view, is_within(view.first_rank, self.cutoff)) > 0).astype(np.float64)


class Mrr(_AtCutoff):
    """1 / rank of the first chunk that covers an evidence, 0 where there is none (m_recip_rank.c)."""

    VERSION = "1"
    stem = "mrr"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        inverse = np.where(is_within(view.first_rank, self.cutoff), 1.0 / np.maximum(view.first_rank, 1), 0.0)
        best = np.zeros(len(view.questions))
        np.maximum.at(best, view.evidence_question, inverse)
        return best


class MeanAveragePrecision(_AtCutoff):
    """Mean precision at the ranks of the evidences, 0 for those not found (m_map.c, m_map_cut.c).

    A question's value is its average precision; the mean over questions is MAP.
    """

    VERSION = "1"
    stem = "map"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        rank = np.where(is_within(view.credited_rank, self.cutoff), view.credited_rank, 0)
        found = np.flatnonzero(rank)
        found = found[np.lexsort((rank[found], view.evidence_question[found]))]
        precision = np.zeros(len(rank))
        precision[found] = _number_within(view.evidence_question[found]) / rank[found]
        return _mean(view, precision)


def recall(view: EvaluationView, cutoff: int | None) -> NDArray[np.float64]:
    """Return the proportion of evidences found within the cutoff (questions,); 0 for a question without any."""
    return divide(_count_within(view.evidence_question, view.first_rank, cutoff, len(view.questions)), evidences(view))


def _precision(view: EvaluationView, cutoff: int) -> NDArray[np.float64]:
    return _count_within(view.evidence_question, view.credited_rank, cutoff, len(view.questions)) / cutoff


@memoize_by_identity
def _count_within(
    question: NDArray[np.int64], rank: NDArray[np.int64], cutoff: int | None, questions: int
) -> NDArray[np.float64]:
    """Count each question's evidences within the cutoff."""
    return np.bincount(question, is_within(rank, cutoff), questions).astype(np.float64, copy=False)


def _mean(view: EvaluationView, values: NDArray[Any]) -> NDArray[np.float64]:
    return divide(per_question(view, values), evidences(view))


@memoize_by_identity
def _ideal(
    question: NDArray[np.int64], grade: NDArray[np.float64], gain: str, cutoff: int | None, questions: int
) -> NDArray[np.float64]:
    """Sum the discounted gain of every question's ideal ranking."""
    order = np.lexsort((-GAINS[gain](grade), question))
    rank = np.empty_like(question)
    rank[order] = _number_within(question[order])
    best = np.where(is_within(rank, cutoff), _discount(grade, rank, gain), 0.0)
    return np.bincount(question, best, questions).astype(np.float64)


@memoize_by_identity
def _discount(grade: NDArray[np.float64], rank: NDArray[np.int64], gain: str) -> NDArray[np.float64]:
    return GAINS[gain](grade) / np.log2(np.maximum(rank, 1) + 1.0)


def _number_within(question: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the rows of each question from 1; rows of one question are adjacent."""
    return np.arange(1, len(question) + 1) - np.searchsorted(question, question, side="left")
