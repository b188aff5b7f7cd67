"""Losses of an approximate index against exact search of the same vectors to the same depth.

Where every index is exact nothing is measured; several legs with approximate indexes are taken together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.missing import (
    NOTHING_RETRIEVED,
    score_where,
    score_with_approximation,
    score_with_evidence,
    score_with_retrieval,
)
from ragsweep.core.types import NO_CHUNK, EvaluationView, Rankings, Scores
from ragsweep.parts.metrics.bases import Proportion, divide, is_within, name_at, per_question
from ragsweep.parts.metrics.bases import evidences as count_evidences


class AnnRecall(Proportion):
    """Proportion of exact search's first chunks that are among as many of approximate search.

    The recall of Aumüller, Bernhardsson and Faithfull, "ANN-Benchmarks" (Information Systems 2020), by position.
    """

    VERSION = "1"
    needs = ("retrieval", "exact")

    def __init__(self, cutoff: int | None = None) -> None:
        self.name = name_at("ann_recall", cutoff)
        self.cutoff = cutoff

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        found, whole = np.zeros(len(view.questions)), np.zeros(len(view.questions))
        for leg in view.approximate.values():
            exact = leg.exact.first(self.cutoff or leg.exact.positions.shape[1])
            found += _count_shared(exact, leg.found.first(exact.positions.shape[1]))
            whole += np.count_nonzero(exact.positions != NO_CHUNK, axis=1)
        scores = score_with_approximation(view, score_with_retrieval(view, divide(found, whole)))
        reasons = np.where(scores.reasons == "", NOTHING_RETRIEVED, scores.reasons)
        return score_where((scores.reasons == "") & (whole > 0), scores.values, reasons)


class AnnEvidenceLost(Proportion):
    """Proportion of the relevant evidences within the cutoff of exact but not of approximate search."""

    VERSION = "1"
    needs = ("evidence", "exact")
    higher_is_better = False

    def __init__(self, cutoff: int | None = None) -> None:
        self.name = name_at("ann_evidence_lost", cutoff)
        self.cutoff = cutoff

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        had, has = np.zeros(len(view.grade), dtype=bool), np.zeros(len(view.grade), dtype=bool)
        for leg in view.approximate.values():
            had |= is_within(leg.exact_rank, self.cutoff)
            has |= is_within(leg.found_rank, self.cutoff)
        lost = divide(per_question(view, had & ~has), count_evidences(view))
        return score_with_approximation(view, score_with_evidence(view, lost))


def _count_shared(one: Rankings, other: Rankings) -> NDArray[np.int64]:
    """Count the chunks that are in both rankings, per question."""
    row = np.arange(len(one.positions), dtype=np.int64)[:, None] << 32
    both = np.isin(one.positions + row, other.positions + row) & (one.positions != NO_CHUNK)
    counts: NDArray[np.int64] = np.count_nonzero(both, axis=1)
    return counts
