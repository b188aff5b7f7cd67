"""Put the candidates of rankings in the order of a reranker's scores, and tell what that changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.errors import ConfigError
from ragsweep.evidence import Coverage
from ragsweep.fusion import min_max
from ragsweep.types import NO_CHUNK, Floats, Rankings

REORDERING = frozenset({"candidates", "min_score", "mix"})
"""The parameters of a reranker that change what is done with its scores, and no score."""

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


class Reordering(NamedTuple):
    """What is done with a reranker's scores.

    Only the first ``candidates`` of a ranking are scored. With ``min_score`` the ranking consists of those of them that
    score at least as much, and may be empty: nothing vouches for a chunk that was not scored. ``mix``, 0 to 1, is the
    weight of the first stage in the order: ``(1 - mix) * min-max(reranker) + mix * min-max(first stage)``, each brought
    to 0..1 over the candidates of the question; at 0 the reranker's scores stand as they are.
    """

    candidates: int
    min_score: float | None = None
    mix: float = 0.0

    def check(self) -> None:
        """Raise ConfigError for a number out of range."""
        if self.candidates < 0:
            raise ConfigError(f"reranker.candidates is {self.candidates}; it must be 0 or more")
        if not 0 <= self.mix <= 1:
            raise ConfigError(f"reranker.mix is {self.mix}; it is the first stage's weight and lies between 0 and 1")
        if self.min_score is not None and np.isnan(self.min_score):
            raise ConfigError("reranker.min_score is not a number; give one, or null for none")


def reordering_of(part: Any) -> Reordering:
    """Read from a reranker what is done with its scores: of the names in its constant REORDERING, and candidates."""
    named = REORDERING.intersection(getattr(part, "REORDERING", ()))
    return Reordering(**{name: getattr(part, name) for name in {*named, "candidates"}})


def reorder(ranking: Rankings, scores: Floats, how: Reordering) -> Rankings:
    """Put the head of every ranking in order; ties keep their old order, and so do the chunks behind the head.

    ``scores`` (pairs,) run over the candidates of all rows, one row after another, padding left out. The scores of what
    is returned are those that decided: the reranker's, or the mixed ones, and behind the head the first stage's.
    """
    head = ranking.first(how.candidates)
    found = head.positions != NO_CHUNK
    scored = np.full(head.positions.shape, -np.inf, dtype=np.float32)
    scored[found] = scores
    deciding = _mixed(head, scored, how.mix) if how.mix else scored.astype(np.float64)
    kept = found if how.min_score is None else found & (scored >= how.min_score)
    deciding = np.where(kept, deciding, -np.inf)
    order = np.argsort(-deciding, axis=1, kind="stable")
    positions, values = ranking.positions.copy(), ranking.scores.copy()
    if how.min_score is not None:
        positions[:], values[:] = NO_CHUNK, -np.inf
    length = head.positions.shape[1]
    positions[:, :length] = np.take_along_axis(np.where(kept, head.positions, NO_CHUNK), order, axis=1)
    values[:, :length] = np.take_along_axis(deciding, order, axis=1)
    return Rankings(positions, values, ranking.chunks)


def _mixed(head: Rankings, scored: Floats, mix: float) -> NDArray[np.float64]:
    return (1 - mix) * min_max(Rankings(head.positions, scored)) + mix * min_max(head)


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
    """Tell where the evidence stood before reranking and where it stands after it.

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
