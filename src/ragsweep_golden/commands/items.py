"""``ragsweep golden items``: which questions of a golden set discriminate between configs, by past sweeps."""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ragsweep.commands.command_line import Parser, add_path, ignore_closed_pipe, usual_metrics
from ragsweep.commands.gate import CRITICAL, marked_questions, read_questions
from ragsweep.core.errors import ConfigError, Faults, InputError
from ragsweep.core.plurals import counted
from ragsweep.core.results import COMPLETE, Result
from ragsweep.golden.reading import read_rows
from ragsweep.golden.text_files import read_lines
from ragsweep.report.numbers import number, signed, with_interval
from ragsweep.report.tables import Row, log_table, to_json
from ragsweep.report.terminal import Terminal
from ragsweep.stats.comparable import HOW_MEASURED, shared_metrics
from ragsweep.stats.inference.matrix import Matrix, score_matrix
from ragsweep.stats.items import (
    FEWEST,
    TINY,
    Items,
    Suspect,
    analyse_items,
    distinct_rows,
    find_redundant,
    find_suspects,
    find_unanimous,
)
from ragsweep.stats.mini_set import Agreement, Estimate, choose_mini, estimate_mini
from ragsweep.sweep.recorded_runs import find_sweep
from ragsweep_golden.changelog import record_change
from ragsweep_golden.commands.inputs import user_name
from ragsweep_golden.files import write_whole

FORMAT = "ragsweep.items/1"
MOST = 10
"""Most questions of a kind in the terminal's list."""
_SHARE = 0.3
_TEXT = 70

_ABOUT = """Report which questions discriminate between configs, by the scores of all configs of past sweeps on one
golden set: the difficulty and discrimination of each, labels that may be wrong, redundant questions; with --mini write
a set of the most informative ones for quick checks, and report how well it ranks configs."""


class Report(NamedTuple):
    """Item analysis of the questions of a matrix with scores from 0 to 1, where higher is better."""

    matrix: Matrix
    scores: np.ndarray
    texts: Sequence[str]
    notes: Sequence[str]
    items: Items | None = None  # None: too few configs
    suspects: Sequence[Suspect] = ()
    redundant: Sequence[Sequence[int]] = ()
    mini: Sequence[int] = ()
    estimate: Estimate | None = None


def items(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden items``; return the exit status: 0 done, 2 bad input."""
    options = _read(arguments)
    results, notes = _pool({name: find_sweep(options.path, name) for name in options.sweeps})
    metric = shared_metrics(results, [options.metric] if options.metric else None, usual_metrics(results))[0]
    report = _analyse(results, metric, notes)
    if options.mini:
        report = _add_mini(report, results[0], options)
    with ignore_closed_pipe():
        if options.json:
            print(_as_json(report))
        else:
            _show(report, options.mini, Terminal.current())
    return 0


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the options; raises ConfigError for invalid ones."""
    parser = Parser("ragsweep golden items", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("sweeps", nargs="+", metavar="SWEEP", help="a sweep, as ragsweep list names it")
    parser.add_argument("--metric", metavar="M", help="metric of the scores; default: the objective")
    parser.add_argument("--golden", type=Path, metavar="FILE", help="the golden file, for --mini")
    parser.add_argument("--mini", type=Path, metavar="OUT.jsonl", help="write the most informative questions there")
    parser.add_argument(
        "--share", type=float, default=_SHARE, help=f"share of the questions, for --mini; default: {_SHARE}"
    )
    parser.add_argument(
        "--critical",
        type=Path,
        metavar="FILE",
        help="ids of questions that are always in the mini set, "
        f"one per line; default: those with labels.{CRITICAL} true",
    )
    parser.add_argument("--json", action="store_true", help="all questions, for programs")
    add_path(parser)
    options = parser.parse_args(arguments)
    if options.mini and not options.golden:
        raise ConfigError("golden items: --mini takes its lines from the golden file; give it with --golden FILE")
    if not 0 < options.share < 1:
        raise ConfigError(f"golden items: --share must be between 0 and 1, given {options.share:g}")
    return options


def _pool(sweeps: dict[str, list[Result]]) -> tuple[list[Result], list[str]]:
    """Return the complete results of all sweeps, and notes; raises InputError if the sweeps' questions differ."""
    first = next(iter(sweeps))
    for name, results in sweeps.items():
        if _subject(results[0]) != _subject(sweeps[first][0]):
            raise InputError(
                f"{name}: has another golden set, partition or corpus than {first}; give sweeps of the same"
            )
    pooled = [result for results in sweeps.values() for result in results]
    complete = [result for result in pooled if result.state == COMPLETE]
    if not complete:
        raise InputError(f"{', '.join(sweeps)}: no config is complete")
    left = len(pooled) - len(complete)
    return complete, [f"{counted(left, 'config')} left out: PARTIAL, or dropped by a race"] if left else []


def _subject(result: Result) -> tuple[Any, ...]:
    measured = (result.parameters.get(name) for name in HOW_MEASURED)
    return result.dataset.golden_digest, result.dataset.corpus_digest, *measured


def _analyse(results: Sequence[Result], metric: str, notes: Sequence[str]) -> Report:
    matrix = score_matrix(results, metric)
    scores = matrix.scores if matrix.higher_is_better else 1 - matrix.scores
    if not scores.size:
        raise InputError(f"{metric}: no question has a score in all configs")
    if scores.min() < -TINY or scores.max() > 1 + TINY:
        raise ConfigError(
            f"{metric}: has scores beyond 0 and 1, so no question is passed or failed; name another --metric"
        )
    rows, given = distinct_rows(scores), len(matrix.configs)
    matrix, scores = matrix.select_configs(rows), scores[rows]
    texts = dict(zip(results[0].outcomes["question_id"], results[0].outcomes["question"], strict=True))
    notes = [
        *notes,
        *([f"{counted(given - len(rows), 'config')} with the scores of another one"] if given > len(rows) else []),
    ]
    if missing := len(texts) - len(matrix.questions):
        notes.append(f"{counted(missing, 'question')} without a score in all configs, left out")
    report = Report(matrix, scores, [str(texts[name]) for name in matrix.questions], notes)
    if len(rows) < FEWEST:
        return report
    found = analyse_items(scores)
    return report._replace(
        items=found, suspects=find_suspects(scores, found), redundant=find_redundant(scores, matrix.clusters)
    )


def _add_mini(report: Report, result: Result, options: argparse.Namespace) -> Report:
    """Choose and write the mini set.

    Raises:
        InputError: There are too few configs, or the file is not the sweeps' golden set.
    """
    if report.items is None:
        raise InputError(f"golden items: --mini needs {FEWEST} distinct configs, given {len(report.scores)}")
    size = max(round(options.share * len(report.texts)), 1)
    ids = result.outcomes["question_id"]
    given = dict(zip(ids, result.outcomes.get("category") or [""] * len(ids), strict=True))
    categories = [str(given[name] or "") for name in report.matrix.questions]
    critical = _find_critical(options.critical, result)
    forced = [n for n, name in enumerate(report.matrix.questions) if name in critical]
    size = max(size, len(forced))
    chosen = choose_mini(report.matrix, categories, size, forced)
    _write_mini(options.golden, options.mini, {report.matrix.questions[n] for n in chosen} | critical)
    notes = [*report.notes, *([f"{counted(len(critical), 'critical question')} in the mini set"] if critical else [])]
    return report._replace(mini=chosen, notes=notes, estimate=estimate_mini(report.matrix, categories, size, forced))


def _find_critical(file: Path | None, result: Result) -> set[str]:
    """Return the ids of the critical questions, from a file or from the marks in the golden set."""
    if file is None:
        return set(marked_questions(result))
    return set(read_questions(file, set(map(str, result.outcomes["question_id"]))))


def _write_mini(golden: Path, target: Path, chosen: set[str]) -> None:
    """Copy the lines of the chosen questions; raises InputError for ids that are not in the file."""
    faults = Faults()
    lines = dict(read_lines(golden, faults))
    places = {str(row.values.get("id", row.values.get("_id"))): row.where for row in read_rows(golden, faults)}
    for name in sorted(chosen - places.keys()):
        faults.add(str(golden), f'no line has the question "{name}" of the sweeps')
    faults.raise_any()
    if not lines.keys() >= set(places.values()):
        raise InputError(f"{golden}: is one JSON array; --mini copies lines, so give JSON lines")
    with record_change(target, "items", user_name(), source=golden):
        write_whole(target, "".join(f"{lines[where]}\n" for name, where in places.items() if name in chosen))


def _show(report: Report, target: Path | None, terminal: Terminal) -> None:
    matrix, scores = report.matrix, report.scores
    terminal.line(
        "items",
        f"{matrix.metric} of {counted(len(scores), 'distinct config')}, {counted(len(report.texts), 'question')}",
    )
    terminal.lines(("note", note) for note in report.notes)
    nobody, everybody = find_unanimous(report.scores)
    _list(report, "none", "no config scores above 0: too hard, or a wrong label", nobody, terminal)
    _list(report, "all", "every config has the full score, so they rank nothing", everybody, terminal)
    if report.items is None:
        terminal.line("note", f"fewer than {FEWEST} distinct configs: correlations over them would be chance")
        return
    order = np.argsort(-report.items.information, kind="stable").tolist()
    terminal.line("best", "the most informative questions")
    terminal.table(
        ["id", ">difficulty", ">discrimination", ">information", "question"],
        [[matrix.questions[n], *_numbers(report.items, n), _short(report.texts[n])] for n in order[:MOST]],
    )
    _show_suspects(report, report.items, terminal)
    _show_redundant(report, terminal)
    if report.estimate:
        terminal.lines(_mini_lines(report, report.estimate, target))


def _list(report: Report, word: str, what: str, questions: Sequence[int], terminal: Terminal) -> None:
    terminal.line(word, f"{counted(len(questions), 'question')}: {what}")
    for n in questions[:MOST]:
        terminal.line("", f"{report.matrix.questions[n]} {_short(report.texts[n])}")
    _more(len(questions), terminal)


def _more(count: int, terminal: Terminal) -> None:
    if count > MOST:
        terminal.line("", f"... {count - MOST:,} more: --json")


def _numbers(items: Items, n: int) -> list[str]:
    return [
        number(float(items.difficulty[n])),
        signed(float(items.discrimination[n])),
        signed(float(items.information[n])),
    ]


def _show_suspects(report: Report, items: Items, terminal: Terminal) -> None:
    suspects = report.suspects
    by_chance = math.ceil(0.025 * int((~np.isnan(items.discrimination)).sum()))
    what = "the best configs fail, or better configs do worse: check the label"
    terminal.line("check", f"{len(suspects):,} questions that {what} (by chance some {by_chance} are reversed)")
    rows = [
        [
            report.matrix.questions[one.question],
            f"best {one.good} fail, {one.others} others do not" if one.failed_by_best else "reversed",
            _discrimination(items, one.question),
            _short(report.texts[one.question]),
        ]
        for one in suspects[:MOST]
    ]
    terminal.aligned(rows)
    _more(len(suspects), terminal)


def _discrimination(items: Items, n: int) -> str:
    return with_interval(float(items.discrimination[n]), float(items.low[n]), float(items.high[n]))


def _show_redundant(report: Report, terminal: Terminal) -> None:
    groups = report.redundant
    terminal.line(
        "same", f"{len(groups):,} groups of one document, or nearly the same words, that rank configs alike: keep one"
    )
    for group in groups[:MOST]:
        terminal.line("", " = ".join(f"{report.matrix.questions[n]} {_short(report.texts[n])}" for n in group))
    _more(len(groups), terminal)


def _mini_lines(report: Report, found: Estimate, target: Path | None) -> Iterator[tuple[str, str]]:
    yield "mini", f"{len(report.mini):,} of {len(report.texts):,} questions, in {target}"
    configs = len(report.scores)
    yield (
        "",
        f"chosen on {configs - found.configs} configs and compared with the full set on the other {found.configs}:",
    )
    for word, of, ends in (("chosen", found.chosen, ()), ("random", found.random, (found.low, found.high))):
        between = [f" [{_plain(low)}, {_plain(high)}]" for low, high in zip(*ends, strict=True)] if ends else ["", ""]
        yield "", f"{word}: tau-b {_plain(of.tau)}{between[0]}, Pearson {_plain(of.pearson)}{between[1]}"
    yield "", f"(means over divisions of the configs, 5 to 95 % of random sets; the file is chosen on all {configs})"
    yield "note", "a mini set keeps the ranking, not the size of differences: they are larger than on all questions"


def _plain(value: float) -> str:
    return number(value) if math.isfinite(value) else "-"


def _short(text: str) -> str:
    return f'"{textwrap.shorten(text, _TEXT, placeholder=" ...")}"'


def _as_json(report: Report) -> str:
    """Format the report as JSON; ``questions`` is a table as MLflow's log_table writes it."""
    nobody, everybody = map(set, find_unanimous(report.scores))
    names, mini = report.matrix.questions, set(report.mini)
    suspects = {one.question: one for one in report.suspects}
    first = {n: names[group[0]] for group in report.redundant for n in group[1:]}

    def row(n: int) -> Row:
        columns = report.items._asdict() if report.items else {}
        suspect = suspects.get(n)
        return {
            "question_id": names[n],
            "question": report.texts[n],
            **{name: float(column[n]) for name, column in columns.items()},
            "none_scores": n in nobody,
            "all_score": n in everybody,
            "failed_by_best": bool(suspect and suspect.failed_by_best),
            "reversed": bool(suspect and suspect.reversed),
            "redundant_with": first.get(n),
            "mini": n in mini,
        }

    document = {
        "format": FORMAT,
        "metric": report.matrix.metric,
        "configs": len(report.scores),
        "notes": report.notes,
        "mini": report.estimate and _estimate_json(report.estimate),
        "questions": log_table([row(n) for n in range(len(names))]),
    }
    return to_json(document)


def _estimate_json(found: Estimate) -> dict[str, Any]:
    return {
        "configs_ranked": found.configs,
        **{name: one._asdict() for name, one in found._asdict().items() if isinstance(one, Agreement)},
    }
