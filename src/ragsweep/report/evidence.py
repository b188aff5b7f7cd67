"""Sentences on the significant differences between the configs of a sweep, and on what the sweep cannot show."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ragsweep.core.plurals import counted
from ragsweep.report.document import Statement
from ragsweep.report.naming import first_names, short
from ragsweep.report.numbers import change_with_interval
from ragsweep.report.verdict import MOST_NAMED, change, deficit, name, pair_words, score
from ragsweep.stats.comparison import SweepComparison, best_first
from ragsweep.stats.conclusion import SweepConclusion
from ragsweep.stats.inference.estimates import Concentration, Differences
from ragsweep.stats.inference.matrix import SOURCE
from ragsweep.stats.verdict import (
    EQUAL,
    LIKELY_BETTER,
    LIKELY_WORSE,
    OPEN,
    SHOWN_BETTER,
    SHOWN_WORSE,
    THE_SAME,
    Kind,
    shown_kind,
)

ORDER: tuple[Kind, ...] = (SHOWN_BETTER, LIKELY_BETTER, EQUAL, OPEN, LIKELY_WORSE, SHOWN_WORSE, THE_SAME)


def evidence_statements(conclusion: SweepConclusion) -> Iterator[Statement]:
    """Yield sentences on the verdicts, the number of questions that would show the choice's lead, and rare losses.

    If a few documents or questions dominate the comparison, sentences on the differences within them come first. If
    the questions cannot show any difference, the only other sentence gives the reason. Yield nothing if there is no
    comparison, or if all configs have the same score on every question.
    """
    verdict = conclusion.deciding
    if not isinstance(verdict, SweepComparison) or not verdict.differences.apart.any():
        return
    found, others = verdict.differences, len(verdict.results) - 1
    if verdict.concentration is not None:
        yield from _by_part(verdict, verdict.concentration)
    if math.isnan(found.critical):
        why = found.notes[next(row for row in range(others + 1) if row != verdict.reference)]
        questions, clusters = len(verdict.matrix.questions), len(set(verdict.matrix.clusters.tolist()))
        of = f" ({counted(questions, 'question')} in {counted(clusters, 'cluster')}, by document)"
        yield Statement("", f"No difference can be shown: {why}{of if clusters < questions else ''}.")
        return
    by_kind = {kind: rows for kind in ORDER if (rows := conclusion.evidence.by_kind.get(kind))}
    parts = [_listed(verdict, kind, rows) for kind, rows in by_kind.items()]
    less = "" if verdict.matrix.higher_is_better else " (less is better)"
    data: dict[str, Any] = {kind: [verdict.matrix.configs[row] for row in rows] for kind, rows in by_kind.items()}
    against = name(verdict, verdict.reference)
    yield Statement("", f"{verdict.metric}{less} against {against}: {'; '.join(parts)}.", data)
    if conclusion.evidence.over is not None and (needed := conclusion.evidence.needed):
        rounded = round(needed, -max(len(str(needed)) - 2, 0))  # two digits, because it is an estimate
        over, place = name(verdict, conclusion.evidence.over), " in the holdout" if conclusion.finals else ""
        text = f"Showing the choice's lead over {over} takes about {rounded:,} questions{place}."
        yield Statement("", text, {"questions": rounded})
    losses, chosen = verdict.choice.losses, verdict.choice.row
    if losses is not None and not losses.survives and chosen is not None and verdict.verdicts[chosen].is_better:
        most = deficit(verdict, losses.size) if found.ratios else score(verdict, losses.size)
        text = (
            f"Losses of {most} on up to {100 * losses.share:.0f} % of questions cannot be excluded:"
            f" {losses.seen} observed on {losses.questions} independent questions."
        )
        yield Statement("", text, vars(losses))


def _by_part(verdict: SweepComparison, parts: Concentration) -> Iterator[Statement]:
    """Yield one sentence per document or question that dominates the comparison, and one on all other questions.

    Each sentence gives the differences between the best configs and the reference on the questions that it names.
    """
    sources = dict(zip(*(verdict.results[0].questions[key] for key in ("question_id", SOURCE)), strict=True))
    rows = [row for row in best_first(verdict, range(len(verdict.results))) if row != verdict.reference][:MOST_NAMED]
    for part in (*parts.dominating, parts.rest):
        asked = part.questions
        alone = f"question {asked[0]}" if len(asked) == 1 else f"{sources[asked[0]]} ({len(asked):,} questions)"
        where = alone if part is not parts.rest else f"the other {counted(len(asked), 'question')}"
        found = part.differences
        listed = (f"{short(verdict.matrix.configs[row])} {_part_change(verdict, found, row)}" for row in rows)
        against = f"against {name(verdict, verdict.reference)}: {', '.join(listed)}"
        text = f"On {where}, {100 * part.share:.0f} % of the weight, {against}."
        yield Statement("", text, {"share": part.share, "questions": len(asked)})


def _part_change(verdict: SweepComparison, found: Differences, row: int) -> str:
    kind = shown_kind(bool(found.better[row]), bool(found.worse[row]), not found.apart[row])
    text = change_with_interval(*found.interval(row), verdict.unit, found.ratios)
    return text if kind == OPEN or math.isnan(found.low[row]) else f"{kind} {text}"


def _listed(verdict: SweepComparison, kind: Kind, rows: Sequence[int]) -> str:
    configs = [short(verdict.matrix.configs[row]) for row in rows]
    changes = [f"{config} {change(verdict, row)}" for config, row in zip(configs, rows, strict=True)]
    if kind == EQUAL:
        widest = max((verdict.verdicts[row] for row in rows), key=lambda found: found.within)
        words = pair_words(widest, verdict.unit, verdict.differences.ratios)
        return f"{words}: {first_names(changes, MOST_NAMED)}"
    return f"{kind} {first_names(configs if kind == THE_SAME else changes, MOST_NAMED)}"
