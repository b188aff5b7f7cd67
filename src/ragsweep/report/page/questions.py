"""The questions of a sweep one by one, a few configs side by side, in compact columns for the page's script."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ragsweep.core.results import Result
from ragsweep.report.numbers import NOT_MEASURED
from ragsweep.stats.evidence_traces import COLUMN
from ragsweep.stats.funnel import Funnel

MOST_QUESTIONS = 2_000
LONGEST = 4_000
"""Characters of a text, about a page; a longer one is cut off."""
MOST_TEXT = 3_000_000
"""Bytes of all chunks' texts together."""
REASON = "_reason"
"""The end of the name of a column that has a judge's words."""


ChunkReader = Callable[[str], str]
"""Returns the text of a chunk by its name."""


def browse(
    results: Sequence[Result],
    metrics: Sequence[str],
    roles: Mapping[str, str],
    funnels: Mapping[str, Funnel],
    read: ChunkReader | None,
) -> dict[str, Any]:
    """Make the columns of the question browser.

    Args:
        results: The configs to show, the baseline first.
        metrics: Whose scores to show; helped and hurt are judged by the first.
        roles: Name of a config -> what it is.
        funnels: Name of a config -> which stage lost its evidence.
        read: Returns the text of a chunk; None where the corpus is not there.
    """
    first = results[0].outcomes
    ids = list(first["question_id"])[:MOST_QUESTIONS]
    chunks: dict[str, int] = {}
    labels = {label: _texts(first[label], len(ids)) for label in results[0].groups if label in first}
    summary = results[0].summaries[metrics[0]]
    configs = [
        _config(result, ids, metrics, roles.get(result.name, ""), chunks)
        | _paths(result, ids, funnels.get(result.name))
        for result in results
    ]
    texts, left_out = _chunk_texts(chunks, read)
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
        "configs": configs,
        "chunks": list(chunks),
        "texts": texts,
        "leftOut": left_out,
    }


def _chunk_texts(names: Iterable[str], read: ChunkReader | None) -> tuple[list[str], str]:
    """Return each chunk's text once, as far as they fit, and a sentence on what is left out."""
    if read is None:
        return [], "The texts of chunks are left out: the corpus is not there any more as it was searched."
    texts, size = [], 0
    for name in names:
        text = _texts([read(name)], 1)[0]
        size += len(text.encode("utf-8", "replace"))
        if size > MOST_TEXT:
            break
        texts.append(text)
    missing = len(list(names)) - len(texts)
    return texts, f"The texts of {missing:,} chunks are left out, to keep the page small." if missing else ""


def _paths(result: Result, ids: Sequence[str], found: Funnel | None) -> dict[str, Any]:
    """Return the stage that lost each question's evidence, and the path of every evidence in words."""
    if found is None:
        return {"lost": [], "paths": []}
    texts = dict(zip(result.outcomes["question_id"], result.outcomes[COLUMN], strict=True))
    paths = [list(_path_texts(json.loads(texts.get(name, "{}")), found.fates.get(name, ()))) for name in ids]
    return {"lost": [found.lost_by.get(name, "") for name in ids], "paths": paths}


def _path_texts(path: Mapping[str, Any], fates: Sequence[str]) -> Iterator[str]:
    """Yield the ranks of each evidence by stage, and the stage that lost it: ``bm25 12, vector -, fused 7: top_k``."""
    stages = dict(path.get("legs", {}))
    if "first" in path:
        stages["before reranking"] = path["first"]
    stages["final"] = path.get("ranked", ())
    for n, fate in enumerate(fates):
        ranks = ", ".join(f"{stage} {ranks[n] or NOT_MEASURED}" for stage, ranks in stages.items())
        yield f"{ranks}: {f'lost by {fate}' if fate else 'in the context'}"


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
    measured: dict[str, str] = {}  # quantiles of one measurement have equal columns
    for one in result.summaries.values():
        if one.unit and one.name in columns:
            measured.setdefault(str(columns[one.name]), one.name)
    return {
        "name": result.name,
        "role": role,
        "scores": {name: [_rounded(value) for value in column(name) or ()] for name in metrics if name in columns},
        "unscored": [_reason(text, metrics[0]) for text in column("unscored") or ()],
        "ranks": column("first_evidence_rank"),
        "contexts": contexts,
        "texts": {name: _texts(column(name) or (), len(ids)) for name in texts},
        "numbers": {name: [_rounded(value) for value in column(name) or ()]
                    for name in ("top_score", *measured.values()) if _any(column(name))},
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
