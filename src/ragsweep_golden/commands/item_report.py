"""The report of ``ragsweep golden items``: as text and as JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ragsweep.core.plurals import counted
from ragsweep.report.numbers import number, signed, with_interval
from ragsweep.report.tables import Row, log_table, to_json
from ragsweep.report.terminal import Terminal
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.items import FEWEST, Items, Suspect, find_unanimous
from ragsweep.stats.mini_set import Agreement, Estimate

FORMAT = "ragsweep.items/1"
MOST = 10
"""Most questions of a kind in the terminal's list."""
_TEXT = 70


class ItemReport(NamedTuple):
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


def show(report: ItemReport, target: Path | None, terminal: Terminal) -> None:
    """Print the most informative, suspect and redundant questions, and how well the mini set ranks configs."""
    matrix, scores = report.matrix, report.scores
    configs = counted(len(scores), "distinct config")
    terminal.line("items", f"{matrix.metric} of {configs}, {counted(len(report.texts), 'question')}")
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


def _list(report: ItemReport, word: str, what: str, questions: Sequence[int], terminal: Terminal) -> None:
    terminal.line(word, f"{counted(len(questions), 'question')}: {what}")
    for n in questions[:MOST]:
        terminal.line("", f"{report.matrix.questions[n]} {_short(report.texts[n])}")
    _more(len(questions), terminal)


def _more(count: int, terminal: Terminal) -> None:
    if count > MOST:
        terminal.line("", f"... {count - MOST:,} more: --json")


def _numbers(items: Items, n: int) -> list[str]:
    others = (items.discrimination, items.information)
    return [number(float(items.difficulty[n])), *(signed(float(column[n])) for column in others)]


def _show_suspects(report: ItemReport, items: Items, terminal: Terminal) -> None:
    suspects = report.suspects
    by_chance = math.ceil(0.025 * int((~np.isnan(items.discrimination)).sum()))
    what = "the best configs fail, or better configs do worse: check the label"
    terminal.line("check", f"{len(suspects):,} questions that {what} (by chance some {by_chance} are reversed)")
    rows = [
        [
            report.matrix.questions[one.question],
            f"best {one.good} fail, {one.others} others do not" if one.failed_by_best else "reversed",
            _interval(items, one.question),
            _short(report.texts[one.question]),
        ]
        for one in suspects[:MOST]
    ]
    terminal.aligned(rows)
    _more(len(suspects), terminal)


def _interval(items: Items, n: int) -> str:
    return with_interval(float(items.discrimination[n]), float(items.low[n]), float(items.high[n]))


def _show_redundant(report: ItemReport, terminal: Terminal) -> None:
    groups = report.redundant
    what = "groups of one document, or nearly the same words, that rank configs alike: keep one"
    terminal.line("same", f"{len(groups):,} {what}")
    for group in groups[:MOST]:
        terminal.line("", " = ".join(f"{report.matrix.questions[n]} {_short(report.texts[n])}" for n in group))
    _more(len(groups), terminal)


def _mini_lines(report: ItemReport, found: Estimate, target: Path | None) -> Iterator[tuple[str, str]]:
    yield "mini", f"{len(report.mini):,} of {len(report.texts):,} questions, in {target}"
    configs, others = len(report.scores), found.configs
    yield "", f"chosen on {configs - others} configs and compared with the full set on the other {others}:"
    for word, of, ends in (("chosen", found.chosen, ()), ("random", found.random, (found.low, found.high))):
        between = [f" [{_plain(low)}, {_plain(high)}]" for low, high in zip(*ends, strict=True)] if ends else ["", ""]
        yield "", f"{word}: tau-b {_plain(of.tau)}{between[0]}, Pearson {_plain(of.pearson)}{between[1]}"
    yield "", f"(means over divisions of the configs, 5 to 95 % of random sets; the file is chosen on all {configs})"
    yield "note", "a mini set keeps the ranking, not the size of differences: they are larger than on all questions"


def _plain(value: float) -> str:
    return number(value) if math.isfinite(value) else "-"


def _short(text: str) -> str:
    return f'"{textwrap.shorten(text, _TEXT, placeholder=" ...")}"'


def as_json(report: ItemReport) -> str:
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

    mini_set = None
    if report.estimate:
        of_sets = {name: one._asdict() for name, one in report.estimate._asdict().items() if isinstance(one, Agreement)}
        mini_set = {"configs_ranked": report.estimate.configs, **of_sets}
    document = {
        "format": FORMAT,
        "metric": report.matrix.metric,
        "configs": len(report.scores),
        "notes": report.notes,
        "mini": mini_set,
        "questions": log_table([row(n) for n in range(len(names))]),
    }
    return to_json(document)
