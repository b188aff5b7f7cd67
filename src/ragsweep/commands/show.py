"""``ragsweep show``: one config with its settings, metrics, slices and missed questions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from ragsweep.commands.command_line import METRIC, RUN, Parser, add_path, ignore_closed_pipe, usual_metrics
from ragsweep.core.errors import InputError, nearest
from ragsweep.core.results import Result
from ragsweep.core.secrets import Secrets
from ragsweep.evaluation.question_table import beginning
from ragsweep.report import verdict as words
from ragsweep.report.answers import success_of
from ragsweep.report.definitions import define
from ragsweep.report.evidence import verdict_word
from ragsweep.report.evidence_losses import audit_sentences, degraded_slices, funnel_rows, funnel_sentences
from ragsweep.report.numbers import cell, number
from ragsweep.report.sweep_table import settings
from ragsweep.report.tables import headline
from ragsweep.report.terminal import Terminal, fixes
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.funnel import funnel
from ragsweep.stats.fusion_audit import fusion_audit
from ragsweep.sweep.concluding.recorded_runs import RecordedRun, find_run, open_ledger
from ragsweep.sweep.concluding.summarise import summarise_sweep
from ragsweep.sweep.running.session import Session

MOST_CONTEXT, LONGEST_PASSAGE = 5, 200
"""Most chunks listed below a question, and most characters of each."""

_ABOUT = """Show one config: its settings, its metrics with 95 % intervals, each slice, and with --missed the questions
with the worst possible score, with their texts and retrieved chunks."""


def show(arguments: Sequence[str]) -> int:
    """Run ``ragsweep show``; return the exit status."""
    parser = Parser("ragsweep show", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument("--metric", action="append", help=METRIC)
    parser.add_argument(
        "--missed", action="store_true", help="list the questions with a score of 0 in the first metric"
    )
    add_path(parser)
    options, terminal = parser.parse_args(arguments), Terminal.current()
    run = find_run(options.path, options.run)
    result = run.result
    metrics = options.metric or usual_metrics([result])
    if unknown := [name for name in metrics if name not in result.summaries]:
        raise InputError(f'no metric "{unknown[0]}" was measured{nearest(unknown[0], result.summaries)}')
    with ignore_closed_pipe():
        terminal.heading(result.name, result.dataset)
        if options.missed:
            _show_missed(result, metrics[0], terminal)
            return 0
        terminal.block("verdict", _verdict(options.path, run))
        terminal.block("set", [f"{key}={value}" for key, value in settings(result).items()])
        terminal.block("metrics", [f"{metric}: {text}" for metric, text in define([result], metrics).items()])
        names = metrics if options.metric else [*metrics, *(one for one in result.summaries if one not in metrics)]
        terminal.table(["", ">value", ">scored", "not measured"], list(_metric_rows(result, names)))
        for label in result.groups:
            terminal.line("", "")
            terminal.table(
                [label, ">questions", *(f">{name}" for name in metrics)], list(_slice_rows(result, label, metrics))
            )
        _show_losses(result, terminal)
        terminal.details([result], headline([result]))
        terminal.block("FIX", fixes([result]))
    return 0


def _verdict(path: str, run: RecordedRun) -> Iterator[str]:
    """Yield the sweep's verdict on a config; nothing for a single run."""
    if run.sweep is None:
        return
    ledger = open_ledger(path)
    found = summarise_sweep(ledger, ledger.records(run.sweep)).verdict
    if not isinstance(found, SweepComparison) or run.result.name not in found.matrix.configs:
        return
    row = found.matrix.configs.index(run.result.name)
    role = "the baseline" if found.baseline is not None else "the choice"
    if row == found.reference:
        yield f"{found.metric}: {role} of its sweep."
    else:
        against = f"{words.name(found, found.reference)}, {role}"
        yield f"{found.metric}: {verdict_word(found, row)}, {words.change(found, row)} against {against}."


def _metric_rows(result: Result, names: Sequence[str]) -> Iterator[list[str]]:
    for name in names:
        summary = result.summaries[name]
        if summary.n_scored or summary.n_failed:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in summary.reasons.items())
            yield [name, cell(summary), f"{summary.n_scored:,}", reasons]


def _slice_rows(result: Result, label: str, metrics: Sequence[str]) -> Iterator[list[str]]:
    for value, group in result.groups[label].items():
        first = group.get(metrics[0])
        yield [value, f"{first.n_total:,}" if first else "-", *(cell(group.get(name)) for name in metrics)]


def _show_losses(result: Result, terminal: Terminal) -> None:
    """Show where evidence was lost, and a hybrid against its legs."""
    found, audit = funnel(result, success_of(result)), fusion_audit(result)
    if found:
        terminal.line("", "")
        terminal.table([f"{found.evidences:,} evidences", ">left", ">lost here"], funnel_rows(found))
        terminal.block("LOST", funnel_sentences(found))
    if audit:
        terminal.block("FUSION", [*audit_sentences(audit), *(degraded_slices(result) if result.reranking else ())])


def _show_missed(result: Result, metric: str, terminal: Terminal) -> None:
    """List the questions with the worst possible score, with their retrieved chunks."""
    summary, columns = result.summaries[metric], result.outcomes
    if summary.higher_is_better is not True or summary.unit:
        raise InputError(f"--missed: a score of 0 in {metric} is not a miss; name another metric with --metric")
    scores = columns[metric]
    missed = [n for n, score in enumerate(scores) if score == 0]
    terminal.line("", "")
    terminal.line("missed", f"{len(missed):,} of {summary.n_scored:,} scored questions have {metric} 0")
    texts = Session().page_texts([result], Secrets()).chunk
    for n in missed:
        category = (columns.get("category") or [""] * len(scores))[n]
        named = f"{columns['question_id'][n]}{f' ({category})' if category else ''}"
        terminal.line("", "")
        terminal.block("", [f"{named}: {columns['question'][n]}", *_retrieved(result, n, texts)])


def _retrieved(result: Result, n: int, texts: Callable[[str], str] | None) -> Iterator[str]:
    """Yield the ranks of the evidence, and the context."""
    columns = result.outcomes
    rank = columns.get("first_evidence_rank", [math.nan] * (n + 1))[n]
    evidence = columns.get("evidence", [0] * (n + 1))[n]
    is_measured = rank is not None and math.isfinite(rank)
    where = f"first at rank {number(rank, '-')}" if is_measured and rank > 0 else "not retrieved"
    yield f"{evidence} evidences: {where if is_measured else 'not measured'}"
    chunks = columns.get("context", [[]] * (n + 1))[n] or []
    if chunks:
        names = map(str, chunks[:MOST_CONTEXT])
        if texts:  # None if the corpus is missing or has changed
            yield from (f"{name}: {beginning(texts(name), LONGEST_PASSAGE)}" for name in names)
        else:
            yield f"context: {', '.join(names)}"
        if len(chunks) > MOST_CONTEXT:
            yield f"and {len(chunks) - MOST_CONTEXT} more"
    for column in ("answer", "reference"):
        if columns.get(column) and columns[column][n]:
            yield f"{column}: {columns[column][n]}"
