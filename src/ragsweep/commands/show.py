"""``ragsweep show``: one config with its settings, metrics, slices and missed questions."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, starmap

from ragsweep.commands.command_line import METRIC, RUN, Parser, add_path, print_document, usual_metrics
from ragsweep.core.errors import InputError, nearest
from ragsweep.core.plurals import count_reasons, counted
from ragsweep.core.question_results import QuestionResults
from ragsweep.core.results import Result
from ragsweep.core.secrets import Secrets
from ragsweep.evaluation.question_table import beginning
from ragsweep.report import verdict as words
from ragsweep.report.document import Block, Document, Section, Statement, Statements, Table, lines, paragraphs
from ragsweep.report.evidence_losses import audit_sentences, degraded_statements, funnel_rows, funnel_sentences
from ragsweep.report.naming import DELETED, own_settings
from ragsweep.report.numbers import cell
from ragsweep.report.race import dropped_lines
from ragsweep.report.sweep_document import define, details, heading, remedies
from ragsweep.report.sweep_table import label_table
from ragsweep.report.tables import applicable, headline
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.funnel import funnel
from ragsweep.stats.fusion_audit import degraded_slices, fusion_audit
from ragsweep.sweep.concluding.recorded_runs import RecordedRun, find_run, open_ledger
from ragsweep.sweep.concluding.summarise import summarise_sweep
from ragsweep.sweep.running.session import Session

MOST_CONTEXT, LONGEST_PASSAGE = 5, 200  # maximum number of chunks listed below a question, and of characters of each

OF_TOKENS = ("answer_tokens_in", "answer_tokens_out", "answer_tokens_per_second", "cost_per_1000")
"""Metrics that are computed from token counts, which are estimated if a service reports none."""

_ABOUT = """Show one config: its settings, its metrics with 95 % intervals, and each slice. With --missed, show only the
questions with score 0 in the first metric, with their texts and retrieved chunks."""


def show(arguments: Sequence[str]) -> int:
    """Run ``ragsweep show``; return the exit status 0. Raises RagsweepError for bad input."""
    parser = Parser("ragsweep show", description=_ABOUT)
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument("--metric", action="append", help=METRIC)
    parser.add_argument("--missed", action="store_true", help="list the questions with score 0 in the first metric")
    add_path(parser)
    options = parser.parse_args(arguments)
    run = find_run(options.path, options.run)
    summaries, usual = run.result.summaries.metrics, usual_metrics([run.result])
    metrics = options.metric or applicable(usual, [run.result]) or usual
    if unknown := [name for name in metrics if name not in summaries]:
        raise InputError(f'no metric "{unknown[0]}" was measured{nearest(unknown[0], summaries)}')
    if options.missed:
        print_document(_missed_document(run.result, metrics[0]))
        return 0
    measured = (name for name in [*metrics, *summaries] if summaries[name].n_scored or summaries[name].n_failed)
    names = options.metric or list(dict.fromkeys(measured))
    print_document(_config_document(run.result, metrics, names, _verdict(options.path, run)))
    return 0


def _config_document(
    result: Result, metrics: Sequence[str], names: Sequence[str], verdict: Iterable[Statement]
) -> Document:
    """Build the document of a config: the metrics ``names`` over all questions, and ``metrics`` in each slice."""
    measured = {name: result.summaries.metrics[name] for name in names}
    estimated = any(result.summaries.usage.get(stage, {}).get("estimated") for stage in ("generate", "query"))
    about = {name: "about " for name in OF_TOKENS if estimated and name in measured and measured[name].n_scored}
    rows = [
        [name, f"{about.get(name, '')}{cell(one)}", f"{one.n_scored:,}", count_reasons(one.reasons)]
        for name, one in measured.items()
    ]
    changed = (f"~{key}" if value == DELETED else f"{key}={value}" for key, value in own_settings(result).items())
    first: list[Block] = [
        heading(result.name, result.run.dataset),
        lines(dropped_lines([result])),
        paragraphs("verdict", verdict),
        paragraphs("set", (Statement("", line) for line in changed)),
        Statements([*starmap(Statement, define([result], metrics).items())], "definitions", "metrics"),
        Table(["", ">value", ">scored", "not measured"], rows),
    ]
    parts = [first]
    parts += [[label_table(result, label, metrics)] for label in result.summaries.groups]
    parts += [losses] if (losses := list(_losses(result))) else []
    parts[-1] += [*details([result], headline([result])), remedies([result])]
    return Document(result.name, [Section(blocks) for blocks in parts])


def _verdict(path: str, run: RecordedRun) -> Iterator[Statement]:
    """Yield one sentence for each verdict on a config: on the sweep and, after a search, on the holdout.

    Yield nothing for a single run, or without a verdict.
    """
    if run.sweep is None:
        return
    ledger = open_ledger(path)
    summary = summarise_sweep(ledger, ledger.records(run.sweep))
    what = run.result.run.signature, run.result.run.overrides
    # A config that is named by its MLflow run has no number.
    same = [one.name for one in summary.results if (one.run.signature, one.run.overrides) == what]
    for found, where in ((summary.verdict, ""), (summary.conclusion.finals, " on the holdout")):
        if isinstance(found, SweepComparison):
            known = (one for one in (run.result.name, *same) if one in found.matrix.configs)
            yield from (_stated(found, name, summary.conclusion.chosen, where) for name in islice(known, 1))


def _stated(found: SweepComparison, config: str, chosen: str | None, where: str) -> Statement:
    row, metric = found.matrix.configs.index(config), f"{found.metric}{where}"
    if found.baseline is not None:
        role = "the baseline"
    elif found.matrix.configs[found.reference] == chosen:
        role = "the choice"
    else:  # no config is within the limits, or the finalists led to a different choice
        role = "the best" if found.choice.row is None else "the choice on the tune questions"
    if row == found.reference:
        return Statement("", f"{metric}: {role} of its sweep.", {"metric": found.metric})
    against = f"{words.name(found, found.reference)}, {role}"
    text = f"{metric}: {words.verdict_word(found, row)}, {words.change(found, row)} against {against}."
    return Statement("", text, {"metric": found.metric, "kind": found.verdicts[row].kind})


def _losses(result: Result) -> Iterator[Block]:
    found, audit = funnel(result), fusion_audit(result)
    if found:
        yield Table([f"{found.evidences:,} pieces of evidence", ">left", ">lost here"], funnel_rows(found))
        yield paragraphs("LOST", (Statement("", text) for text in funnel_sentences(found)))
    if audit:
        texts = [Statement("", text) for text in audit_sentences(audit)]
        yield paragraphs(
            "FUSION", texts, degraded_statements(degraded_slices(result) if result.summaries.reranking else None)
        )


def _missed_document(result: Result, metric: str) -> Document:
    summary, columns = result.summaries.metrics[metric], result.questions
    if summary.higher_is_better is not True or summary.unit:
        raise InputError(f"--missed: a score of 0 in {metric} is not a miss; choose another metric with --metric")
    scores = columns[metric]
    missed = [n for n, score in enumerate(scores) if score == 0]
    text = f"{metric} is 0 for {len(missed):,} of {counted(summary.n_scored, 'scored question')}"
    found = Statement("missed", text, {"missed": len(missed), "scored": summary.n_scored})
    texts = Session().page_texts([result], Secrets()).chunk(result)
    sections = [Section([heading(result.name, result.run.dataset)]), Section([lines(found)])]
    for n in missed:
        category = (columns.get("category") or [""] * len(scores))[n]
        named = f"{columns['question_id'][n]}{f' ({category})' if category else ''}"
        shown = [f"{named}: {columns['question'][n]}", *_retrieved(result.questions, n, texts)]
        sections.append(Section([paragraphs("", (Statement("", one) for one in shown))]))
    return Document(result.name, sections)


def _retrieved(questions: QuestionResults, n: int, texts: Callable[[str], str] | None) -> Iterator[str]:
    rank = questions.get("first_evidence_rank", [math.nan] * (n + 1))[n]
    evidence = questions.get("evidence", [0] * (n + 1))[n]
    is_measured = rank is not None and math.isfinite(rank)
    where = f"first at rank {rank:,.0f}" if is_measured and rank > 0 else "not retrieved"
    yield f"{counted(evidence, 'piece')} of evidence: {where if is_measured else 'not measured'}"
    chunks = questions.get("context", [[]] * (n + 1))[n] or []
    if chunks:
        names = map(str, chunks[:MOST_CONTEXT])
        if texts:  # None if the corpus is missing or has changed
            yield from (f"{name}: {beginning(texts(name), LONGEST_PASSAGE)}" for name in names)
        else:
            yield f"context: {', '.join(names)}"
        if len(chunks) > MOST_CONTEXT:
            yield f"and {len(chunks) - MOST_CONTEXT} more"
    for column in ("answer", "reference"):
        if questions.get(column) and questions[column][n]:
            text = str(questions[column][n])
            # Right answers are separated by line breaks, which a statement replaces by spaces.
            yield f"{column}: {' | '.join(text.splitlines()) if column == 'reference' else text}"
