"""Show a comparison: on the terminal, as JSON, as markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ragsweep.commands.command_line import Named
from ragsweep.commands.compare.measuring import Change, Comparison, questions_moved
from ragsweep.report.changes import (
    Row,
    aligned,
    amount,
    chance,
    difference,
    markdown,
    null,
    signed,
    table,
    with_interval,
)
from ragsweep.report.terminal import Terminal
from ragsweep.stats.inference.slices import Slice, reversals

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
        for word, said in _details(change):
            terminal.line(word, said)
    for word, said in _questions(found.changes[0]):
        terminal.line(word, said)


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
    for word, some in (("helped", moved[:SHOWN]), ("hurt", moved[::-1][:SHOWN])):
        better = [row for row in some if _helped(change, row) == (word == "helped")]
        if better:
            named = ", ".join(f"{row['question_id']} {signed(float(row['difference']), change.unit)}" for row in better)
            yield word, f"{change.metric}: {named}"


def _helped(change: Change, row: Row) -> bool:
    return bool((row["difference"] > 0) == change.matrix.higher_is_better)


def _word(one: Slice) -> str:
    """Return in a word or two whether the candidate is better in a slice."""
    if one.better[1] or one.worse[1]:
        return "better" if one.better[1] else "worse"
    return "the same" if one.low[1] == one.high[1] == 0 else "cannot tell"


# --- for programs -------------------------------------------------------------------------------------------------


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
