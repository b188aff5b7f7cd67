"""Report the effect of each change of an ablation, the largest first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragsweep.commands.command_line import usual_metrics
from ragsweep.core.results import Result
from ragsweep.report.changes import aligned, amount, difference, word
from ragsweep.report.terminal import Terminal
from ragsweep.stats.comparable import factors, shared_metrics
from ragsweep.stats.inference.differences import compare_with_baseline
from ragsweep.stats.inference.matrix import score_matrix


def tell(results: Sequence[Result], metric: str | None, terminal: Terminal) -> None:
    """List the changes by how much they matter; the first result is the config that is ablated."""
    if len(results) < 2:
        terminal.line("ablate", "nothing was measured that the config could be compared with")
        return
    name = shared_metrics(results, [metric] if metric else None, usual_metrics(results))[0]
    matrix, unit = score_matrix(results, name), results[0].summaries[name].unit
    found = compare_with_baseline(matrix, 0)
    mean = amount(float(matrix.values[0].mean()), unit) if matrix.questions else "-"
    terminal.line("ablate", f"{name} is {mean}; with one thing changed, on {len(matrix.questions):,} questions"
                            f" (intervals that hold for all {len(results) - 1} together):")  # fmt: skip
    order = np.argsort(-np.abs(np.nan_to_num(found.estimate)), kind="stable")
    changed = [", ".join(map(str, factors(results[0], other))) or other.name for other in results]
    for line in aligned([[word(found, n), changed[n], difference(found, n, unit)] for n in order.tolist() if n]):
        terminal.line("", line)
