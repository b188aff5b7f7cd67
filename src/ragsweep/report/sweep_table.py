"""Tables of a sweep's configs with their parameters, metrics and differences, and of metrics by slice."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ragsweep.core.ordering import in_order, is_number
from ragsweep.core.plurals import counted
from ragsweep.core.results import Result, Summary, objectives
from ragsweep.report.document import GAP, Table
from ragsweep.report.naming import (
    all_settings,
    digits_for,
    lacking,
    last_parts,
    rounded,
    short_keys,
    varying_keys,
    without_number,
)
from ragsweep.report.numbers import cell, number
from ragsweep.report.tables import applicable, asked_for, count_scored, goodness
from ragsweep.report.verdict import change, verdict_word
from ragsweep.stats.comparison import NoComparison, SweepComparison

MOST_ROWS = 10
MOST_VALUES = 6
"""Maximum number of listed values of a setting."""
LONGEST_VALUE = 24
"""Maximum length of a parameter's value in a cell, in characters."""
FAMILY = re.compile("^context_|^latency_|^ragas_|_ms$")
"""Parts of metric names that narrow headings omit: prefixes of families, and the unit, which the cells show."""


class SweepTable(NamedTuple):
    """A header, rows of strings, the config of each row, the number of omitted configs, and the omitted metrics.

    ``has_intervals`` is true if a metric or difference has one. Headers of right-aligned columns begin with ``>``.
    """

    header: list[str]
    rows: list[list[str]]
    shown: list[Result]
    hidden: int
    left_out: tuple[str, ...]
    has_intervals: bool = False

    def omissions(self, sweep: str) -> Iterator[str]:
        """Yield lines on omitted rows and metrics, with commands that show them; ``sweep`` is the sweep's reference."""
        if self.hidden:
            yield f"... {self.hidden:,} more: ragsweep list {sweep}".rstrip()
        if self.left_out:
            first = self.rows[0][0]  # a number, or the name or id of a recorded baseline
            shown = f"{sweep}#{first}" if first.isdigit() else first
            yield f"... {counted(len(self.left_out), 'more metric')}: ragsweep show {shown}"


class Column(NamedTuple):
    """One column: its header, and a string for each config."""

    header: str
    cells: list[str]

    @property
    def width(self) -> int:
        """The width in characters of the widest cell or, if it is wider, of the header."""
        return max(map(len, [self.header.removeprefix(">"), *self.cells]))


def swept(results: Sequence[Result]) -> str:
    """Describe what varies: ``k = 3, 5 × b = 1, 2``, or ``k = 3, 5; b = 1, 2 (3 of 4 combinations, without 5 2)``.

    A setting with more than `MOST_VALUES` values is named without its values. The combinations are counted if all
    values are listed and every config has every setting.
    """
    configs = all_settings(results)
    keys = varying_keys(configs)
    values = {key: in_order(dict.fromkeys(config[key] for config in configs if key in config)) for key in keys}
    names = {key: _cut(texts, digits_for(texts)) for key, texts in values.items() if len(texts) <= MOST_VALUES}
    combinations = {tuple(config.get(key) for key in keys) for config in configs}
    grid, is_crossed = math.prod(map(len, values.values())), all(None not in one for one in combinations)
    is_grid = is_crossed and len(combinations) == grid
    listed = (" × " if is_grid else "; ").join(
        f"{name} = {', '.join(names[key])}" if key in names else name for key, name in short_keys(keys).items()
    )
    if not is_crossed or is_grid or len(names) < len(keys):
        return listed
    without = lacking(list(values.values()), list(names.values()), combinations)
    return f"{listed} ({len(combinations):,} of {grid:,} combinations{without})"


def sweep_table(
    results: Sequence[Result],
    metrics: Sequence[str],
    verdict: SweepComparison | NoComparison | None = None,
    choice: str | None = None,
    width: int = 120,
    most: int = MOST_ROWS,
) -> SweepTable:
    """Make the table of numbered configs, at most ``width`` characters wide if possible.

    Rows are ordered by the deciding metric, or else by the objective. The choice, the reference and the best always
    have a row. A metric that applies to no question has a column only if it is the deciding metric, is judged, has a
    target or is in an overridden ``headline``. A table that is too wide gets short headings; then intervals, and then
    columns of metrics, are omitted, the last metric first. The objectives and the deciding metric keep both. Columns of
    answer metrics are omitted after other columns; columns of judged metrics and of an overridden ``headline``, last.
    If the table is still too wide, one column with the configs' labels replaces all columns of parameters, and the
    same steps are repeated, starting with all metrics and intervals.
    """
    names = [result.name for result in results]
    found = verdict if isinstance(verdict, SweepComparison) else None
    order = _best_first(results, found)
    wanted_rows = (choice, found.matrix.configs[found.reference]) if found else ()
    kept = {names.index(one) for one in wanted_rows if one in names}
    chosen = sorted(set(order[: most - len(kept - set(order[:most]))]) | kept, key=order.index)
    shown = [results[row] for row in chosen]
    first = [Column(">#", [one.name.partition(" ")[0].lstrip("#") for one in shown])]
    labels = [Column("config", [without_number(rounded(one.name)) for one in shown])]
    objective = objectives(results[0].run.config)
    decides = {*objective, found.metric} if found else set(objective)
    chosen_metrics = decides | asked_for(results)
    answers = chosen_metrics | set(results[0].run.config.get("answer_headline", ()))
    applying = applicable(metrics, results)
    metrics = [name for name in metrics if name in decides or name in applying]
    others = [name for name in reversed(metrics) if name not in decides]
    parameters, wanted, ends = list[Column](), dict[str, Column](), list[Column]()

    def is_wide() -> bool:
        return _width([*first, *parameters, *wanted.values(), *ends]) > width

    for ways in (_parameters(results, chosen), labels):
        parameters = ways
        for narrow, bare in ((False, 0), *((True, count) for count in range(len(others) + 1))):
            ends = _ends(shown, found, choice, narrow and found.metric in objective[:1]) if found else []
            wanted = {name: _metric(shown, name, found, narrow, name in others[:bare]) for name in metrics}
            if not is_wide():
                break
        for kept_metrics in (answers, chosen_metrics, decides):
            while is_wide() and any(name not in kept_metrics for name in wanted):
                del wanted[next(name for name in reversed(wanted) if name not in kept_metrics)]
        if not is_wide():
            break
    columns = [*first, *parameters, *wanted.values(), *ends]
    left_out, header = tuple(name for name in metrics if name not in wanted), [one.header for one in columns]
    has_intervals = any("[" in text for one in (*wanted.values(), *ends[:1]) for text in one.cells)
    return SweepTable(header, _rows(columns), shown, len(results) - len(shown), left_out, has_intervals)


def slice_table(shown: Sequence[Result], label: str, metric: str, width: int) -> Table:
    """Make a table of a metric by slice: a row per label value that has scored questions, a column per config.

    Intervals are omitted if the table would be wider than ``width``. The note explains the interval of a mean of
    0, and counts the questions without a value.
    """
    groups = [result.summaries.groups.get(label, {}) for result in shown]
    scored = (
        value
        for group in groups
        for value, metrics in group.items()
        if (found := metrics.get(metric)) and found.n_scored
    )
    values = list(dict.fromkeys(scored))
    parts = [[group.get(value, {}).get(metric) for value in values] for group in groups]
    sizes = count_scored(shown, label, metric)
    first = [Column(label, values), Column(">questions", [f"{sizes[value]:,}" for value in values])]
    full, bare = (
        [
            Column(f">{one.name.partition(' ')[0]}", list(map(write, part)))
            for one, part in zip(shown, parts, strict=True)
        ]
        for write in (cell, _bare)
    )
    columns, notes = [*first, *full], [_zero_note(one for part in parts for one in part)]
    if _width(columns) > width:
        columns, notes = [*first, *bare], []
    note = ". ".join(filter(None, [*notes, unlabelled_note(shown, label)]))
    return Table([one.header for one in columns], _rows(columns), note, fitted=True)


def unlabelled_note(results: Sequence[Result], label: str) -> str:
    """State how many questions have no value of a label (the largest number if configs differ); "" if all have one."""
    columns = [list(result.questions.get(label, ())) for result in results]
    count, total = max(((sum(not value for value in one), len(one)) for one in columns), default=(0, 0))
    return f"{count:,} of {counted(total, 'question')}: no {label}, so not shown" if count else ""


def _zero_note(summaries: Iterable[Summary | None]) -> str:
    """Explain the interval of the first slice in which every score is 0; "" if there is no such slice."""
    zero = next((one for one in summaries if one and one.value == one.low == 0 < one.high), None)
    high = number(zero.high, zero.unit) if zero else ""
    return f"{cell(zero)}: {counted(zero.n_scored, 'score')} of 0; the true mean may be up to {high}" if zero else ""


def _rows(columns: Sequence[Column]) -> list[list[str]]:
    return [list(row) for row in zip(*(one.cells for one in columns), strict=True)]


def label_table(result: Result, label: str, metrics: Sequence[str]) -> Table:
    """Make a table of one config by slice: a row per value of a label, a column per metric.

    The note counts the questions without a value.
    """
    rows = []
    for value, group in result.summaries.groups.get(label, {}).items():
        count = max((one.n_total for one in group.values()), default=0)
        rows.append([value, f"{count:,}", *(cell(group.get(name)) for name in metrics)])
    return Table([label, ">questions", *(f">{name}" for name in metrics)], rows, unlabelled_note([result], label))


def _bare(summary: Summary | None) -> str:
    return cell(replace(summary, low=math.nan) if summary else None)


def _best_first(results: Sequence[Result], found: SweepComparison | None) -> list[int]:
    """Return the rows of configs, best first by the mean in the comparison or else by the objective.

    Configs without a value come last.
    """
    values = [math.nan] * len(results)
    if found:
        better = found.means if found.matrix.higher_is_better else -found.means
        means = dict(zip(found.matrix.configs, better.tolist(), strict=True))
        values = [means.get(result.name, math.nan) for result in results]
    elif results and (names := objectives(results[0].run.config)):
        values = [goodness(result.summaries.metrics.get(names[0])) for result in results]
    return sorted(range(len(results)), key=lambda row: (math.isnan(values[row]), -np.nan_to_num(values[row]), row))


def _parameters(results: Sequence[Result], chosen: Sequence[int]) -> list[Column]:
    every, columns = all_settings(results), []
    keys = short_keys(varying_keys(every))
    digits = digits_for("\n".join(every[row].get(key, "") for key in keys) for row in chosen)
    for key, name in keys.items():
        cells = _cut([every[row].get(key, "") for row in chosen], digits)
        numeric = all(is_number(text) for text in cells if text)
        columns.append(Column(f">{name}" if numeric else name, cells))
    return columns


def _ends(shown: Sequence[Result], found: SweepComparison, choice: str | None, narrow: bool) -> list[Column]:
    """Return two columns: the configs' differences from the reference, and their verdicts and roles."""
    rows: Mapping[str, int] = {name: row for row, name in enumerate(found.matrix.configs)}
    differences, words = [], []
    for result in shown:
        row = rows.get(result.name)
        if row is None:
            differences.append("-")
            words.append(next((one.why for one in found.left_out if one.name == result.name), "not compared"))
            continue
        is_reference = row == found.reference
        differences.append("" if is_reference else change(found, row))
        role = ["baseline"] if row == found.baseline else [] if is_reference else [verdict_word(found, row)]
        words.append(", ".join([*role, *(["choice"] if result.name == choice else [])]))
    number = found.matrix.configs[found.reference].partition(" ")[0]
    return [Column(f">vs {number}" if narrow else f">{found.metric} vs {number}", differences), Column("", words)]


def _metric(shown: Sequence[Result], name: str, found: SweepComparison | None, narrow: bool, bare: bool) -> Column:
    """Make the column of a metric; ``narrow``: with a short heading; ``bare``: without intervals and corrections."""
    cells = [(_bare if bare else cell)(one.summaries.metrics.get(name)) for one in shown]
    if found and name in found.corrections and not bare:
        means = dict(zip(found.matrix.configs, found.corrections[name].means.tolist(), strict=True))
        corrected = [means.get(result.name, math.nan) for result in shown]
        pairs = zip(cells, corrected, strict=True)
        cells = [text if math.isnan(mean) else f"{text} -> {number(mean)}" for text, mean in pairs]
    return Column(f">{FAMILY.sub('', name) if narrow else name}", cells)


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


def _cut(values: Sequence[str], digits: int) -> list[str]:
    """Shorten values: round numbers, cut long strings, and replace paths by their last parts if all of these differ."""
    names, half = last_parts(set(values)), LONGEST_VALUE // 2 - 1
    texts = [names.get(value) or rounded(value, digits) for value in values]
    return [text if len(text) <= LONGEST_VALUE else f"{text[:half]}..{text[-half:]}" for text in texts]
