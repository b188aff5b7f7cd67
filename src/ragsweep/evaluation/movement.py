"""Measure what reranking did to the evidence in a ranking."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ragsweep.core.types import NO_CHUNK, Rankings
from ragsweep.evaluation.evidence import Coverage

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


class Movement(NamedTuple):
    """What reranking did to the evidences that either list holds: shares of them, and places.

    An evidence is lost where only the first list covers it. ``mean_change`` is over those in both lists, positive where
    they moved towards the top; NaN where there are none. ``scores`` are quantiles (see QUANTILES) of the
    candidates' scores after reranking, NaN where there are none.
    """

    evidences: int
    up: float
    down: float
    kept: float
    lost: float
    mean_change: float
    scores: dict[float, float]

    def plain(self) -> dict[str, float]:
        """Name each number: ``evidences``, ``up`` ... ``mean_change``, ``score_p0`` to ``score_p100``."""
        moved = {name: float(value) for name, value in self._asdict().items() if name != "scores"}
        return {**moved, **{f"score_p{100 * share:g}": value for share, value in self.scores.items()}}


def compare(before: Rankings, after: Rankings, coverage: Coverage, scored: Rankings) -> Movement:
    """Compare the ranks of evidence before and after reranking.

    ``before`` and ``after`` have one row a question of ``coverage``, over its chunking. ``scored`` are the candidates
    in their new order, of the chunking that was searched, be it another one. Shares are NaN where neither list covers
    any evidence.
    """
    first, last = coverage.first_ranks(before), coverage.first_ranks(after)
    asked, both = (first > 0) | (last > 0), (first > 0) & (last > 0)
    change = (first - last)[both]
    count = int(asked.sum())

    def share(places: int) -> float:
        return places / count if count else float("nan")

    known = scored.scores[scored.positions != NO_CHUNK]
    return Movement(
        evidences=count,
        up=share(int((change > 0).sum() + (asked & (first == 0)).sum())),
        down=share(int((change < 0).sum())),
        kept=share(int((change == 0).sum())),
        lost=share(int((asked & (last == 0)).sum())),
        mean_change=float(change.mean()) if len(change) else float("nan"),
        scores={q: float(np.quantile(known, q)) if len(known) else float("nan") for q in QUANTILES},
    )
