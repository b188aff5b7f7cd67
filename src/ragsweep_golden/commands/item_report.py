"""Build the document that ``ragsweep golden items`` prints."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.plurals import counted
from ragsweep.report.document import Block, Document, Section, Statement, Table, lines, notes
from ragsweep.report.numbers import number, signed, with_interval
from ragsweep.report.tables import Row, log_table
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.items import FEWEST, TINY, Agreement, Estimate, Items, Suspect, find_unanimous

FORMAT = "ragsweep.items/1"
MOST = 10  # maximum number of questions or groups in each list
_TEXT = 70


class ItemReport(NamedTuple):
    """The item analysis of the questions of a score matrix.

    ``scores`` (configs, questions) are from 0 to 1; higher is better. ``texts`` are the texts of the questions.
    ``redundant`` lists groups of questions, and ``mini`` lists the questions of the mini set, as indices. ``estimate``
    states how well mini sets chosen like ``mini`` rank configs.
    """

    matrix: Matrix
    scores: np.ndarray
    texts: Sequence[str]
    notes: Sequence[str]
    items: Items | None = None  # None: too few configs
    suspects: Sequence[Suspect] = ()
    redundant: Sequence[Sequence[int]] = ()
    mini: Sequence[int] = ()
    estimate: Estimate | None = None


def items_document(report: ItemReport, target: Path | None) -> Document:
    """Return the document of an item analysis; ``target`` is the file of the mini set, None if there is no mini set."""
    configs, questions = counted(len(report.scores), "distinct config"), counted(len(report.texts), "question")
    count = {"configs": len(report.scores), "questions": len(report.texts)}
    none, every = find_unanimous(report.scores)
    blocks: list[Block] = [
        lines(Statement("items", f"{report.matrix.metric} of {configs}, {questions}", count)),
        notes(Statement("note", note) for note in report.notes),
        lines(_listed(report, "none", "no config scores above 0 (too hard, or a wrong label)", none)),
        lines(_listed(report, "all", "every config has the full score (of no use in ranking configs)", every)),
    ]
    if report.items is None:
        few = Statement("note", f"with fewer than {FEWEST} distinct configs, correlations would be due to chance")
        blocks.append(lines(few))
    else:
        blocks += [*_best(report, report.items), *_suspects(report, report.items), lines(_redundant(report))]
        blocks.append(notes(_mini(report, report.estimate, target) if report.estimate else ()))
    return Document(f"Questions of {report.matrix.metric}", [Section(blocks)], _facts(report))


def _listed(report: ItemReport, word: str, what: str, questions: Sequence[int]) -> Iterator[Statement]:
    names = report.matrix.questions
    yield Statement(word, f"{counted(len(questions), 'question')}: {what}", {"questions": len(questions)})
    for n in questions[:MOST]:
        yield Statement("", f"{names[n]} {_short(report.texts[n])}", {"question": names[n]})
    yield from _more(len(questions))


def _more(count: int) -> Iterator[Statement]:
    if count > MOST:
        yield Statement("", f"... {count - MOST:,} more, listed with --json", {"hidden": count - MOST})


def _best(report: ItemReport, items: Items) -> Iterator[Block]:
    names, order = report.matrix.questions, np.argsort(-items.information, kind="stable").tolist()
    best = [n for n in order if items.information[n] > TINY][:MOST]
    yield lines(Statement("best", "the most informative questions" if best else "no question is informative"))
    if best:
        rows = []
        for n in best:
            others = signed(float(items.discrimination[n])), signed(float(items.information[n]))
            rows.append([names[n], number(float(items.difficulty[n])), *others, _short(report.texts[n])])
        yield Table(["id", ">difficulty", ">discrimination", ">information", "question"], rows)


def _suspects(report: ItemReport, items: Items) -> Iterator[Block]:
    suspects, names = report.suspects, report.matrix.questions
    by_chance = math.ceil(0.025 * int((~np.isnan(items.discrimination)).sum()))
    what = "with a label to check: the best configs fail, or better configs do worse"
    text = f"{counted(len(suspects), 'question')} {what} (by chance, about {by_chance} would be reversed)"
    yield lines(Statement("check", text, {"suspects": len(suspects), "by_chance": by_chance}))
    rows = []
    for one in suspects[:MOST]:
        others = f"{counted(one.others, 'other')} {'does' if one.others == 1 else 'do'} not"
        n, failed = one.question, f"the best {one.good} fail, {others}"
        interval = with_interval(float(items.discrimination[n]), float(items.low[n]), float(items.high[n]))
        why = failed if one.failed_by_best else "reversed"
        rows.append([names[n], why, interval, _short(report.texts[n])])
    yield Table(("id", "why", "discrimination", "question"), rows, headed=False)
    yield lines(_more(len(suspects)))


def _redundant(report: ItemReport) -> Iterator[Statement]:
    groups, names = report.redundant, report.matrix.questions
    what = "of questions on one document, or in nearly the same words, that rank configs alike: keep one of each"
    text = f"{counted(len(groups), 'group')} {what}"
    yield Statement("same", text, {"groups": len(groups)})
    for group in groups[:MOST]:
        yield Statement("", " = ".join(f"{names[n]} {_short(report.texts[n])}" for n in group))
    yield from _more(len(groups))


def _mini(report: ItemReport, found: Estimate, target: Path | None) -> Iterator[Statement]:
    count, configs = {"chosen": len(report.mini), "questions": len(report.texts)}, len(report.scores)
    yield Statement("mini", f"{len(report.mini):,} of {len(report.texts):,} questions, in {target}", count)
    rest = found.configs
    yield Statement("", f"chosen on {configs - rest} configs and compared with the full set on the other {rest}:")
    for word, of, ends in (("chosen", found.chosen, ()), ("random", found.random, (found.low, found.high))):
        between = [f" [{number(low)}, {number(high)}]" for low, high in zip(*ends, strict=True)] if ends else ["", ""]
        text = f"{word}: tau-b {number(of.tau)}{between[0]}, Pearson {number(of.pearson)}{between[1]}"
        yield Statement("", text, of._asdict())
    text = f"(means over random divisions; [5 %, 95 %] of random sets; the mini set is chosen on all {configs} configs)"
    yield Statement("", text)
    text = "a mini set preserves the ranking of configs, but their differences are larger than on all questions"
    yield Statement("note", text)


def _short(text: str) -> str:
    return f'"{textwrap.shorten(text, _TEXT, placeholder=" ...")}"'


def _facts(report: ItemReport) -> dict[str, Any]:
    """Return the report as a dict for JSON; ``questions`` is a table in the format of MLflow's ``log_table``."""
    none, every = map(set, find_unanimous(report.scores))
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
            "none_scores": n in none,
            "all_score": n in every,
            "failed_by_best": bool(suspect and suspect.failed_by_best),
            "reversed": bool(suspect and suspect.reversed),
            "redundant_with": first.get(n),
            "mini": n in mini,
        }

    estimate = report.estimate._asdict() if report.estimate else {}
    agreements = {name: one._asdict() for name, one in estimate.items() if isinstance(one, Agreement)}
    return {
        "format": FORMAT,
        "metric": report.matrix.metric,
        "configs": len(report.scores),
        "notes": report.notes,
        "mini": report.estimate and {"configs_ranked": report.estimate.configs, **agreements},
        "questions": log_table([row(n) for n in range(len(names))]),
    }
