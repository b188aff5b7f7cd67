"""The scores of several configs for one metric as a matrix, with the same questions in every row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]

SOURCE, WEIGHT = "source", "weight"
"""The columns with each question's cluster and weight in a table of outcomes."""

SCALES = frozenset({"%", "points"})
"""Units of bounded scales."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """Scores of several configs for the same questions, without gaps.

    ``values`` is (configs, questions), in the metric's own direction (``higher_is_better``). Questions of one cluster
    share their source document and are resampled together. ``asked`` counts the questions with a score in at least one
    config; the matrix has only the questions with a score in all configs. For weighted questions ``values`` are scores
    times ``weights``, which have a mean of 1, so that plain means of ``values`` are weighted means of the scores.
    ``declined`` marks the worst scores that replace declined answers (see ``fill_declined``).
    """

    values: Doubles
    clusters: Numbers  # (questions,), numbered from 0
    configs: tuple[str, ...]
    questions: tuple[str, ...]  # their ids
    metric: str = ""
    higher_is_better: bool = True
    asked: int = 0
    weights: Doubles | None = None  # (questions,)
    declined: Flags | None = None  # (configs, questions); None: nowhere

    @property
    def declines(self) -> tuple[int, ...]:
        """Each config's number of declined answers, all of which have the worst score."""
        return (0,) * len(self.configs) if self.declined is None else tuple(self.declined.sum(axis=1).tolist())

    @property
    def declined_note(self) -> str:
        """A note on the configs that declined questions, with counts; "" if none did."""
        found = [f"{count:,} of {name}" for name, count in zip(self.configs, self.declines, strict=True) if count]
        return f"declined answers, counted as the worst score: {', '.join(found)}" if found else ""

    @property
    def coverage(self) -> float:
        """The share of the scored questions that all configs were scored on; NaN if none was scored."""
        return len(self.questions) / self.asked if self.asked else math.nan

    @property
    def scores(self) -> Doubles:
        """The scores without the weights of their questions."""
        return self.values if self.weights is None else self.values / self.weights

    @property
    def better(self) -> Doubles:
        """The ``values``, negated if lower is better."""
        return self.values if self.higher_is_better else -self.values

    def select_configs(self, rows: Sequence[int]) -> Matrix:
        """Return the matrix of the configs in ``rows``, in this order."""
        return replace(
            self,
            values=self.values[list(rows)],
            configs=tuple(self.configs[row] for row in rows),
            declined=None if self.declined is None else self.declined[list(rows)],
        )

    def select_questions(self, chosen: NDArray[np.bool_]) -> Matrix:
        """Return the matrix of the ``chosen`` questions, with clusters renumbered and weights rescaled to mean 1."""
        names = tuple(name for name, kept in zip(self.questions, chosen.tolist(), strict=True) if kept)
        weights = None if self.weights is None else relative(self.weights[chosen])
        values = self.scores[:, chosen] if weights is None else self.scores[:, chosen] * weights
        declined = None if self.declined is None else self.declined[:, chosen]
        return replace(
            self,
            values=values,
            clusters=number_clusters(self.clusters[chosen]),
            questions=names,
            weights=weights,
            declined=declined,
        )


def relative(weights: Doubles) -> Doubles:
    """Scale weights to a mean of 1."""
    return np.asarray(weights / weights.mean()) if len(weights) else weights


def number_clusters(names: NDArray[np.generic]) -> Numbers:
    """Number the clusters from 0 in the sorted order of their names; ``names`` has the cluster of each question."""
    return np.asarray(np.unique(names, return_inverse=True)[1], dtype=np.int64)


def is_amount(unit: str) -> bool:
    """Return whether a metric with this unit is an amount, which may have a long tail; False for "" and ``SCALES``."""
    return bool(unit) and unit not in SCALES


def has_ratios(matrix: Matrix, unit: str) -> bool:
    """Return whether scores are positive amounts with a ``unit``, which are compared by ratios."""
    return bool(is_amount(unit) and matrix.values.size and (matrix.scores > 0).all())


def transform_amounts(matrix: Matrix, unit: str) -> Matrix:
    """Return the matrix of the scores to compare: natural logarithms if ``has_ratios``, else the matrix unchanged.

    The mean logarithm of all configs is subtracted, so that neither the unit (seconds or milliseconds) nor the order of
    the configs has an effect.
    """
    if not has_ratios(matrix, unit):
        return matrix
    logarithms = np.log(matrix.scores)
    logarithms -= logarithms.mean()
    return replace(matrix, values=logarithms if matrix.weights is None else logarithms * matrix.weights)
