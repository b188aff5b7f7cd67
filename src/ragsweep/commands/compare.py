"""``ragsweep compare``: compare two configs, question by question."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.commands.command_line import (
    METRIC,
    RUN,
    Parser,
    add_forms,
    add_path,
    print_blocks,
    print_document,
    usual_metrics,
)
from ragsweep.commands.comparison import PairRows, difference_text, find_family, pair_rows, pair_warnings
from ragsweep.commands.labels import LABELS, check_labelled, read_run_labels
from ragsweep.commands.pair_page import PAGE, write_report
from ragsweep.commands.pair_report import PairReport, pair_metrics
from ragsweep.core.plurals import counted, part_scored
from ragsweep.core.results import HumanLabel, Result
from ragsweep.report.document import Document, Section, Statement, Table, lines, notes
from ragsweep.report.numbers import amount, chance, signed
from ragsweep.report.tables import Row, log_table, weighted_note
from ragsweep.stats.comparable import check_same_questions, check_whole, shared_metrics
from ragsweep.stats.conclusion import Family, PairConclusion, conclude_pair
from ragsweep.stats.human_labels import RunLabels
from ragsweep.stats.verdict import LIKELY_BETTER, SHOWN_BETTER, SHOWN_WORSE
from ragsweep.sweep.concluding.recorded_runs import RecordedRun, find_run
from ragsweep.sweep.running.retrieved import judged_contexts
from ragsweep.sweep.running.session import Session

FORMAT = "ragsweep.compare/1"
MOST_QUESTIONS = 3  # maximum number of helped and of hurt questions named in the terminal
_COLUMNS = ("metric", "baseline -> candidate", "difference", "", "tests", "effect", "questions")
_NUMBERS = (
    *("difference", "low", "high", "p_wilcoxon", "p_randomisation", "effect_size"),
    *("ratio", "ratio_low", "ratio_high", "corrected", "corrected_low", "corrected_high"),
)
_REPORT = """write to this folder comparison.html (a page with charts, times and targets), comparison.json, and
cases.jsonl with a record of each question"""
_ABOUT = """Compare two configs on the questions that both have scores for: the difference of each metric with its 95 %
interval, the results of tests, the questions helped and hurt, and the slices with a shown difference. The first RUN is
the baseline. Runs on different golden sets or corpora are rejected."""


def compare(arguments: Sequence[str]) -> int:
    """Run ``ragsweep compare``; return the exit status 0. Raises RagsweepError for bad input."""
    parser = Parser("ragsweep compare", description=_ABOUT)
    parser.add_argument("runs", nargs=2, metavar="RUN", help=RUN)
    parser.add_argument("--metric", action="append", help=METRIC)
    parser.add_argument("--labels", type=Path, metavar="FILE", help=LABELS)
    add_forms(parser)
    parser.add_argument("--report", type=Path, metavar="FOLDER", help=_REPORT)
    add_path(parser)
    options = parser.parse_args(arguments)
    baseline, candidate = (find_run(options.path, run) for run in options.runs)
    results = baseline.result, candidate.result
    labels = read_run_labels(options.labels, results)
    usual = pair_metrics(*results) if options.report else usual_metrics(results)
    names = _metrics(results, options.metric, usual, labels)
    family = find_family(options.path, baseline, candidate) or Family(results)
    conclusion = conclude_pair(results, names, family, RunLabels(labels, (baseline.run, candidate.run)))
    if options.report:
        write_report(PairReport(conclusion, options.path), options.report)
    print_document(compare_document(conclusion, (baseline, candidate)), options)
    if options.report and not (options.json or options.markdown):
        print_blocks(lines(Statement("report", f"{options.report / PAGE}; open it in a browser")))
    return 0


def _metrics(
    results: tuple[Result, Result], wanted: Sequence[str] | None, usual: Sequence[str], labels: Sequence[HumanLabel]
) -> list[str]:
    """Return the requested metrics or, if none are requested, the usual and the labelled metrics.

    Raises RagsweepError for results, metrics or labels that cannot be compared.
    """
    check_same_questions(*results)
    for result in results:
        check_whole(result)
    labelled = dict.fromkeys(label.metric for label in labels)
    names = shared_metrics(results, wanted, [*usual, *labelled])
    check_labelled(labels, names)
    return names


def compare_document(conclusion: PairConclusion, runs: tuple[RecordedRun, RecordedRun]) -> Document:
    """Build the document that compares two configs by settings, metrics, slices, and the most changed questions."""
    baseline, candidate = runs
    pair, rows = f"{candidate} against {baseline}", pair_rows(conclusion)
    judged = judged_contexts(Session(), *conclusion.results)
    facts, weighted = conclusion.baseline.run.dataset, weighted_note(conclusion.baseline)
    asked = f"{counted(facts.questions, 'question')}, {counted(facts.documents, 'document')}"
    asked += f"; {weighted}" if weighted else ""
    data = {"questions": facts.questions, "documents": facts.documents}
    head = [Statement("compare", pair), Statement("", f'both on "{facts.name}": {asked}', data)]
    head += [Statement("factor", str(factor), vars(factor)) for factor in conclusion.factors]
    head += [Statement("warning", warning) for warning in pair_warnings(conclusion)]
    metrics = Table(_COLUMNS, [_cells(row) for row in rows.metrics], headed=False)
    variances = {one.matrix.metric: one.variance for one in conclusion.metrics if one.variance}
    spread = [Statement("variance", f"{name}: {one}", {"metric": name, **vars(one)}) for name, one in variances.items()]
    moved = [*_details(rows), *spread, *_most_moved(rows)]
    shown = [Statement("judged", str(judged), judged._asdict())] if judged else []
    section = Section([lines(head), metrics, notes(moved, shown), _slices(rows)])
    known = {"baseline": baseline.facts, "candidate": candidate.facts, **_facts(conclusion, rows)}
    return Document(pair, [section], {"format": FORMAT, **known, **({"judged": judged._asdict()} if judged else {})})


def _cells(row: Row) -> list[str]:
    unit = row["unit"]
    return [
        row["metric"],
        f"{amount(row['baseline'], unit)} -> {amount(row['candidate'], unit)}",
        difference_text(row),
        row["verdict"],
        f"Wilcoxon {chance(row['p_wilcoxon'])}, randomised {chance(row['p_randomisation'])}",
        f"d {signed(row['effect_size'])}",
        f"{row['helped']} helped, {row['hurt']} hurt, {row['alike']} alike",
    ]


def _details(rows: PairRows) -> Iterator[Statement]:
    for row in rows.metrics:
        metric, questions = row["metric"], row["questions"]
        if row["note"]:
            yield Statement("note", f"{metric}: {row['note']}", {"metric": metric})
        if row["scored"] > questions:
            yield Statement(
                "note",
                f"{metric}: compared on {part_scored(questions, row['scored'], ' in at least one config')}",
                {"metric": metric, "questions": questions, "scored": row["scored"]},
            )
        yield from _slice_notes(row, [part for part in rows.slices if part["metric"] == metric])


def _slice_notes(row: Row, slices: Sequence[Row]) -> Iterator[Statement]:
    """Yield statements on slices with a significant difference or a note, then on slices with a loss.

    Losses, significant or possible, are listed only if the verdict on all questions is SHOWN_BETTER or LIKELY_BETTER.
    """
    metric = row["metric"]
    for part in slices:
        if part["verdict"] in (SHOWN_BETTER, SHOWN_WORSE) or part["note"]:
            where = f"{part['verdict']} on {part['label']} {part['value']}"
            count = counted(part["questions"], "question") + (": few" if part["small"] else "")
            basis = "; ".join(filter(None, (count, part["note"])))
            yield Statement("slice", f"{metric}: {where} {difference_text(part)} ({basis})", part)
    for part in slices:
        change = part["difference"] if part["ratio"] is None else part["ratio"] - 1
        perhaps = bool(part["note"]) and (change < 0) == row["higher_is_better"]
        if row["verdict"] in (SHOWN_BETTER, LIKELY_BETTER) and (perhaps or part["verdict"] == SHOWN_WORSE):
            word = "perhaps worse" if perhaps else "shown worse"
            yield Statement("slice", f"{metric}: better on average, {word} on {part['label']} {part['value']}", part)


def _most_moved(rows: PairRows) -> Iterator[Statement]:
    first = rows.metrics[0]
    changed = [row for row in rows.questions if row["metric"] == first["metric"]]
    helped = [row for row in changed if (row["difference"] > 0) == first["higher_is_better"]]
    hurt = [row for row in reversed(changed) if (row["difference"] > 0) != first["higher_is_better"]]
    for effect, moved in (("helped", helped[:MOST_QUESTIONS]), ("hurt", hurt[:MOST_QUESTIONS])):
        if moved:
            changes = {row["question_id"]: row["difference"] for row in moved}
            listed = ", ".join(f"{name} {signed(change, first['unit'])}" for name, change in changes.items())
            yield Statement(effect, f"{first['metric']}: {listed}", changes)


def _slices(rows: PairRows) -> Table:
    cells = [
        [
            part["metric"],
            f"{part['label']} {part['value']}",
            f"{part['questions']}{' (few)' if part['small'] else ''}",
            difference_text(part),
            part["verdict"] + (f" ({part['note']})" if part["note"] else ""),
        ]
        for part in rows.slices
    ]
    return Table(("metric", "slice", "questions", "difference", "verdict"), cells, detail=True)


def _facts(conclusion: PairConclusion, rows: PairRows) -> dict[str, Any]:
    """Return the conclusion for JSON: ``metrics`` as in MLflow's log_metrics, and tables as in its log_table."""
    variance = {one.matrix.metric: vars(one.variance) for one in conclusion.metrics if one.variance}
    return {
        "weighted": weighted_note(conclusion.baseline),
        "golden_set": conclusion.baseline.run.dataset.golden_digest,
        "confidence_level": 0.95,
        "factors": [vars(factor) for factor in conclusion.factors],
        "warnings": pair_warnings(conclusion),
        "metrics": {
            f"{row['metric']}.{name}": row[name]
            for row in rows.metrics
            for name in _NUMBERS
            if row.get(name) is not None and np.isfinite(row[name])
        },
        **({"variance": variance} if variance else {}),
        "table": log_table(rows.metrics),
        "slices": log_table(rows.slices),
        "questions": log_table(rows.questions),
    }
