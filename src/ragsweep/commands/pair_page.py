"""The page that compares two configs, with its charts, and the files written next to the page."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ragsweep.commands.comparison import difference_text, pair_warnings
from ragsweep.commands.pair_report import FORMAT, GENERATE, PairReport, stage_means
from ragsweep.core.errors import InputError
from ragsweep.core.locks import replace_file
from ragsweep.core.results import Result, Summary, TargetResult
from ragsweep.core.secrets import Secrets
from ragsweep.report.document import Block, Charts, Document, Section, Table, chart
from ragsweep.report.numbers import NOT_MEASURED, amount, cell, chance, factor, number
from ragsweep.report.page import charts
from ragsweep.report.page.figures import (
    ACCENT,
    DOTTED,
    INK,
    MUTED,
    SURFACE,
    TOP_DOWN,
    Figure,
    as_list,
    dates,
    finite,
    interval_bars,
    lines,
    literal,
    scatter,
    titled,
)
from ragsweep.report.tables import Row, target_numbers, to_json, weighted_note
from ragsweep.report.writers.html import as_html
from ragsweep.stats.gate import Check
from ragsweep.sweep.concluding.recorded_runs import open_ledger

PAGE = "comparison.html"
_DECIDED = {"pass": "shown", "fail": "not reached", "inconclusive": "open"}
_INTERVALS = """Difference: candidate minus baseline. Student: from a t distribution, as if questions were independent.
Bootstrap: from resampled documents. Only the last interval and the verdict account for clusters and rare losses."""


def pair_document(report: PairReport) -> Document:
    """Build the page that compares two configs."""
    before, after = report.results
    sections = (
        ("result", "What was found", _found(report)),
        ("targets", "Targets", _targets(report)),
        ("cost", "Time and tokens", _cost(report)),
        ("charts", "Side by side", _charts(report)),
        ("slices", "By category and other labels", _slices(report)),
        ("history", "History", _history(report)),
    )
    made = [Section(list(blocks), title, key) for key, title, blocks in sections]
    return Document(f"{after.name} against {before.name}", made, {"format": FORMAT})


def write_report(report: PairReport, folder: Path) -> None:
    """Write ``comparison.html``, ``comparison.json`` and ``cases.jsonl`` to a folder; raises InputError on failure."""
    cases = "".join(to_json(case, indent=None) + "\n" for case in report.cases())
    contents = {
        PAGE: as_html(pair_document(report), Secrets()),
        "comparison.json": to_json(report.record()).encode(),
        "cases.jsonl": cases.encode("utf-8", "replace"),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            replace_file(folder / name, content)
    except OSError as fault:
        raise InputError(f"--report: {folder}: cannot be written: {fault.strerror}; use another folder") from fault


def _found(report: PairReport) -> Iterator[Block]:
    rows = []
    for row in report.rows:
        unit = row["unit"]
        ends = [_range(row, kind, unit) for kind in ("student_", "bootstrap_")]
        is_plain = row["ratio"] is None and not math.isfinite(row.get("corrected", math.nan))
        ours = _range(row, "", unit) if is_plain else difference_text(row)
        means = [amount(row[name], unit) for name in ("baseline", "candidate", "difference")]
        verdict = row["verdict"] + (f" ({row['note']})" if row["note"] else "")
        rows.append([row["metric"], *means, *ends, chance(row["p_wilcoxon"]), ours, verdict])
    names = (">baseline", ">candidate", ">difference")
    header = ["metric", *names, "Student 95 %", "bootstrap 95 %", "Wilcoxon", "interval", "verdict"]
    before, after = report.results
    facts = filter(None, [*pair_warnings(report.conclusion), weighted_note(before)])
    known = [f"Baseline: {before.name}", f"Candidate: {after.name}", *(f"{one[:1].upper()}{one[1:]}" for one in facts)]
    yield Table(header, rows, f"{'. '.join(known)}. {' '.join(_INTERVALS.split())}", "Metrics")


def _range(row: Row, kind: str, unit: str) -> str:
    return f"{amount(row[f'{kind}low'], unit)} to {amount(row[f'{kind}high'], unit)}"


def _targets(report: PairReport) -> Iterator[Block]:
    sides = [{one.metric: _target(result, one) for one in result.summaries.targets} for result in report.results]
    tested = {(metric, kind): check for metric, kind, check in report.improvements}
    measured = report.results[0].summaries.metrics
    rows = []
    for metric in dict.fromkeys([*sides[0], *sides[1]]):
        rises = metric not in measured or bool(measured[metric].higher_is_better)
        gains = (_improvement(tested.get((metric, kind)), rises) for kind in ("minimal", "ideal"))
        rows.append([metric, *(text for side in sides for text in side.get(metric, (NOT_MEASURED,) * 2)), *gains])
    sides_of = ("baseline", "candidate", "improvement")
    header = ["metric", *(name for side in sides_of for name in (f"{side}: minimal", "ideal"))]
    note = "An improvement is shown if its interval lies above the target, not reached if it lies below, and open if it"
    note += " includes the target."
    if rows:
        yield Table(header, rows, note)


def _cost(report: PairReport) -> Iterator[Block]:
    means = stage_means(report.results)
    rows = []
    for stage in ("retrieval", GENERATE, "all"):
        values = [found.get(stage, math.nan) for found in means]
        ratio = factor(values[1] / values[0] if values[0] > 0 else math.nan)
        rows.append([f"{stage}, ms per question", *(amount(value, "ms") for value in values), ratio])
    for name in (row["metric"] for row in report.rows if row["metric"].startswith("answer_tokens")):
        found = [result.summaries.metrics[name] for result in report.results]
        rows.append([name, *(number(one.value, one.unit) for one in found), NOT_MEASURED])
    yield Table(["", ">baseline", ">candidate", ">ratio"], rows)


def _charts(report: PairReport) -> Iterator[Block]:
    before, _after = report.results
    by_unit: dict[str, list[str]] = {}
    for row in report.rows:
        share = all(abs(row[side]) <= 1 for side in ("baseline", "candidate"))
        by_unit.setdefault(row["unit"] or ("shares" if share else "counts"), []).append(row["metric"])
    options = [{"label": unit, "figure": bars(report.results, names)} for unit, names in by_unit.items()]
    yield Charts(options, "Means with their 95 % intervals.", "Means")
    quality = _quality(report)
    if labels := list(before.summaries.groups):
        mean = charts.mean_in_boxes(report.results)
        note = f"A box holds the middle half of the questions; the dotted line is the {mean}."
        boxes = [charts.boxes_option(report.results, label, quality, note) for label in labels]
        yield Charts(boxes, note, "By label")
    if np.isfinite(np.array(report.milliseconds)).any():
        figure = time_against(report.results, quality, report.milliseconds)
        yield chart(figure, "One point per question.", "Response time against quality")
    if report.confusions:
        options = [{"label": name, "figure": confusion(counts)} for name, counts in report.confusions.items()]
        yield Charts(options, "Rows: expected kinds. Columns: found kinds.", "Kinds of findings")


def _quality(report: PairReport) -> str:
    """Return the metric in which the candidate has the most distinct scores, for the clearest chart.

    Metrics named ``answer_*`` and costs (metrics with a unit, or for which lower is better) are ignored; if no other
    metric exists, return the first metric.
    """
    rows = (row for row in report.rows if row["higher_is_better"] and not row["unit"])
    names: list[str] = [row["metric"] for row in rows if not row["metric"].startswith("answer_")]
    different = report.results[1].questions
    return max(names, key=lambda name: len(set(different[name])), default=str(report.rows[0]["metric"]))


def _slices(report: PairReport) -> Iterator[Block]:
    rows = []
    for part in report.slices:
        first, last = (part["metric"], part["label"], part["value"]), (part["verdict"], part["note"])
        rows.append([*first, str(part["questions"]), difference_text(part), *last])
    if rows:
        header = ["metric", "label", "value", ">questions", ">difference", "verdict", "note"]
        yield Table(header, rows, "Corrected for the number of slices (Holm).")


def _history(report: PairReport) -> Iterator[Block]:
    signatures = [result.run.signature for result in report.results]
    metric, facts, ledger = report.rows[0]["metric"], report.results[0].run.dataset, open_ledger(report.path)
    found = ledger.summaries(facts.undivided, facts.partition, metric)
    runs: list[tuple[float, list[Summary]]] = []
    for sweep in ledger.sweeps():
        known = {signature: summary for _, summary, signature in found.get(sweep.id, {}).values()}
        if all(signature in known for signature in signatures):
            runs.append((sweep.created, [known[signature] for signature in signatures]))
    if len(runs) > 1:
        figure = over_time(metric, [result.name for result in report.results], runs)
        yield chart(figure, "Sweeps with both configs on these questions.")


def _target(result: Result, target: TargetResult) -> tuple[str, str]:
    if not math.isfinite(target.value):
        return NOT_MEASURED, NOT_MEASURED
    value, threshold, ideal = target_numbers(result, target)
    minimal = f"{value} {target.verdict} ({threshold}), {target.band}"
    return minimal, f"{'pass' if target.ideal_met else 'fail'} ({ideal})" if ideal else NOT_MEASURED


def _improvement(check: Check | None, higher_is_better: bool) -> str:
    if check is None:
        return NOT_MEASURED
    found = check.found
    gain = found.difference if higher_is_better else -found.difference
    return f"{_DECIDED[found.decision]}: {amount(gain, check.unit)} of {check.condition.written_size}"


# --- charts -----------------------------------------------------------------------------------------------------------

NONE = "(none)"
"""Label of a missing counterpart in a confusion matrix: nothing was expected, or nothing was found."""

COLOURS = (MUTED, ACCENT)


def bars(pair: Sequence[Result], metrics: Sequence[str]) -> Figure:
    """Plot the means of metrics that share a unit, with their intervals, two bars per metric."""
    traces: list[Figure] = []
    for result, colour in zip(pair, COLOURS, strict=True):
        found = [result.summaries.metrics[name] for name in metrics]
        intervals = interval_bars(found, INK) | {"thickness": 1.5, "width": 4}
        traces.append(
            {
                "type": "bar",
                "name": literal(result.name),
                "x": [literal(name) for name in metrics],
                "y": [finite(one.value) for one in found],
                "marker": {"color": colour},
                "error_y": intervals,
                "hovertext": [lines(result.name, f"{one.name} {cell(one)}") for one in found],
                "hoverinfo": "text",
            }
        )
    layout: Figure = {"barmode": "group", "showlegend": True, "xaxis": {"type": "category"}, "height": 380}
    return {"data": traces, "layout": layout | {"yaxis": {"rangemode": "tozero"}}}


def time_against(pair: Sequence[Result], metric: str, milliseconds: Sequence[Sequence[float]]) -> Figure:
    """Plot each question by response time and score; ``milliseconds`` has one list of times per config."""
    traces = []
    for result, times, colour in zip(pair, milliseconds, COLOURS, strict=True):
        hover = [lines(result.name, str(name)) for name in result.questions["question_id"]]
        look = {"color": colour, "size": 7, "opacity": 0.7}
        scores = as_list(np.array(result.questions[metric], dtype=np.float64))
        traces.append(scatter("markers", as_list(times), scores, hover, name=literal(result.name), marker=look))
    axis = titled(metric, pair[0].summaries.metrics[metric].unit)
    layout = {"xaxis": titled("response time, ms"), "yaxis": axis, "height": 400}
    return {"data": traces, "layout": {"showlegend": True, **layout}}


def confusion(counts: Counter[tuple[str, str]]) -> Figure:
    """Plot the counts of pairs (expected kind, found kind) as a matrix; "" is a missing counterpart (see `NONE`)."""
    kinds = [*sorted({kind for pair in counts for kind in pair} - {""}), ""]
    names = [literal(kind or NONE) for kind in kinds]
    rows = [[counts[expected, found] for found in kinds] for expected in kinds]
    trace: Figure = {"type": "heatmap", "x": names, "y": names, "z": rows, "showscale": False, "xgap": 2, "ygap": 2}
    trace |= {"colorscale": [[0, SURFACE], [1, ACCENT]], "hoverinfo": "skip", "texttemplate": "%{text}"}
    trace["text"] = [[str(count) if count else "" for count in row] for row in rows]
    layout = {
        "xaxis": {"side": "top", "type": "category", **titled("found")},
        "yaxis": TOP_DOWN | titled("expected"),
        "height": 160 + 34 * len(kinds),
    }
    return {"data": [trace], "layout": layout}


def over_time(metric: str, names: Sequence[str], runs: Sequence[tuple[float, Sequence[Summary]]]) -> Figure:
    """Plot a metric of both configs over time; each run has a time (in seconds since the epoch) and two summaries."""
    days = dates(when for when, _ in runs)
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": literal(name),
            "x": days,
            "y": [finite(found[n].value) for _, found in runs],
            "marker": {"color": colour, "size": 8},
            "line": DOTTED | {"color": colour},
        }
        for n, (name, colour) in enumerate(zip(names, COLOURS, strict=True))
    ]
    layout = {"showlegend": True, "xaxis": {"type": "date"}, "yaxis": titled(metric), "height": 300}
    return {"data": traces, "layout": layout}
