"""The Pareto front of a sweep in several metrics, as statements and as CSV."""

from collections.abc import Iterator, Sequence

from ragsweep.core.plurals import counted
from ragsweep.core.results import Result
from ragsweep.report.document import Statement
from ragsweep.report.naming import short
from ragsweep.report.numbers import cell
from ragsweep.report.tables import csv_table, rank_results
from ragsweep.stats.comparison import ExcludedConfig, count_reasons

MOST = 10
"""Maximum number of printed configs; configs with equal values count once. ``front.csv`` contains the whole front."""


def front_lines(
    front: Sequence[Result], metrics: Sequence[str], configs: int, excluded: Sequence[ExcludedConfig] = ()
) -> Iterator[Statement]:
    """Yield statements on the Pareto front of the configs that are not ``excluded``, best first by the first metric.

    ``configs`` is the number of configs that are not excluded. If the front is empty, the only statement gives the
    reason. Yield nothing for fewer than two metrics.
    """
    if len(metrics) < 2:
        return
    if not front:
        yield Statement("front", f"no config within the constraints has values of all of {', '.join(metrics)}")
        return
    twins: dict[tuple[float, ...], list[Result]] = {}
    for result in rank_results(front, metrics[0]):
        twins.setdefault(tuple(result.summaries.metrics[name].value for name in metrics), []).append(result)
    shown = list(twins.values())
    one = "1 is" if len(front) == 1 else f"{len(front)} are"
    without = f" (without {count_reasons(excluded)})" if excluded else ""
    text = f"of {counted(configs, 'config')}{without}, {one} on the Pareto front of {' and '.join(metrics)}"
    yield Statement("front", text, {"configs": configs, "front": len(front)})
    cells = [[cell(same[0].summaries.metrics[name]) for name in metrics] for same in shown[:MOST]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(metrics))]
    for (first, *same), row in zip(shown, cells, strict=False):
        values = " · ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        text = f"{values} · {short(first.name)}" + (f", and {len(same)} with the same values" if same else "")
        yield Statement("", text, {"config": first.name, "same": len(same)})
    if hidden := len(shown[MOST:]):
        yield Statement("", f"and {hidden} more in front.csv", {"hidden": hidden})


def front_csv(front: Sequence[Result], metrics: Sequence[str]) -> bytes:
    """Return a CSV file with one line per config of the front: its value of each metric, with the 95 % interval."""
    header = ["config", *(f"{name}{suffix}" for name in metrics for suffix in ("", "_low", "_high"))]
    rows = []
    for one in rank_results(front, metrics[0]):
        found = [one.summaries.metrics[name] for name in metrics]
        rows.append([one.name, *(number for part in found for number in (part.value, part.low, part.high))])
    return csv_table(header, rows)
