"""``ragsweep golden items``: report from past sweeps which questions of a golden set discriminate between configs."""

import argparse
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import Parser, add_path, output_file, print_document, usual_metrics
from ragsweep.commands.gate import CRITICAL, marked_questions, read_questions
from ragsweep.core.errors import ConfigError, Faults, InputError
from ragsweep.core.plurals import counted
from ragsweep.core.results import COMPLETE, Result, Run
from ragsweep.golden.reading import read_rows
from ragsweep.golden.text_files import read_lines
from ragsweep.stats.comparable import HOW_MEASURED, shared_metrics
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.items import (
    FEWEST,
    TINY,
    analyse_items,
    choose_mini,
    distinct_rows,
    estimate_mini,
    find_redundant,
    find_suspects,
)
from ragsweep.sweep.concluding.recorded_runs import find_sweep
from ragsweep_golden.commands.inputs import check_outputs, next_step, user_name
from ragsweep_golden.commands.item_report import ItemReport, items_document
from ragsweep_golden.sets.files import record_change, write_whole

_SHARE = 0.3

_ABOUT = """Report which questions discriminate between configs, from the scores of all configs of past sweeps on one
golden set: the difficulty and discrimination of each question, labels that may be wrong, and redundant questions. With
--mini, write a set of the most informative questions for quick checks, and report how well this set ranks configs."""


def items(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden items``; return the exit status 0. Raises RagsweepError for bad input."""
    options = _read(arguments)
    results, notes = _pool({name: find_sweep(options.path, name) for name in options.sweeps})
    metric = shared_metrics(results, [options.metric] if options.metric else None, usual_metrics(results))[0]
    report = _analyse(results, metric, notes)
    if options.mini:
        report = _add_mini(report, results[0], options)
    print_document(items_document(report, options.mini), options)
    return 0


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser("ragsweep golden items", description=_ABOUT)
    parser.add_argument("sweeps", nargs="+", metavar="SWEEP", help="a sweep: an id or a name that ragsweep list prints")
    parser.add_argument("--metric", metavar="M", help="metric of the scores; default: the objective")
    parser.add_argument("--golden", type=Path, metavar="FILE", help="the golden file, for --mini")
    parser.add_argument("--mini", type=output_file, metavar="OUT.jsonl", help="file for the most informative questions")
    share = f"share of the questions, for --mini; default: {_SHARE}"
    parser.add_argument("--share", type=float, help=share)
    critical = f"ids of questions to keep in the mini set, one per line (default: those with labels.{CRITICAL} true)"
    parser.add_argument("--critical", type=Path, metavar="FILE", help=critical)
    parser.add_argument("--json", action="store_true", help="write all questions to standard output as JSON")
    add_path(parser)
    options = parser.parse_args(arguments)
    for name in ("golden", "share", "critical"):
        if not options.mini and getattr(options, name) is not None:
            raise ConfigError(f"golden items: --{name} needs --mini OUT.jsonl; add it, or omit --{name}")
    check_outputs([options.mini], options.golden, options.critical)
    options.share = _SHARE if options.share is None else options.share
    if options.mini and not options.golden:
        raise ConfigError("golden items: --mini copies lines of the golden file; specify the file with --golden FILE")
    if not 0 < options.share < 1:
        raise ConfigError(f"golden items: --share must be above 0 and below 1, got {options.share:g}")
    return options


def _pool(sweeps: dict[str, list[Result]]) -> tuple[list[Result], list[str]]:
    """Return the complete results of all sweeps, and notes on configs that are left out."""
    first = next(iter(sweeps))
    for name, results in sweeps.items():
        if _subject(results[0].run) != _subject(sweeps[first][0].run):
            fact = f"has a different golden set, partition or corpus from {first}"
            raise InputError(f"{name}: {fact}; use sweeps on the same data")
    pooled = [result for results in sweeps.values() for result in results]
    complete = [result for result in pooled if result.run.state == COMPLETE]
    if not complete:
        raise InputError(f"{', '.join(sweeps)}: no config is complete; repeat the sweep with rerun=true")
    left = len(pooled) - len(complete)
    return complete, [f"{counted(left, 'config')} left out: PARTIAL, or dropped by a race"] if left else []


def _subject(run: Run) -> tuple[Any, ...]:
    measured = (run.parameters.get(name) for name in HOW_MEASURED)
    return run.dataset.golden_digest, run.dataset.corpus_digest, *measured


def _analyse(results: Sequence[Result], metric: str, notes: Sequence[str]) -> ItemReport:
    matrix = score_matrix(results, metric)
    scores = matrix.scores if matrix.higher_is_better else 1 - matrix.scores
    if not scores.size:
        raise InputError(f"{metric}: no question has a score in all configs; choose another --metric")
    if scores.min() < -TINY or scores.max() > 1 + TINY:
        fact = "has scores below 0 or above 1, so there is no full score"
        raise ConfigError(f"{metric}: {fact}; choose another --metric")
    rows, given = distinct_rows(scores), len(matrix.configs)
    matrix, scores = matrix.select_configs(rows), scores[rows]
    texts = dict(zip(results[0].questions["question_id"], results[0].questions["question"], strict=True))
    if given > len(rows):
        notes = [*notes, f"{counted(given - len(rows), 'config')} with the same scores as another, left out"]
    if missing := len(texts) - len(matrix.questions):
        notes = [*notes, f"{counted(missing, 'question')} without a score in all configs, left out"]
    report = ItemReport(matrix, scores, [str(texts[name]) for name in matrix.questions], notes)
    if len(rows) < FEWEST:
        return report
    found = analyse_items(scores)
    redundant = find_redundant(scores, matrix.clusters)
    return report._replace(items=found, suspects=find_suspects(scores, found), redundant=redundant)


def _add_mini(report: ItemReport, result: Result, options: argparse.Namespace) -> ItemReport:
    if report.items is None:
        raise InputError(
            f"golden items: --mini needs at least {FEWEST} configs with different scores, got {len(report.scores)};"
            " name more sweeps"
        )
    size = max(round(options.share * len(report.texts)), 1)
    ids = result.questions["question_id"]
    given = dict(zip(ids, result.questions.get("category") or [""] * len(ids), strict=True))
    categories = [str(given[name] or "") for name in report.matrix.questions]
    named = read_questions(options.critical, set(map(str, ids))) if options.critical else marked_questions(result)
    critical = set(named)
    forced = [n for n, name in enumerate(report.matrix.questions) if name in critical]
    size = max(size, len(forced))
    chosen = choose_mini(report.matrix, categories, size, forced)
    _write_mini(options.golden, options.mini, {report.matrix.questions[n] for n in chosen} | critical)
    notes = [*report.notes, *([f"{counted(len(critical), 'critical question')} in the mini set"] if critical else [])]
    if unscored := len(critical) - len(forced):
        notes[-1] += f", and {unscored:,} of them {'has' if unscored == 1 else 'have'} no score"
        notes[-1] += f", so the file has {len(chosen) + unscored:,} questions"
    return report._replace(mini=chosen, notes=notes, estimate=estimate_mini(report.matrix, categories, size, forced))


def _write_mini(golden: Path, target: Path, chosen: set[str]) -> None:
    faults = Faults()
    lines = dict(read_lines(golden, faults.apart()))
    ids = {row.where: str(row.values.get("id", row.values.get("_id"))) for row in read_rows(golden, faults)}
    places = {unicodedata.normalize("NFC", name): where for where, name in ids.items()}  # as in the sweeps
    for name in sorted(chosen - places.keys()):
        faults.add(str(golden), f'no line has the id "{name}"; --golden must be the golden set of the sweeps')
    faults.raise_any()
    if not lines.keys() >= set(places.values()):
        made = next_step("verify", golden, "corpus=FOLDER", "out=NEW.jsonl")
        raise InputError(f"{golden}: must be JSON lines, because --mini copies its lines; to convert it, run {made}")
    with record_change(target, "items", user_name(), source=golden):
        write_whole(target, "".join(f"{lines[where]}\n" for name, where in places.items() if name in chosen))
