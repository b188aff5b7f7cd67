"""Reorder the candidates of rankings by a reranker's scores."""

from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.traits import traits_of
from ragsweep.core.types import NO_CHUNK, Floats, Rankings
from ragsweep.parts.fusion import min_max
from ragsweep.parts.limits import check_at_least
from ragsweep.parts.ranking import check_min_score, mark_failed

REORDERING = frozenset({"candidates", "min_score", "mix"})
"""Parameters of a reranker that change only the use of its scores."""


class Reordering(NamedTuple):
    """How a reranker's scores are used.

    Only the first ``candidates`` chunks of a ranking are scored. With ``min_score``, only chunks with at least this
    score are kept: unscored ones are dropped, and a ranking may be empty. If ``mix`` (0 to 1) is above 0, the
    order follows ``(1 - mix) * min-max(reranker) + mix * min-max(first stage)``, where min-max scales the scores of a
    question's candidates to 0..1. If ``mix`` is 0, the reranker's scores are used unchanged.
    """

    candidates: int
    min_score: float | None = None
    mix: float = 0.0

    def check(self) -> None:
        """Raise ConfigError for a number out of range."""
        check_at_least("reranker", 0, candidates=self.candidates)
        if not 0 <= self.mix <= 1:
            raise ConfigError(f"reranker.mix, the first stage's weight, must be between 0 and 1, got {self.mix}")
        check_min_score(self.min_score, "reranker")


def reordering_of(part: Any) -> Reordering:
    """Return a reranker's ``candidates``, with ``min_score`` and ``mix`` if its trait ``reordering`` names them."""
    named = REORDERING.intersection(traits_of(part).reordering)
    return Reordering(**{name: getattr(part, name) for name in {*named, "candidates"}})


def reorder(ranking: Rankings, scores: Floats, how: Reordering) -> Rankings:
    """Reorder the head of every ranking, its first ``candidates``; ties and the chunks after the head keep their order.

    With ``min_score``, chunks of the head that the reranker scores lower and all chunks after the head are dropped.
    ``scores`` (pairs,) has the reranker's scores of all heads, row by row, without padding. In the head, the returned
    scores are those that determine its order: the reranker's or the mixed ones. After the head they are the first
    stage's.
    """
    head = ranking.first(how.candidates)
    is_chunk = head.positions != NO_CHUNK
    scored = np.full(head.positions.shape, -np.inf, dtype=np.float32)
    scored[is_chunk] = scores
    deciding = scored.astype(np.float64)
    if how.mix:
        deciding = (1 - how.mix) * min_max(Rankings(head.positions, scored)) + how.mix * min_max(head)
    kept = is_chunk if how.min_score is None else is_chunk & (scored >= how.min_score)
    deciding = np.where(kept, deciding, -np.inf)
    order = np.argsort(-deciding, axis=1, kind="stable")
    positions, values = ranking.positions.copy(), ranking.scores.copy()
    if how.min_score is not None:
        positions[:], values[:] = NO_CHUNK, -np.inf
    length = head.positions.shape[1]
    positions[:, :length] = np.take_along_axis(np.where(kept, head.positions, NO_CHUNK), order, axis=1)
    values[:, :length] = np.take_along_axis(deciding, order, axis=1)
    return mark_failed(Rankings(positions, values, ranking.chunks), ranking.failed)
