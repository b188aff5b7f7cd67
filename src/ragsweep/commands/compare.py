"""``ragsweep compare``: two configs, question by question."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragsweep.commands.command_line import (
    METRIC,
    RUN,
    Named,
    Parser,
    add_path,
    find_record,
    until_closed,
    usual_metrics,
)
from ragsweep.core.results import Result
from ragsweep.report.changes import Row, aligned, difference, markdown, null, table, word
from ragsweep.report.numbers import amount, chance, signed, with_interval
from ragsweep.report.terminal import Terminal
from ragsweep.stats.comparable import (
    Factor,
    check_same_questions,
    check_whole,
    factors,
    labels_of,
    redefined_metrics,
    shared_metrics,
)
from ragsweep.stats.inference.differences import Differences, compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix, score_matrix
from ragsweep.stats.inference.paired_tests import holm
from ragsweep.stats.inference.slices import Slice, by_slice, reversals


@dataclass(frozen=True, eq=False)
class Change:
    """What became of one metric: the candidate less the baseline, in the metric's unit and its own direction."""

    metric: str
    unit: str
    matrix: Matrix  # baseline, candidate
    differences: Differences
    slices: tuple[Slice, ...]
    p_of_all: float = math.nan  # the randomisation test's, by Holm for all metrics that are compared

    @property
    def means(self) -> tuple[float, float]:
        """The means of the questions that both were scored on."""
        baseline, candidate = self.matrix.values.mean(axis=1).tolist() if self.matrix.questions else (math.nan,) * 2
        return baseline, candidate

    @property
    def verdict(self) -> str:
        """Return the verdict in a word or two."""
        return word(self.differences, 1)

    @property
    def moved(self) -> tuple[int, int, int]:
        """Count the questions that were helped, hurt, and left alike."""
        baseline, candidate = self.matrix.better
        helped, hurt = int((candidate > baseline).sum()), int((candidate < baseline).sum())
        return helped, hurt, len(self.matrix.questions) - helped - hurt


@dataclass(frozen=True)
class Comparison:
    """Two configs compared."""

    baseline: Named
    candidate: Named
    factors: tuple[Factor, ...]
    changes: tuple[Change, ...]
    warnings: tuple[str, ...]


def measure(baseline: Named, candidate: Named, wanted: Sequence[str] | None) -> Comparison:
    """Compare two configs.

    Raises:
        RagsweepError: They were asked different questions, one is PARTIAL, or a wanted metric cannot be compared.
    """
    one, other = baseline.result, candidate.result
    check_same_questions(one, other)
    for result in (one, other):
        check_whole(result)
    metrics = shared_metrics([one, other], wanted, usual_metrics([one, other]))
    changes = [_change(one, other, metric) for metric in metrics]
    corrected = holm(np.array([change.differences.randomisation[1] for change in changes]))
    changes = [dataclasses.replace(one, p_of_all=float(p)) for one, p in zip(changes, corrected, strict=True)]
    differing = factors(one, other)
    warnings = tuple(_warnings(one, other, differing, metrics))
    return Comparison(baseline, candidate, differing, tuple(changes), warnings)


def _change(one: Result, other: Result, metric: str) -> Change:
    matrix = score_matrix([one, other], metric)
    slices = by_slice(matrix, labels_of(one, matrix.questions))
    return Change(metric, one.summaries[metric].unit, matrix, compare_with_baseline(matrix, 0), slices)


def _warnings(one: Result, other: Result, differing: Sequence[Factor], metrics: Sequence[str]) -> list[str]:
    said = []
    if len(differing) > 1:
        said.append(f"they differ in {len(differing)} factors: which of them makes a difference cannot be told")
    if not differing:
        kind = "is one and the same" if one.signature == other.signature else "differs in no parameter"
        said.append(f"the config of both {kind}: what differs is chance, or what no parameter says")
    if otherwise := redefined_metrics(one, other, metrics):
        said.append(f"not measured in the same way in both: {', '.join(otherwise)}")
    return said


def questions_moved(change: Change) -> list[Row]:
    """List the questions whose scores differ, most helped first, most hurt last."""
    baseline, candidate = change.matrix.values
    gain = change.matrix.better[1] - change.matrix.better[0]
    order = [n for n in np.argsort(-gain, kind="stable").tolist() if gain[n]]
    return [
        {
            "metric": change.metric,
            "question_id": change.matrix.questions[n],
            "baseline": float(baseline[n]),
            "candidate": float(candidate[n]),
            "difference": float(candidate[n] - baseline[n]),
        }
        for n in order
    ]


FORMAT = "ragsweep.compare/1"

SHOWN = 3
"""Questions that the terminal names on either side."""


def show(found: Comparison, terminal: Terminal) -> None:
    """Print it in lines for people."""
    terminal.line("compare", f"{_named(found.candidate)} against {_named(found.baseline)}")
    terminal.line("", _asked(found))
    for factor in found.factors:
        terminal.line("factor", str(factor))
    for said in found.warnings:
        terminal.line("warning", said)
    for line in aligned([_cells(change) for change in found.changes]):
        terminal.line("", line)
    for change in found.changes:
        for label, said in _details(change):
            terminal.line(label, said)
    for label, said in _questions(found.changes[0]):
        terminal.line(label, said)


def _named(one: Named) -> str:
    return f"{one.result.name} ({one.run[:8]})"


def _asked(found: Comparison) -> str:
    facts = found.baseline.result.dataset
    return f'both on "{facts.name}": {facts.questions:,} questions, {facts.documents:,} documents'


def _cells(change: Change) -> list[str]:
    """Return one metric's cells: means, difference with interval, verdict, tests."""
    differences, unit = change.differences, change.unit
    before, after = change.means
    helped, hurt, alike = change.moved
    return [
        change.metric,
        f"{amount(before, unit)} -> {amount(after, unit)}",
        difference(differences, 1, unit),
        change.verdict,
        f"Wilcoxon {chance(float(differences.wilcoxon[1]))}, randomised {chance(float(differences.randomisation[1]))}",
        f"d {signed(float(differences.effect[1]))}",
        f"{helped} helped, {hurt} hurt, {alike} alike",
    ]


def _details(change: Change) -> Iterator[tuple[str, str]]:
    """Return the basis of a metric's number: missing scores, coverage, slices."""
    if change.differences.notes[1]:
        yield "note", f"{change.metric}: {change.differences.notes[1]}"
    if len(change.matrix.questions) < change.matrix.asked:
        n, asked = len(change.matrix.questions), change.matrix.asked
        yield "note", f"{change.metric}: compared on {n:,} of {asked:,} questions; not both were scored on the others"
    for one in change.slices:
        if one.better[1] or one.worse[1]:
            said = with_interval(float(one.estimate[1]), float(one.low[1]), float(one.high[1]), change.unit)
            few = ": few" if one.small else ""
            yield (
                "slice",
                f"{change.metric}: {_word(one)} on {one.label} {one.value} {said} ({one.questions} questions{few})",
            )
    for turned in reversals(change.differences, change.slices):
        yield "slice", f"{change.metric}: better on average, worse on {turned.label} {turned.value}"


def _questions(change: Change) -> Iterator[tuple[str, str]]:
    """Name the questions that moved most."""
    moved = questions_moved(change)
    for effect, some in (("helped", moved[:SHOWN]), ("hurt", moved[::-1][:SHOWN])):
        better = [row for row in some if _helped(change, row) == (effect == "helped")]
        if better:
            named = ", ".join(f"{row['question_id']} {signed(float(row['difference']), change.unit)}" for row in better)
            yield effect, f"{change.metric}: {named}"


def _helped(change: Change, row: Row) -> bool:
    return bool((row["difference"] > 0) == change.matrix.higher_is_better)


def _word(one: Slice) -> str:
    """Return in a word or two whether the candidate is better in a slice."""
    if one.better[1] or one.worse[1]:
        return "better" if one.better[1] else "worse"
    return "the same" if one.low[1] == one.high[1] == 0 else "cannot tell"


def _row(change: Change) -> dict[str, Any]:
    differences = change.differences
    before, after = change.means
    helped, hurt, alike = change.moved
    return {
        "metric": change.metric,
        "baseline": before,
        "candidate": after,
        "difference": float(differences.estimate[1]),
        "low": float(differences.low[1]),
        "high": float(differences.high[1]),
        "verdict": change.verdict,
        "p_wilcoxon": float(differences.wilcoxon[1]),
        "p_randomisation": float(differences.randomisation[1]),
        "p_holm": change.p_of_all,
        "effect_size": float(differences.effect[1]),
        "helped": helped,
        "hurt": hurt,
        "alike": alike,
        "questions": len(change.matrix.questions),
        "coverage": change.matrix.coverage,
        "higher_is_better": change.matrix.higher_is_better,
        "note": change.differences.notes[1],
    }


def _slice_rows(change: Change) -> list[dict[str, Any]]:
    return [
        {
            "metric": change.metric,
            "label": one.label,
            "value": one.value,
            "questions": one.questions,
            "small": one.small,
            "difference": float(one.estimate[1]),
            "low": float(one.low[1]),
            "high": float(one.high[1]),
            "p_holm": float(one.p_holm[1]),
            "verdict": _word(one),
        }
        for one in change.slices
    ]


def as_json(found: Comparison) -> str:
    """Write all of it: ``metrics`` as MLflow's log_metrics takes them, tables as its log_table writes them."""
    rows = [_row(change) for change in found.changes]
    numbers = ("difference", "low", "high", "p_wilcoxon", "p_randomisation", "effect_size")
    document = {
        "format": FORMAT,
        "baseline": {"run_id": found.baseline.run, "name": found.baseline.result.name},
        "candidate": {"run_id": found.candidate.run, "name": found.candidate.result.name},
        "golden_set": found.baseline.result.dataset.golden_digest,
        "confidence_level": 0.95,
        "factors": [vars(factor) for factor in found.factors],
        "warnings": list(found.warnings),
        "metrics": {
            f"{row['metric']}.{name}": row[name] for row in rows for name in numbers if null(row[name]) is not None
        },
        "table": table(rows),
        "slices": table(row for change in found.changes for row in _slice_rows(change)),
        "questions": table(row for change in found.changes for row in questions_moved(change)),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_markdown(found: Comparison) -> str:
    """Write it for a comment on a change."""
    head = f"### {_named(found.candidate)} against {_named(found.baseline)}\n\n{_asked(found)}\n\n"
    changed = "".join(f"- {factor}\n" for factor in found.factors)
    warned = "".join(f"\n**{said}**\n" for said in found.warnings)
    columns = ("metric", "baseline -> candidate", "difference", "", "tests", "effect", "questions")
    rows = [dict(zip(columns, _cells(change), strict=True)) for change in found.changes]
    slices = [row for change in found.changes for row in _shown_slices(change)]
    parts = [head + changed + warned, markdown(rows), markdown(slices)]
    return "\n".join(part for part in parts if part)


def _shown_slices(change: Change) -> Iterator[Row]:
    for one in change.slices:
        difference = with_interval(float(one.estimate[1]), float(one.low[1]), float(one.high[1]), change.unit)
        yield {
            "metric": change.metric,
            "slice": f"{one.label} {one.value}",
            "questions": f"{one.questions}{' (few)' if one.small else ''}",
            "difference": difference,
            "verdict": _word(one),
        }


_ABOUT = """Compare two configs by the questions that both were scored on: the difference of each metric with its 95 %
interval, what tests say of it, which questions were helped and which were hurt, and where the answer is another for a
part of the questions. The first RUN is the baseline. Runs on different golden sets or corpora are refused."""


def compare(arguments: Sequence[str]) -> int:
    """Run ``ragsweep compare``; return the exit status: 0 done, 2 bad input."""
    parser = Parser(prog="ragsweep compare", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("runs", nargs=2, metavar="RUN", help=RUN)
    parser.add_argument("--metric", action="append", help=METRIC)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="for programs, as MLflow's log_metrics and log_table have them"
    )
    form.add_argument("--markdown", action="store_true", help="for a comment on a change")
    add_path(parser)
    given = parser.parse_args(list(arguments))
    baseline, candidate = (Named(*find_record(given.path, run)) for run in given.runs)
    found = measure(baseline, candidate, given.metric)

    def tell() -> int:
        if given.json or given.markdown:
            print(as_json(found) if given.json else as_markdown(found), end="")
        else:
            show(found, Terminal.current())
        return 0

    return until_closed(tell)
