"""The path of each evidence through the stages of one config, and the scores of each leg of a hybrid alone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import NO_CHUNK, EvaluationView, Metric, Rankings
from ragsweep.evaluation.evidence import Coverage
from ragsweep.evaluation.evidence import view as make_view
from ragsweep.evaluation.scoring import score_metric
from ragsweep.parts.ranking import cut_to_budget

TRACE = "evidence_trace"
"""The column with the path of each question's evidences, as JSON (see :func:`trace_evidence`)."""

DIGITS = 6
"""Significant digits of shares and scores."""


@dataclass(frozen=True, eq=False)
class TracedStages:
    """The rankings of one config before its final one; each has one row a question."""

    legs: Mapping[str, Rankings]  # of a hybrid; empty without one
    first_stage: Rankings | None  # before reranking; None where nothing is reranked
    budget: int | None  # tokens that the context may have


def trace_evidence(
    view: EvaluationView, coverage: Coverage, threshold: float, stages: TracedStages, metrics: Sequence[Metric]
) -> list[str]:
    """Return one JSON object a question, compact; ``{}`` for a question without evidence.

    Lists have one entry for each of the question's evidences, in the order of the golden set. Ranks count from 1; 0 is
    "not there".

    - ``held``: 1 if a chunk has enough of the evidence to cover it (``threshold``), else the largest share of it in a
    chunk; 0 if the corpus has none of it.
    - ``legs``: leg -> ranks; only of a hybrid.
    - ``exact``: leg with an approximate index -> ranks by exact search, where a metric measured them ("" without legs).
    - ``first``: ranks before reranking, after fusion; only with a reranker, else they are ``ranked``.
    - ``ranked``: ranks in the final ranking.
    - ``context``: whether it is in the context; only with a budget of tokens, else ``ranked`` is at most ``top_k``.
    - ``top``: the score of the first chunk; only with a reranker.
    - ``scores``: leg -> metric -> the score of this leg alone with the same ``top_k`` and budget, null where unknown;
      the leg "" is the fused ranking before reranking.
    """
    ranked = view.first_rank
    columns: dict[str, Any] = {"held": _held(coverage, threshold)}
    if stages.legs:
        columns["legs"] = {name: coverage.first_ranks(leg) for name, leg in stages.legs.items()}
    if view.approximate:
        columns["exact"] = {name: pair.exact_rank for name, pair in view.approximate.items()}
    if stages.first_stage is not None:
        columns["first"] = coverage.first_ranks(stages.first_stage)
    columns["ranked"] = ranked
    if view.context_length is not None:
        columns["context"] = ((ranked > 0) & (ranked <= view.context_length[coverage.question])).astype(np.int64)
    by_question: dict[str, Any] = {}
    if stages.first_stage is not None and view.rankings.scores.shape[1]:
        by_question["top"] = view.rankings.scores[:, 0].astype(np.float64)
    if stages.legs and metrics:
        alone = {**({} if stages.first_stage is None else {"": stages.first_stage}), **stages.legs}
        by_question["scores"] = {
            name: _scores(ranking, view.top_k, coverage, stages.budget, metrics) for name, ranking in alone.items()
        }
    return _texts(columns, by_question, coverage.question, len(view.questions))


def _held(coverage: Coverage, threshold: float) -> NDArray[np.float64]:
    places, touches = coverage.places, coverage.touches
    share = (touches.end - touches.start) / (places.end - places.start)[touches.place]
    largest = np.zeros(len(coverage.question))
    np.maximum.at(largest, places.evidence[touches.place], share)
    return np.where(largest >= threshold, 1.0, np.minimum(largest.round(3), 0.999))


def _scores(
    ranking: Rankings, top_k: int, coverage: Coverage, budget: int | None, metrics: Sequence[Metric]
) -> dict[str, NDArray[np.float64]]:
    """Score a ranking as if it were the final one."""
    length = None
    if budget is not None:
        context = cut_to_budget(ranking.first(top_k), coverage.tokens, budget)
        length = np.count_nonzero(context.positions != NO_CHUNK, axis=1)
    alone = make_view(coverage, ranking, top_k, length=length)
    return {metric.name: score_metric(metric, alone).values for metric in metrics}


def _texts(
    columns: Mapping[str, Any], by_question: Mapping[str, Any], question: NDArray[np.int64], questions: int
) -> list[str]:
    """Write the columns of evidences and of questions as one JSON text a question, all of one form."""
    ends = np.searchsorted(question, np.arange(questions + 1)).tolist()
    places = [(n, slice(low, high)) for n, (low, high) in enumerate(pairwise(ends)) if high > low]
    form = f"{_form(columns, '[%s]')[:-1]},{_form(by_question, '%s')[1:]}" if by_question else _form(columns, "[%s]")
    cells = [[",".join(numbers[place]) for _, place in places] for numbers in _numbers(columns)]
    cells += [[numbers[n] for n, _ in places] for numbers in _numbers(by_question)]
    texts = ["{}"] * questions
    for (n, _), row in zip(places, zip(*cells, strict=True), strict=True):
        texts[n] = form % row
    return texts


def _form(columns: Mapping[str, Any], place: str) -> str:
    """Return nested columns as a format with a place for each column."""
    parts = (
        f"{json.dumps(name).replace('%', '%%')}:{_form(column, place) if isinstance(column, Mapping) else place}"
        for name, column in columns.items()
    )
    return f"{{{','.join(parts)}}}"


def _numbers(columns: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield the numbers of nested columns as JSON, in the order of their places."""
    for column in columns.values():
        if isinstance(column, Mapping):
            yield from _numbers(column)
        elif column.dtype.kind == "f":
            yield [f"{value:.{DIGITS}g}" if math.isfinite(value) else "null" for value in column.tolist()]
        else:
            yield list(map(str, column.tolist()))
