"""Find the rank of each piece of evidence after each stage of a config, and score each leg of a hybrid separately."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.question_results import Doubles, EvidenceRanks
from ragsweep.core.types import EvaluationView, Metric, Rankings
from ragsweep.evaluation.evidence import Coverage
from ragsweep.evaluation.evidence import view as make_view
from ragsweep.evaluation.scoring import score_metric
from ragsweep.parts.ranking import cut_to_budget

DIGITS = 6
"""Number of significant digits of scores; shares of passages are rounded to three decimals."""


@dataclass(frozen=True, eq=False)
class TracedStages:
    """The rankings that precede a config's final ranking, with one row per question, and the config's token budget."""

    legs: Mapping[str, Rankings]  # by leg; empty unless the retriever is a hybrid
    exact: Mapping[str, Rankings]  # by leg with an approximate index: its ranking with an exact index
    first_stage: Rankings | None  # the ranking before reranking; None without a reranker
    budget: int | None  # maximum number of tokens in the context; None if there is no limit


def trace_evidence(
    view: EvaluationView, coverage: Coverage, threshold: float, stages: TracedStages, metrics: Sequence[Metric]
) -> EvidenceRanks:
    """Find the rank of every piece of evidence after each stage, and score each leg of a hybrid on its own.

    A leg is scored by ``metrics`` as if its ranking were the final ranking, with the config's ``top_k`` and budget. If
    the fused ranking is reranked, its scores before reranking are included under the name "". For ``threshold``, see
    :func:`cover`.
    """
    first = stages.first_stage
    lacking = np.bincount(coverage.question, minlength=len(view.questions)) == 0
    alone = {**({} if first is None else {"": first}), **stages.legs} if stages.legs and metrics else {}
    views = {name: view_alone(ranking, view.top_k, coverage, stages.budget) for name, ranking in alone.items()}
    context = None
    if view.context_length is not None:
        is_inside = (view.first_rank > 0) & (view.first_rank <= view.context_length[coverage.question])
        context = is_inside.astype(np.int64)
    top = None
    if first is not None and view.rankings.scores.shape[1]:
        top = _rounded(view.rankings.scores[:, 0].astype(np.float64), lacking)
    return EvidenceRanks(
        question=coverage.question,
        held=_rounded(_held(coverage, threshold)),
        ranked=view.first_rank,
        legs={name: coverage.first_ranks(leg) for name, leg in stages.legs.items()},
        exact={name: coverage.first_ranks(ranking) for name, ranking in stages.exact.items()},
        first=None if first is None else coverage.first_ranks(first),
        context=context,
        top=top,
        scores={
            name: {metric.name: _rounded(score_metric(metric, one).values, lacking) for metric in metrics}
            for name, one in views.items()
        },
    )


def _rounded(values: Doubles, lacking: NDArray[np.bool_] | None = None) -> Doubles:
    """Return values rounded to DIGITS significant digits; NaN for infinite values and where ``lacking`` is True."""
    rounded = np.array([float(f"{value:.{DIGITS}g}") for value in values.tolist()], dtype=np.float64)
    return np.where(~np.isfinite(rounded) | (False if lacking is None else lacking), math.nan, rounded)


def _held(coverage: Coverage, threshold: float) -> NDArray[np.float64]:
    largest = np.zeros(len(coverage.question))
    np.maximum.at(largest, coverage.places.evidence[coverage.touches.place], coverage.touches.share)
    return np.where(largest >= threshold, 1.0, np.minimum(largest.round(3), 0.999))


def view_alone(ranking: Rankings, top_k: int, coverage: Coverage, budget: int | None) -> EvaluationView:
    """Return the input of metrics as if ``ranking`` were the final ranking; ``budget`` limits the context's tokens."""
    length = None if budget is None else cut_to_budget(ranking.first(top_k), coverage.tokens, budget).lengths
    return make_view(coverage, ranking, top_k, length=length)
