"""Say what each change of an ablation did, the largest first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragsweep.command_line import usual_metrics
from ragsweep.comparable import factors, shared_metrics
from ragsweep.inference.differences import Differences, against
from ragsweep.inference.matrix import paired
from ragsweep.report.changes import aligned, amount, with_interval
from ragsweep.results import Result
from ragsweep.terminal import Terminal


def tell(results: Sequence[Result], metric: str | None, terminal: Terminal) -> None:
    """List the changes by how much they matter; the first result is the config that is ablated."""
    if len(results) < 2:
        terminal.line("ablate", "nothing was measured that the config could be compared with")
        return
    name = shared_metrics(results, [metric] if metric else None, usual_metrics(results))[0]
    matrix, unit = paired(results, name), results[0].summaries[name].unit
    found = against(matrix, 0)
    mean = amount(float(matrix.values[0].mean()), unit) if matrix.questions else "-"
    terminal.line("ablate", f"{name} is {mean}; with one thing changed, of {len(matrix.questions):,} questions, intervals"
                            f" that hold for all {len(results) - 1} together")  # fmt: skip
    order = np.argsort(-np.abs(np.nan_to_num(found.estimate)), kind="stable")
    changed = [", ".join(map(str, factors(results[0], other))) or other.name for other in results]
    rows = [
        [_word(found, n), changed[n], _difference(found, n, unit)]
        for n in order.tolist()
        if n and (found.better[n] or found.worse[n])
    ]
    for line in aligned(rows) if rows else ():
        terminal.line("", line)
    if rest := [n for n in order.tolist() if n and not (found.better[n] or found.worse[n])]:
        terminal.line(
            "", f"cannot be told from it: {'; '.join(f'{changed[n]} {_difference(found, n, unit)}' for n in rest)}"
        )


def _word(found: Differences, config: int) -> str:
    return "better" if found.better[config] else "worse"


def _difference(found: Differences, config: int, unit: str) -> str:
    return with_interval(*(float(one[config]) for one in (found.estimate, found.low, found.high)), unit)
