"""``ragsweep compare``: two configs, question by question."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.commands.command_line import LABELS, METRIC, RUN, Parser, add_path, ignore_closed_pipe
from ragsweep.commands.comparison import Comparison, compare_runs, find_family
from ragsweep.commands.labels import read_run_labels
from ragsweep.commands.pair_report import PAGE, PairReport, pair_metrics, write_report
from ragsweep.core.escaping import markdown_text
from ragsweep.report.numbers import amount, chance, ratio_with_interval, signed, with_interval
from ragsweep.report.tables import Row, log_table, markdown, to_json, weighted_note
from ragsweep.report.terminal import Terminal
from ragsweep.stats.verdict import LIKELY_BETTER, SHOWN_BETTER, SHOWN_WORSE
from ragsweep.sweep.concluding.recorded_runs import find_run

FORMAT = "ragsweep.compare/1"
MOST_QUESTIONS = 3
"""Most questions named on either side in the terminal."""

_ABOUT = """Compare two configs on the questions that both have scores for: the difference of each metric with its 95 %
interval, the results of tests, the helped and hurt questions, and the slices with a different verdict. The first RUN is
the baseline. Runs on different golden sets or corpora are rejected."""


def compare(arguments: Sequence[str]) -> int:
    """Run ``ragsweep compare``; return the exit status: 0 done, 2 bad input."""
    parser = Parser("ragsweep compare", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("runs", nargs=2, metavar="RUN", help=RUN)
    parser.add_argument("--metric", action="append", help=METRIC)
    parser.add_argument("--labels", type=Path, metavar="FILE", help=LABELS)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="for programs, in the forms of MLflow's log_metrics and log_table"
    )
    form.add_argument("--markdown", action="store_true", help="for a comment on a change")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FOLDER",
        help="write a page with charts, time and targets, and both configs' records: comparison.html and .json,"
        " cases.jsonl",
    )
    add_path(parser)
    options = parser.parse_args(arguments)
    baseline, candidate = (find_run(options.path, run) for run in options.runs)
    labels = read_run_labels(options.labels, (baseline.result, candidate.result))
    wanted = options.metric or (pair_metrics(baseline.result, candidate.result) if options.report else None)
    family = find_family(options.path, baseline, candidate)
    comparison = compare_runs(baseline, candidate, wanted, labels, family)
    if options.report:
        write_report(PairReport(comparison, options.path), options.report)
    with ignore_closed_pipe():
        if options.json:
            print(_as_json(comparison))
        elif options.markdown:
            print(_as_markdown(comparison), end="")
        else:
            _show(comparison, Terminal.current())
            if options.report:
                Terminal.current().line("report", f"{options.report / PAGE}; open it in a browser")
    return 0


def _show(comparison: Comparison, terminal: Terminal) -> None:
    terminal.line("compare", f"{comparison.candidate} against {comparison.baseline}")
    terminal.line("", _dataset(comparison))
    for factor in comparison.factors:
        terminal.line("factor", str(factor))
    for warning in comparison.warnings:
        terminal.line("warning", warning)
    terminal.aligned([_cells(row) for row in comparison.metrics])
    for row in comparison.metrics:
        terminal.lines(_details(row, [part for part in comparison.slices if part["metric"] == row["metric"]]))
    terminal.lines(("variance", f"{metric}: {shares}") for metric, shares in comparison.variance.items())
    terminal.lines(_most_moved(comparison))
    if comparison.judged:
        terminal.line("judged", str(comparison.judged))


def _dataset(comparison: Comparison) -> str:
    facts = comparison.baseline.result.dataset
    weighted = weighted_note(comparison.baseline.result)
    questions = f"{facts.questions:,} questions, {facts.documents:,} documents{'; ' if weighted else ''}{weighted}"
    return f'both on "{facts.name}": {questions}'


def _cells(row: Row) -> list[str]:
    """Return the cells of one metric: means, difference with interval, verdict, tests."""
    unit = row["unit"]
    return [
        row["metric"],
        f"{amount(row['baseline'], unit)} -> {amount(row['candidate'], unit)}",
        _difference(row),
        row["verdict"],
        f"Wilcoxon {chance(row['p_wilcoxon'])}, randomised {chance(row['p_randomisation'])}",
        f"d {signed(row['effect_size'])}",
        f"{row['helped']} helped, {row['hurt']} hurt, {row['alike']} alike",
    ]


def _difference(row: Row) -> str:
    if row["ratio"] is not None:
        return ratio_with_interval(*(math.log(row[name]) for name in ("ratio", "ratio_low", "ratio_high")))
    judged = with_interval(row["difference"], row["low"], row["high"], row["unit"])
    if not np.isfinite(row.get("corrected", math.nan)):
        return judged
    found = with_interval(row["corrected"], row["corrected_low"], row["corrected_high"], row["unit"])
    return f"judged {judged} ({row['judged_verdict']}), corrected by {row['labels']} labels {found}"


def _details(row: Row, slices: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield the basis of a metric's number: missing scores, coverage, slices."""
    metric, questions = row["metric"], row["questions"]
    if row["note"]:
        yield "note", f"{metric}: {row['note']}"
    if questions < row["scored"]:
        yield (
            "note",
            f"{metric}: compared on {questions:,} of {row['scored']:,} questions; not both were scored on the others",
        )
    for part in slices:
        if part["verdict"] in (SHOWN_BETTER, SHOWN_WORSE) or part["note"]:
            where = f"{part['verdict']} on {part['label']} {part['value']}"
            count = f"{part['questions']} questions{': few' if part['small'] else ''}"
            yield "slice", f"{metric}: {where} {_difference(part)} ({'; '.join(filter(None, (count, part['note'])))})"
    for part in slices:
        perhaps = bool(part["note"]) and (part["difference"] < 0) == row["higher_is_better"]
        if row["verdict"] in (SHOWN_BETTER, LIKELY_BETTER) and (perhaps or part["verdict"] == SHOWN_WORSE):
            word = "perhaps worse" if perhaps else "shown worse"
            yield "slice", f"{metric}: better on average, {word} on {part['label']} {part['value']}"


def _most_moved(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the questions with the largest change in the first metric."""
    first = comparison.metrics[0]
    rows = [row for row in comparison.questions if row["metric"] == first["metric"]]
    helped = [row for row in rows if (row["difference"] > 0) == first["higher_is_better"]]
    hurt = [row for row in reversed(rows) if (row["difference"] > 0) != first["higher_is_better"]]
    for effect, moved in (("helped", helped[:MOST_QUESTIONS]), ("hurt", hurt[:MOST_QUESTIONS])):
        if moved:
            changes = [f"{row['question_id']} {signed(row['difference'], first['unit'])}" for row in moved]
            yield effect, f"{first['metric']}: {', '.join(changes)}"


def _as_json(comparison: Comparison) -> str:
    """Format the comparison as JSON: ``metrics`` for MLflow's log_metrics, tables as its log_table writes them."""
    numbers = ("difference", "low", "high", "p_wilcoxon", "p_randomisation", "effect_size", "ratio",
               "ratio_low", "ratio_high", "corrected", "corrected_low", "corrected_high")  # fmt: skip
    document: dict[str, Any] = {
        "format": FORMAT,
        "baseline": comparison.baseline.facts,
        "candidate": comparison.candidate.facts,
        "weighted": weighted_note(comparison.baseline.result),
        "golden_set": comparison.baseline.result.dataset.golden_digest,
        "confidence_level": 0.95,
        "factors": [vars(factor) for factor in comparison.factors],
        "warnings": comparison.warnings,
        "metrics": {
            f"{row['metric']}.{name}": row[name]
            for row in comparison.metrics
            for name in numbers
            if row.get(name) is not None and np.isfinite(row[name])
        },
        **(
            {"variance": {metric: one.facts for metric, one in comparison.variance.items()}}
            if comparison.variance
            else {}
        ),
        **({"judged": comparison.judged._asdict()} if comparison.judged else {}),
        "table": log_table(comparison.metrics),
        "slices": log_table(comparison.slices),
        "questions": log_table(comparison.questions),
    }
    return to_json(document)


def _as_markdown(comparison: Comparison) -> str:
    """Format the comparison as Markdown, for a comment on a change."""
    title = markdown_text(f"{comparison.candidate} against {comparison.baseline}")
    head = f"### {title}\n\n{markdown_text(_dataset(comparison))}\n\n"
    warned = "".join(f"\n**{markdown_text(warning)}**\n" for warning in comparison.warnings)
    columns = ("metric", "baseline -> candidate", "difference", "", "tests", "effect", "questions")
    rows = [dict(zip(columns, _cells(row), strict=True)) for row in comparison.metrics]
    slices = [
        {
            "metric": part["metric"],
            "slice": f"{part['label']} {part['value']}",
            "questions": f"{part['questions']}{' (few)' if part['small'] else ''}",
            "difference": _difference(part),
            "verdict": part["verdict"] + (f" ({part['note']})" if part["note"] else ""),
        }
        for part in comparison.slices
    ]
    notes = [f"{row['metric']}: {row['note']}" for row in comparison.metrics if row["note"]]
    notes += [str(comparison.judged)] if comparison.judged else []
    variance = [f"{metric}: {shares}" for metric, shares in comparison.variance.items()]
    above = head + _listed(comparison.factors) + warned
    parts = (above, markdown(rows), _listed(notes), _listed(variance), markdown(slices))
    return "\n".join(part for part in parts if part)


def _listed(lines: Iterable[object]) -> str:
    return "".join(f"- {markdown_text(line)}\n" for line in lines)
