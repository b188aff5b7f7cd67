"""Reorder rankings by the scores of a reranker."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.traits import traits_of
from ragsweep.core.types import NO_CHUNK, Floats, Rankings
from ragsweep.parts.fusion import min_max
from ragsweep.parts.limits import check_at_least
from ragsweep.parts.ranking import check_min_score, mark_failed

REORDERING = frozenset({"candidates", "min_score", "mix"})
"""Parameters of a reranker that change only how its scores are used, not the scores themselves."""


class Reordering(NamedTuple):
    """The settings that determine how the scores of a reranker are used.

    The reranker scores only the first ``candidates`` chunks of a ranking. If ``min_score`` is set, chunks that score
    lower and chunks without a score are dropped; the ranking may then be empty. If ``mix`` is 0, chunks are ordered by
    the scores of the reranker. If ``mix`` is above 0 (at most 1), they are ordered by ``(1 - mix) * min-max(reranker) +
    mix * min-max(first stage)``. Min-max scales the scores of a question's candidates to the range from 0 to 1.
    """

    candidates: int
    min_score: float | None = None
    mix: float = 0.0

    def check(self) -> None:
        """Raise ConfigError if a number is out of range or NaN."""
        check_at_least("reranker", 0, candidates=self.candidates)
        if not 0 <= self.mix <= 1:
            raise ConfigError(f"reranker.mix, the first stage's weight, must be between 0 and 1, got {self.mix}")
        check_min_score(self.min_score, "reranker")


@dataclass(eq=False, kw_only=True)
class ReorderingSettings:
    """Base class of rerankers that support all settings of Reordering."""

    candidates: int = 50
    min_score: float | None = None
    mix: float = 0.0

    def __post_init__(self) -> None:
        Reordering(self.candidates, self.min_score, self.mix).check()


def reordering_of(part: Any) -> Reordering:
    """Return the settings of a reranker: ``candidates``, and the settings in its trait ``reordering``."""
    named = REORDERING.intersection(traits_of(part).reordering)
    return Reordering(**{name: getattr(part, name) for name in {*named, "candidates"}})


def reorder(ranking: Rankings, scores: Floats, how: Reordering) -> Rankings:
    """Return rankings in which the first ``candidates`` chunks, the head, are reordered; equal scores keep their order.

    ``scores`` (pairs,) contains the reranker's scores for the chunks of all heads, row by row, without padding. If
    ``min_score`` is None, chunks after the head keep their ranks and scores. Otherwise, all chunks after the head, and
    chunks of the head that score lower, are dropped. The returned scores of the head are the scores that determine its
    order (mixed scores if ``mix`` is above 0).
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
