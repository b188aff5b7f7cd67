"""Results made of scores alone, to test verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragsweep.core.question_results import QuestionResults
from ragsweep.core.results import DatasetFacts, Result, Summary

METRIC = "ndcg"


def scored(
    name: str,
    scores: Sequence[float],
    categories: Sequence[str] = (),
    *,
    direction: bool | None = True,
    value: float | None = None,
    golden: str = "g",
    state: str = "COMPLETE",
    config: dict[str, Any] | None = None,
    **costs: float,
) -> Result:
    """Make a result of one metric by question, and of costs that are the same for every question."""
    column = np.asarray(scores, dtype=np.float64)
    known = int((~np.isnan(column)).sum())
    mean = float(np.nanmean(column)) if known else float("nan")
    found = {METRIC: _summary(METRIC, mean if value is None else value, len(column), known, direction)}
    found |= {cost: _summary(cost, amount, len(column), len(column), False) for cost, amount in costs.items()}
    columns: dict[str, Sequence[Any]] = {
        "question_id": [f"q{n}" for n in range(len(column))],
        "source": [f"document {n}" for n in range(len(column))],
        METRIC: column.tolist(),
        **{cost: [amount] * len(column) for cost, amount in costs.items()},
    }
    groups: dict[str, Any] = {}
    if categories:
        columns["category"] = list(categories)
        groups["category"] = {category: {} for category in sorted(set(categories))}
    return Result(
        signature=name,
        name=name,
        overrides=(name,),
        config={"objective": METRIC, "headline": [METRIC, *costs], **(config or {})},
        parameters={},
        dataset=DatasetFacts("toy", "c", golden, 1, len(column), len(column), 0),
        summaries=found,
        groups=groups,
        outcomes=QuestionResults(columns),
        rankings={},
        stages={},
        state=state,
    )


def _summary(name: str, value: float, total: int, known: int, direction: bool | None) -> Summary:
    return Summary(name, value, value, value, total, known, 0, total - known, "", direction)


def noisy(mean: float, questions: int = 100, seed: int = 0, spread: float = 0.05) -> np.ndarray:
    """Draw scores around a mean that mostly depend on the question, as those of real configs do."""
    shared = np.random.default_rng(1).normal(0, 0.1, questions)
    return np.asarray(mean + shared + np.random.default_rng(seed).normal(0, spread, questions))
