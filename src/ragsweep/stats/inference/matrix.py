"""One metric of several configs as a matrix: the same questions in every row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError, nearest
from ragsweep.core.results import Result
from ragsweep.stats.inference.declined import fill_declined

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]

SOURCE, WEIGHT = "source", "weight"
"""The columns of a table of outcomes with the cluster and the weight of each question."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """Scores of several configs for the same questions; none is missing.

    ``values`` is (configs, questions), in the metric's own direction (``higher_is_better``). Questions of one
    cluster share their source document and are drawn together. ``asked`` counts the questions that any config was
    scored on; those that not all of them were scored on are left out of the matrix. Of weighted questions ``values``
    are scores times ``weights``, which have a mean of 1, so that plain means of them are weighted means.
    ``declined`` marks the worst scores that stand for answers a config declined to give (see ``declined``).
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
        """The number of questions of each config that have the worst score because it declined them."""
        return (0,) * len(self.configs) if self.declined is None else tuple(self.declined.sum(axis=1).tolist())

    @property
    def declined_note(self) -> str:
        """Name the configs that declined questions, with how many; "" where none did."""
        found = [f"{count:,} of {name}" for name, count in zip(self.configs, self.declines, strict=True) if count]
        return f"declined answers, counted as the worst score: {', '.join(found)}" if found else ""

    @property
    def coverage(self) -> float:
        """The share of the scored questions that all configs were scored on; NaN of none."""
        return len(self.questions) / self.asked if self.asked else math.nan

    @property
    def scores(self) -> Doubles:
        """The scores themselves, without the weights of their questions."""
        return self.values if self.weights is None else self.values / self.weights

    @property
    def better(self) -> Doubles:
        """The scores with their sign such that more is better."""
        return self.values if self.higher_is_better else -self.values

    def select_configs(self, rows: Sequence[int]) -> Matrix:
        """Keep some of the configs, in the order given: a pair, a short list."""
        return replace(
            self,
            values=self.values[list(rows)],
            configs=tuple(self.configs[row] for row in rows),
            declined=None if self.declined is None else self.declined[list(rows)],
        )

    def select_questions(self, chosen: NDArray[np.bool_]) -> Matrix:
        """Keep some of the questions: a slice."""
        names = tuple(name for name, kept in zip(self.questions, chosen.tolist(), strict=True) if kept)
        weights = None if self.weights is None else relative(self.weights[chosen])
        values = self.scores[:, chosen] if weights is None else self.scores[:, chosen] * weights
        declined = None if self.declined is None else self.declined[:, chosen]
        return replace(
            self,
            values=values,
            clusters=_numbered(self.clusters[chosen]),
            questions=names,
            weights=weights,
            declined=declined,
        )


def score_matrix(results: Sequence[Result], metric: str) -> Matrix:
    """Align the scores of one metric, question by question; a declined answer has the worst score.

    Raises:
        InputError: A result has no such metric, the metric has no direction, or it is not a mean over questions.
    """
    for result in results:
        _check(result, metric)
    ids = list(dict.fromkeys(chain.from_iterable(result.outcomes["question_id"] for result in results)))
    rows = [_scores(result, metric, ids) for result in results]
    scores = np.array(rows, dtype=np.float64).reshape(len(results), len(ids))
    declined = fill_declined(results, metric, ids, scores)
    known = ~np.isnan(scores)
    both = np.flatnonzero(known.all(axis=0))
    sources = dict(zip(results[0].outcomes["question_id"], clusters_of(results[0]), strict=True)) if results else {}
    names = tuple(ids[n] for n in both.tolist())
    weights = _weights(results, names)
    return Matrix(
        scores[:, both] if weights is None else scores[:, both] * weights,
        _numbered(np.array([sources[name] for name in names], dtype=np.str_)),
        tuple(result.name for result in results),
        names,
        metric,
        bool(results[0].summaries[metric].higher_is_better) if results else True,
        int(known.any(axis=0).sum()),
        weights,
        declined[:, both] if declined.any() else None,
    )


def relative(weights: Doubles) -> Doubles:
    """Scale weights to a mean of 1."""
    return np.asarray(weights / weights.mean()) if len(weights) else weights


def _weights(results: Sequence[Result], names: Sequence[str]) -> Doubles | None:
    """Return the weights of questions, with a mean of 1; None where all count alike."""
    column = results[0].outcomes.get(WEIGHT) if results else None
    if column is None:
        return None
    given = dict(zip(results[0].outcomes["question_id"], column, strict=True))
    found = np.array([given[name] for name in names], dtype=np.float64)
    return None if len(found) and (found == found[0]).all() else relative(found)


def _check(result: Result, metric: str) -> None:
    if metric not in result.summaries:
        raise InputError(f'{result.name}: no metric "{metric}" was measured{nearest(metric, result.summaries)}')
    if result.summaries[metric].higher_is_better is None:
        raise InputError(f"{metric}: neither more nor less of it is better, so that no config is better by it")


def _scores(result: Result, metric: str, ids: Sequence[str]) -> Sequence[float]:
    """Return a result's scores of these questions; NaN where it has none."""
    asked, column = result.outcomes["question_id"], result.outcomes[metric]
    if list(asked) == ids:
        return column
    scored = dict(zip(asked, column, strict=True))
    return [scored.get(name, math.nan) for name in ids]


def clusters_of(result: Result) -> Sequence[str]:
    """Name each question's cluster; older records have no clusters: each question is its own."""
    return result.outcomes.get(SOURCE) or result.outcomes["question_id"]


def _numbered(names: NDArray[np.generic]) -> Numbers:
    return np.asarray(np.unique(names, return_inverse=True)[1], dtype=np.int64)
