"""Sentences on what a sweep shows about its configs beyond chance, and what it does not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ragsweep.report.naming import short
from ragsweep.report.numbers import change_with_interval, number
from ragsweep.report.verdict import MOST_NAMED, change, distance, in_order, name
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.inference.concentration import Concentration
from ragsweep.stats.inference.differences import Differences
from ragsweep.stats.inference.matrix import SOURCE
from ragsweep.stats.inference.power import questions_needed
from ragsweep.stats.verdict import (
    EQUAL,
    LIKELY_BETTER,
    LIKELY_WORSE,
    OPEN,
    SHOWN_BETTER,
    SHOWN_WORSE,
    THE_SAME,
    Kind,
    PairVerdict,
    shown_kind,
)

ORDER: tuple[Kind, ...] = (SHOWN_BETTER, LIKELY_BETTER, EQUAL, OPEN, LIKELY_WORSE, SHOWN_WORSE, THE_SAME)


def evidence_sentences(verdict: SweepComparison) -> Iterator[str]:
    """Yield the verdicts on the other configs, the questions needed to show a lead, and the unseen losses."""
    found, others = verdict.differences, len(verdict.results) - 1
    if not found.apart.any():
        return
    if verdict.concentration is not None:
        yield from _by_part(verdict, verdict.concentration)
    against = name(verdict, verdict.reference)
    if math.isnan(found.critical):
        yield f"Nothing is shown: {found.notes[next(row for row in range(others + 1) if row != verdict.reference)]}."
        return
    by_kind: dict[Kind, list[int]] = {kind: [] for kind in ORDER}
    for row in in_order(verdict, range(others + 1)):
        if row != verdict.reference:
            by_kind[verdict.verdicts[row].kind].append(row)
    parts = [_listed(verdict, kind, rows) for kind, rows in by_kind.items() if rows]
    less = "" if verdict.matrix.higher_is_better else " (less is better)"
    yield f"{verdict.metric}{less} against {against}: {'; '.join(parts)}."
    yield from _needed(verdict)
    losses, chosen = verdict.choice.losses, verdict.choice.row
    if losses is not None and not losses.survives and chosen is not None and verdict.verdicts[chosen].is_better:
        yield (
            f"Losses of {number(losses.size)} on up to {100 * losses.share:.0f} % of questions cannot be excluded:"
            f" {losses.seen} seen on {losses.questions} independent ones."
        )


def _by_part(verdict: SweepComparison, parts: Concentration) -> Iterator[str]:
    """Yield the differences on each dominating document or question, and on the others."""
    sources = dict(zip(*(verdict.results[0].outcomes[key] for key in ("question_id", SOURCE)), strict=True))
    rows = [row for row in in_order(verdict, range(len(verdict.results))) if row != verdict.reference][:MOST_NAMED]
    for part in (*parts.dominating, parts.rest):
        asked = part.matrix.questions
        alone = f"question {asked[0]}" if len(asked) == 1 else f"{sources[asked[0]]} ({len(asked):,} questions)"
        where = alone if part is not parts.rest else f"the other {len(asked):,} questions"
        found = part.differences
        listed = (f"{short(verdict.matrix.configs[row])} {_part_change(verdict, found, row)}" for row in rows)
        against = f"against {name(verdict, verdict.reference)}: {', '.join(listed)}"
        yield f"On {where}, {100 * part.share:.0f} % of the weight, {against}."


def _part_change(verdict: SweepComparison, found: Differences, row: int) -> str:
    kind = shown_kind(bool(found.better[row]), bool(found.worse[row]), not found.apart[row])
    turn = 1.0 if verdict.matrix.higher_is_better or found.ratios else -1.0
    low, high = sorted((turn * float(found.low[row]), turn * float(found.high[row])))
    text = change_with_interval(turn * float(found.estimate[row]), low, high, verdict.unit, found.ratios)
    return text if kind == OPEN or math.isnan(low) else f"{kind} {text}"


def _listed(verdict: SweepComparison, kind: Kind, rows: Sequence[int]) -> str:
    shown = [f"{short(verdict.matrix.configs[row])} {change(verdict, row)}" for row in rows[:MOST_NAMED]]
    more = f" and {len(rows) - MOST_NAMED:,} more" if len(rows) > MOST_NAMED else ""
    word = kind
    if kind == EQUAL:
        widest = max((verdict.verdicts[row] for row in rows), key=lambda found: found.within)
        return f"{pair_words(widest, verdict.unit, verdict.differences.ratios)}: {', '.join(shown)}{more}"
    if kind == THE_SAME:
        shown = [short(verdict.matrix.configs[row]) for row in rows[:MOST_NAMED]]
    return f"{word} {', '.join(shown)}{more}"


def verdict_word(verdict: SweepComparison, row: int) -> str:
    """Return the verdict on a row in a few words."""
    return pair_words(verdict.verdicts[row], verdict.unit, verdict.differences.ratios)


def pair_words(found: PairVerdict, unit: str, ratios: bool) -> str:
    """Return a verdict in a few words; ``unit`` and ``ratios`` are those of the differences."""
    return f"equal within {distance(found.within, unit, ratios)}" if found.kind == EQUAL else found.kind


def _needed(verdict: SweepComparison) -> Iterator[str]:
    """Yield the number of questions that would show the choice's lead, if it is not shown."""
    choice = verdict.choice
    lead = choice.baseline or choice.runner_up
    if (
        choice.row is None
        or lead is None
        or verdict.differences.by_labels
        or verdict.reference not in (choice.row, lead.row)
    ):
        return
    row = lead.row if verdict.reference == choice.row else choice.row
    if verdict.verdicts[row].kind in (SHOWN_BETTER, SHOWN_WORSE, EQUAL, THE_SAME):
        return
    observed = float(verdict.ranked[choice.row] - verdict.ranked[lead.row])
    spread = float(verdict.power.spread[row])
    if needed := questions_needed(observed, spread, level=verdict.power.level):
        rounded = round(needed, -max(len(str(needed)) - 2, 0))  # two digits: it rests on an estimate
        yield f"Showing a lead as large as that over {name(verdict, lead.row)} takes about {rounded:,} questions."
