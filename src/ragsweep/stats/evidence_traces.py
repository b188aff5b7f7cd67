"""The paths of evidences through the stages of one config, read from its table of questions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.results import Result

COLUMN = "evidence_trace"
"""The column of paths, one JSON object a question (see ``evaluation.evidence_trace``)."""

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Traces:
    """The path of each evidence (evidences,): ranks count from 1, 0 is "not there".

    ``held`` is 1 where one chunk has enough of an evidence, else the largest share in a chunk. ``top`` and ``scores``
    are (questions,), NaN where unknown.
    """

    questions: Sequence[str]  # ids
    question: Numbers  # the row of each evidence's question
    weights: Doubles  # (questions,)
    held: Doubles
    legs: Mapping[str, Numbers]  # of a hybrid
    exact: Mapping[str, Numbers]  # by exact search, of legs with an approximate index
    first: Numbers  # after fusion, before reranking
    ranked: Numbers
    in_context: Flags
    top: Doubles  # the score of the first chunk after reranking
    scores: Mapping[str, Mapping[str, Doubles]]  # leg -> metric; "" is the fused ranking, where it was reranked
    top_k: int
    candidates: int  # of the reranker; 0 without one

    def recall(self, found: Flags) -> float:
        """Return the mean share of each question's evidences that are found, weighted; NaN without evidence."""
        number = np.bincount(self.question, minlength=len(self.questions))
        share = np.bincount(self.question, found, len(self.questions)) / np.maximum(number, 1)
        weights = np.where(number > 0, self.weights, 0.0)
        return float(share @ weights / weights.sum()) if weights.sum() else math.nan

    def within(self, ranks: Numbers, cutoff: int | None = None) -> Flags:
        """Return which ranks are at most the cutoff, ``top_k`` unless given."""
        return (ranks > 0) & (ranks <= (self.top_k if cutoff is None else cutoff))


def read_traces(result: Result) -> Traces | None:
    """Read the paths of a result; None for a result without evidence, and for older records without paths."""
    rows: list[dict[str, Any]] = [json.loads(text) for text in result.outcomes.get(COLUMN) or ()]
    count = [len(row.get("ranked", ())) for row in rows]
    if not sum(count):
        return None
    example = next(row for row in rows if row)

    def column(*path: str) -> Numbers:
        return np.array([value for row in rows if row for value in _at(row, path)], dtype=np.int64)

    def single(*path: str) -> Doubles:
        return np.array([_at(row, path) if row else math.nan for row in rows], dtype=np.float64)

    config, ranked = result.config, column("ranked")
    # an external system uses all that it retrieved
    external = result.parameters.get("system", "pipeline") != "pipeline"
    top_k = int(config.get("depth" if external else "top_k") or ranked.max())
    return Traces(
        questions=result.outcomes["question_id"],
        question=np.repeat(np.arange(len(rows)), count),
        weights=np.array(result.outcomes.get("weight") or [1.0] * len(rows), dtype=np.float64),
        held=np.array([share for row in rows for share in row.get("held", ())], dtype=np.float64),
        legs={leg: column("legs", leg) for leg in example.get("legs", {})},
        exact={leg: column("exact", leg) for leg in example.get("exact", {})},
        first=column("first") if "first" in example else ranked,
        ranked=ranked,
        in_context=column("context") > 0 if "context" in example else (ranked > 0) & (ranked <= top_k),
        top=single("top") if "top" in example else np.full(len(rows), math.nan),
        scores={
            leg: {metric: single("scores", leg, metric) for metric in metrics}
            for leg, metrics in example.get("scores", {}).items()
        },
        top_k=top_k,
        candidates=int((config.get("reranker") or {}).get("candidates") or 0) if "first" in example else 0,
    )


def _at(row: Any, path: Sequence[str]) -> Any:
    for name in path:
        row = row[name]
    return row
