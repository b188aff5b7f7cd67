"""Metrics of the whole ranking, even beyond the context (``top_k``).

Most of them follow trec_eval (https://github.com/usnistgov/trec_eval, files m_ndcg_cut.c, m_recall.c, m_P.c,
m_success.c, m_recip_rank.c and m_map.c), with two differences. First, relevance is a property of pieces of evidence,
not of chunks, so that no denominator depends on the chunking. The values equal trec_eval's if each document is one
chunk with at most one piece of evidence. Second, a question without relevant evidence is not scored, whereas trec_eval
scores it 0.

trec_eval has neither F1 nor nDCG with exponential gain. It also lacks AnnRecall and AnnEvidenceLost. These compare an
approximate index with an exact search of the same vectors.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import NOTHING_RETRIEVED, score_with_approximation, score_with_retrieval
from ragsweep.core.question_results import number_within
from ragsweep.core.types import NO_CHUNK, EvaluationView, PartTraits, Scores
from ragsweep.parts.metrics.bases import (
    EvidenceMetric,
    Proportion,
    divide,
    evidences,
    is_within,
    name_at,
    per_question,
    withhold,
)

HIGHEST = 1000
"""Highest grade that an exponential gain allows: 2^1024 exceeds the range of doubles, and gains are summed."""


def _exponential(grade: NDArray[np.float64]) -> NDArray[np.float64]:
    if (highest := grade.max(initial=0.0)) > HIGHEST:
        fact = f"gain=exponential allows grades up to {HIGHEST:,}, and the highest grade is {highest:,g}"
        raise ConfigError(f"metrics: {fact}; set gain=linear for this metric, or lower the grades")
    return np.exp2(grade) - 1.0


Gain = Literal["linear", "exponential"]
GAINS: Mapping[Gain, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "linear": lambda grade: grade,
    "exponential": _exponential,
}


class Ndcg(EvidenceMetric):
    """Discounted cumulative gain (DCG) of the ranking, divided by that of the ideal ranking.

    DCG = sum of gain / log2(rank + 1) (Järvelin and Kekäläinen 2002, "Cumulated gain-based evaluation of IR
    techniques", with the discount of trec_eval's m_ndcg.c). Linear gain is the grade, as in trec_eval; exponential gain
    is 2^grade - 1 (Burges et al. 2005, "Learning to rank using gradient descent"). The ideal ranking consists of the
    question's relevant evidence, highest grade first. Both rankings are cut at ``cutoff``, unless it is None.
    """

    TRAITS = PartTraits(version="1")

    def __init__(self, cutoff: int | None = None, gain: Gain = "linear") -> None:
        self.name = name_at("ndcg" if gain == "linear" else "ndcg_exp", cutoff)
        self.cutoff = cutoff
        self.gain = gain

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        best = _ideal(view.evidence_question, view.grade, self.gain, self.cutoff, len(view.questions))
        discounted = _discount(view.grade, view.credited_rank, self.gain)
        gained = per_question(view, np.where(is_within(view.credited_rank, self.cutoff), discounted, 0.0))
        return np.minimum(divide(gained, best), 1.0)  # a rounding error can make the quotient exceed 1


class _AtCutoff(EvidenceMetric):
    """A metric of the first ``cutoff`` chunks of the ranking (None: of all chunks); its name begins with ``stem``."""

    stem: ClassVar[str]

    def __init__(self, cutoff: int | None = None) -> None:
        self.name = name_at(self.stem, cutoff)
        self.cutoff = cutoff


class _AtGivenCutoff(_AtCutoff):
    """A metric of the first ``cutoff`` chunks of the ranking; it is undefined without a cutoff."""

    cutoff: int

    def __init__(self, cutoff: int) -> None:
        super().__init__(cutoff)


class Recall(_AtCutoff):
    """Proportion of the relevant pieces of evidence that are found within the cutoff (trec_eval's recall)."""

    TRAITS = PartTraits(version="1")
    stem = "recall"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        return recall(view, self.cutoff)


class Precision(_AtGivenCutoff):
    """Number of relevant pieces of evidence within the cutoff, divided by the cutoff (trec_eval's P).

    The divisor is the cutoff even if the ranking is shorter. If one chunk covers several pieces of evidence, the pieces
    count at successive ranks (see ``EvaluationView.credited_rank``).
    """

    TRAITS = PartTraits(version="1")
    stem = "precision"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        return _precision(view, self.cutoff)


class F1(_AtGivenCutoff):
    """Harmonic mean of precision and recall at the cutoff; 0 if both are 0 (van Rijsbergen 1979, ch. 7)."""

    TRAITS = PartTraits(version="1")
    stem = "f1"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        complete, precise = recall(view, self.cutoff), _precision(view, self.cutoff)
        return divide(2 * complete * precise, complete + precise)


class HitRate(_AtGivenCutoff):
    """Whether any relevant evidence is found within the cutoff: 1 or 0 (trec_eval's success)."""

    TRAITS = PartTraits(version="1")
    stem = "hit_rate"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        return (per_question(view, is_within(view.first_rank, self.cutoff)) > 0).astype(np.float64)


class Mrr(_AtCutoff):
    """Reciprocal of the rank of the first chunk that covers evidence; 0 if none does (trec_eval's recip_rank).

    With a cutoff, only the chunks within the cutoff count.
    """

    TRAITS = PartTraits(version="1")
    stem = "mrr"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        inverse = np.where(is_within(view.first_rank, self.cutoff), 1.0 / np.maximum(view.first_rank, 1), 0.0)
        best = np.zeros(len(view.questions))
        np.maximum.at(best, view.evidence_question, inverse)
        return best


class MeanAveragePrecision(_AtCutoff):
    """Mean, over the relevant pieces of evidence, of the precision at the piece's rank (trec_eval's map, map_cut).

    The precision of a piece that is not found within the cutoff is 0. The score of a question is its average precision;
    MAP is the mean of these scores.
    """

    TRAITS = PartTraits(version="1")
    stem = "map"

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        rank = np.where(is_within(view.credited_rank, self.cutoff), view.credited_rank, 0)
        ranked = np.flatnonzero(rank)
        ranked = ranked[np.lexsort((rank[ranked], view.evidence_question[ranked]))]
        precision = np.zeros(len(rank))
        precision[ranked] = number_within(view.evidence_question[ranked]) / rank[ranked]
        return divide(per_question(view, precision), evidences(view))


def recall(view: EvaluationView, cutoff: int | None) -> NDArray[np.float64]:
    """Return, for each question, the proportion of its relevant evidence that is found within the cutoff.

    The proportion is 0 for a question without relevant evidence. ``cutoff`` None means the whole ranking.
    """
    return divide(per_question(view, is_within(view.first_rank, cutoff)), evidences(view))


def _precision(view: EvaluationView, cutoff: int) -> NDArray[np.float64]:
    return per_question(view, is_within(view.credited_rank, cutoff)) / cutoff


@memoize_by_identity
def _ideal(
    question: NDArray[np.int64], grade: NDArray[np.float64], gain: Gain, cutoff: int | None, questions: int
) -> NDArray[np.float64]:
    """Return the discounted cumulative gain of each question's ideal ranking (questions,), cut at ``cutoff``.

    ``question`` and ``grade`` (pieces,) are the question and the grade of each relevant piece of evidence.
    """
    order = np.lexsort((-GAINS[gain](grade), question))
    rank = np.empty_like(question)
    rank[order] = number_within(question[order])
    best = np.where(is_within(rank, cutoff), _discount(grade, rank, gain), 0.0)
    return np.bincount(question, best, questions).astype(np.float64)


def _discount(grade: NDArray[np.float64], rank: NDArray[np.int64], gain: Gain) -> NDArray[np.float64]:
    return GAINS[gain](grade) / np.log2(np.maximum(rank, 1) + 1.0)


class AnnRecall(Proportion):
    """Proportion of the first chunks of an exact search that are also among the first chunks of the approximate search.

    Both rankings are cut at the cutoff or, if there is none, at the depth of the exact search. This is the recall of
    Aumüller, Bernhardsson and Faithfull, "ANN-Benchmarks" (Information Systems 2020), except that chunks are compared
    by identity, not by distance. In a hybrid, the counts are summed over all legs with an approximate index. Questions
    are not scored if no index is approximate, if they are conversational, or if the exact search finds nothing.
    """

    TRAITS = PartTraits(version="1")
    needs = ("retrieval", "exact")

    def __init__(self, cutoff: int | None = None) -> None:
        self.name = name_at("ann_recall", cutoff)
        self.cutoff = cutoff

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason for a question that is not scored."""
        shared, total = np.zeros(len(view.questions)), np.zeros(len(view.questions))
        row = np.arange(len(view.questions), dtype=np.int64)[:, None] << 32  # makes positions unique to their question
        for leg in view.approximate.values():
            exact = leg.exact.first(self.cutoff or leg.exact.positions.shape[1])
            found, is_chunk = leg.found.first(exact.positions.shape[1]), exact.positions != NO_CHUNK
            is_shared = np.isin(exact.positions + row, found.positions + row) & is_chunk
            shared += np.count_nonzero(is_shared, axis=1)
            total += np.count_nonzero(is_chunk, axis=1)
        scores = score_with_approximation(view, score_with_retrieval(view, divide(shared, total)))
        return withhold(scores, total == 0, NOTHING_RETRIEVED)


class AnnEvidenceLost(_AtCutoff):
    """Proportion of all relevant evidence that exact search finds within the cutoff but approximate search misses.

    In a hybrid, evidence is lost only if the approximate search finds it in none of the legs with an approximate index.
    Questions are not scored if no index is approximate, or if they have no relevant evidence.
    """

    TRAITS = PartTraits(version="1")
    stem = "ann_evidence_lost"
    needs = ("evidence", "exact")
    higher_is_better = False

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason for a question that is not scored."""
        return score_with_approximation(view, super().score(view))

    def _values(self, view: EvaluationView) -> NDArray[np.float64]:
        in_exact, in_found = np.zeros(len(view.grade), dtype=bool), np.zeros(len(view.grade), dtype=bool)
        for leg in view.approximate.values():
            in_exact |= is_within(leg.exact_rank, self.cutoff)
            in_found |= is_within(leg.found_rank, self.cutoff)
        return divide(per_question(view, in_exact & ~in_found), evidences(view))
