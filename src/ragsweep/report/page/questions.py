"""The questions of a sweep one by one, a few configs side by side, in compact columns for the page's script."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ragsweep.core.results import Result

MOST_QUESTIONS = 2_000
LONGEST = 4_000
"""Characters of a text, about a page; a longer one is cut off."""
REASON = "_reason"
"""The end of the name of a column that has a judge's words."""


def browse(results: Sequence[Result], metrics: Sequence[str], roles: Mapping[str, str]) -> dict[str, Any]:
    """Make the columns of the question browser.

    Args:
        results: The configs to show, the baseline first.
        metrics: Whose scores to show; helped and hurt are judged by the first.
        roles: Name of a config -> what it is.
    """
    first = results[0].outcomes
    ids = list(first["question_id"])[:MOST_QUESTIONS]
    chunks: dict[str, int] = {}
    labels = {label: _texts(first[label], len(ids)) for label in results[0].groups if label in first}
    summary = results[0].summaries[metrics[0]]
    return {
        "kind": "browser",
        "metrics": list(metrics),
        "lowerIsBetter": summary.higher_is_better is False,
        "missable": bool(summary.higher_is_better) and not summary.unit,
        "ids": ids,
        "asked": len(first["question_id"]),
        "questions": _texts(first["question"], len(ids)),
        "references": _texts(first["reference"], len(ids)) if "reference" in first else None,
        "evidence": list(first["evidence"])[: len(ids)] if "evidence" in first else None,
        "labels": labels,
        "configs": [_config(result, ids, metrics, roles.get(result.name, ""), chunks) for result in results],
        "chunks": list(chunks),  # filled by the configs
    }


def _config(
    result: Result, ids: Sequence[str], metrics: Sequence[str], role: str, chunks: dict[str, int]
) -> dict[str, Any]:
    """Return the columns of one config, in the order of ``ids``; its chunks are numbers into ``chunks``."""
    columns = result.outcomes
    row_of = {name: row for row, name in enumerate(columns["question_id"])}
    rows = [row_of.get(name) for name in ids]

    def column(name: str) -> list[Any] | None:
        values = columns.get(name)
        return None if values is None else [None if row is None else values[row] for row in rows]

    contexts = [[chunks.setdefault(name, len(chunks)) for name in context or ()] for context in column("context") or ()]
    texts = [name for name in columns if name == "answer" or name.endswith(REASON)]
    return {
        "name": result.name,
        "role": role,
        "scores": {name: [_rounded(value) for value in column(name) or ()] for name in metrics if name in columns},
        "unscored": [_reason(text, metrics[0]) for text in column("unscored") or ()],
        "ranks": column("first_evidence_rank"),
        "contexts": contexts,
        "texts": {name: _texts(column(name) or (), len(ids)) for name in texts},
        "numbers": {name: [_rounded(value) for value in column(name) or ()]
                    for name in ("context_tokens", "latency_p95_ms", "top_score") if _any(column(name))},
    }  # fmt: skip


def _any(values: Sequence[float | None] | None) -> bool:
    return any(value is not None and math.isfinite(value) for value in values or ())


def _texts(values: Sequence[Any], most: int) -> list[str]:
    texts = ("" if value is None else str(value) for value in values[:most])
    return [text if len(text) <= LONGEST else f"{text[:LONGEST]} ..." for text in texts]


def _reason(unscored: str | None, metric: str) -> str:
    return str(json.loads(unscored).get(metric, "")) if unscored else ""


def _rounded(value: float | None) -> float | None:
    """Keep four digits: more are read by nobody, and weigh."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
