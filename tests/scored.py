"""Results with given scores, and a ledger of them, as the commands that compare results read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import RagsweepError
from ragsweep.core.results import DatasetFacts, Result, Summary
from ragsweep.records.ledger import FINISHED, Ledger, Sweep
from recorded import a_result

FACTS = DatasetFacts("made", "c" * 64, "d" * 64, 10, 40, 40, 0)


def scored(
    metrics: Mapping[str, Sequence[float]], labels: Mapping[str, Sequence[str]] | None = None, **changes: Any
) -> Result:
    """Make a result of these scores; the first metric is the objective and the table's only column."""
    names = list(metrics)
    count = len(metrics[names[0]])
    ids = [f"q{n}" for n in range(count)]
    summaries = {name: summary(name, column) for name, column in metrics.items()}
    known: dict[str, Any] = {
        "signature": str(sorted(metrics.items())),
        "config": {"objective": names[0], "headline": names[:1], **changes.pop("config", {})},
        "summaries": summaries,
        "groups": {label: {value: {} for value in set(column)} for label, column in (labels or {}).items()},
        "outcomes": {
            "question_id": ids, "question": ids, "unscored": ["{}"] * count, "context": [[] for _ in ids],
            **(labels or {}), **metrics,
        },
        "dataset": FACTS,
        "parameters": {},
        "targets": (),
        "indexes": {},
        "first_stage": {},
        "reranking": {},
    }  # fmt: skip
    return a_result(**{**known, **changes})


def summary(name: str, column: Sequence[float]) -> Summary:
    """Summarise a column of scores; only latency has a unit, and is better where it is less."""
    values = np.array(column, dtype=np.float64)
    known = values[~np.isnan(values)]
    amount = name.startswith("latency")
    mean = float(np.quantile(known, 0.95) if "p95" in name else known.mean()) if len(known) else float("nan")
    return Summary(
        name, mean, mean, mean, len(values), len(known), 0, len(values) - len(known), "ms" if amount else "",
        None if name == "results" else not amount,
    )  # fmt: skip


def record(folder: Path, *results: Result) -> list[str]:
    """Record results as single runs and return their run ids."""
    ledger = Ledger(folder)
    runs = [f"{n:x}" * 32 for n in range(1, len(results) + 1)]
    for run, result in zip(runs, results, strict=True):
        ledger.mark_tracked(ledger.write(None, 0, result), run)
    return runs


def record_sweep(folder: Path, parent: str, *results: Result) -> list[str]:
    """Record results as the configs of a sweep and return their run ids."""
    ledger = Ledger(folder)
    jobs = tuple(result.overrides for result in results)
    sweep = ledger.open_sweep(
        f"key{parent}", Sweep("", "sweep", parent, jobs, tuple(result.name for result in results))
    )
    runs = [f"{n:02x}{parent}" for n in range(len(results))]
    for n, (run, result) in enumerate(zip(runs, results, strict=True)):
        ledger.mark_tracked(ledger.write(sweep.id, n, result), run)
    ledger.set_status(sweep.id, FINISHED)
    return runs


def normal(mean: float, count: int = 40, spread: float = 0.1, seed: int = 0) -> list[float]:
    """Draw scores whose mean is exactly this one."""
    drawn = np.random.default_rng(seed).normal(0, spread, count)
    return [float(one) for one in drawn - drawn.mean() + mean]


def table_rows(table: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Read a table of ``columns`` and ``data``, as the commands write it, as rows."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]


def refuse(command: Callable[[Sequence[str]], int], cases: Mapping[str, Sequence[str]], *path: str) -> None:
    """Check that a command refuses bad input with exit status 2 and one line; ``cases``: pattern -> arguments."""
    for pattern, arguments in cases.items():
        with pytest.raises(RagsweepError, match=pattern) as raised:
            command([*arguments, *path])
        assert raised.value.exit_status == 2
        assert "\n" not in str(raised.value)
