"""Statements and files about answers: outcomes, the effect of context, abstention, searches, and distractors."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ragsweep.core.plurals import counted, percentage
from ragsweep.core.question_results import QuestionResults
from ragsweep.core.results import Result
from ragsweep.report.document import Statement
from ragsweep.report.naming import rounded
from ragsweep.report.numbers import number, signed
from ragsweep.report.tables import csv_table
from ragsweep.stats import context_effect
from ragsweep.stats.answer_outcomes import (
    FATES,
    ContextPair,
    CoveragePoint,
    abstention_curves,
    against_no_context,
    best_point,
    confusion,
)
from ragsweep.stats.audits import DistractorLoss
from ragsweep.stats.context_effect import KINDS, ContextEffect
from ragsweep.stats.inference.matrix import WEIGHT

MOST_LINES = 8


def _quadrant_lines(results: Sequence[Result]) -> Iterator[Statement]:
    """Yield statements on how context changes the answers, for the `MOST_LINES` configs that gain most from it.

    Each config is compared with a config that answers the same questions without context. A config without such a
    counterpart is omitted.
    """
    pairs = sorted(against_no_context(results), key=lambda pair: -_gain(pair.effect))
    shown = pairs[:MOST_LINES]
    for base in {id(pair.base): pair.base for pair in shown}.values():
        same = [pair for pair in shown if pair.base is base]
        rule = same[0].success
        success = f"its {rule.metric} is {number(rule.threshold)} or {'more' if rule.higher_is_better else 'less'}"
        always = any(pair.effect.always_abstains for pair in same)
        note = " (which always abstains, and so solves only the unanswerable questions)"
        against = f"effect compared with {rounded(base.name)}{note if always else ''}"
        yield Statement("context", f"{against}; a question counts as solved if {success}", rule._asdict())
        yield from (Statement("", _effect(pair), pair.effect.counts) for pair in same)
    if (hidden := len(pairs) - MOST_LINES) > 0:
        text = f"and {counted(hidden, 'more config')} with no larger gain; see quadrants.csv"
        yield Statement("", text, {"hidden": hidden})


def _effect(pair: ContextPair) -> str:
    effect = pair.effect
    counts = ", ".join(f"{count} {kind}" for kind, count in effect.counts.items())
    left_out = f"; {effect.left_out} not compared" if effect.left_out else ""
    p = f"p = {effect.p_value:.3f}" if effect.p_value >= 0.001 else "p < .001"
    by_traffic = f"· weighted gain {effect.gain:+.0%} " if effect.weights else ""
    questions = f"{counts} of {len(effect.kinds)} questions{left_out}"
    return f"{rounded(pair.result.name)}: {questions} {by_traffic}· helped against hurt: {p}"


def answer_lines(results: Sequence[Result]) -> Iterator[Statement]:
    """Yield statements on the number of answers with thoughts (a model's reasoning), and on the effect of context.

    For a single config, statements on the outcomes of answers, on abstention and on searches come first.
    Topics without data are omitted.
    """
    if len(results) == 1:
        for n, row in enumerate(confusion(results[0].questions)):
            counts = [f"{count} {fate.replace('_', ' ')}" for fate, count in row.counts.items() if count]
            unknown = [f"{row.unknown} unknown"] if row.unknown else []
            total = sum(row.counts.values()) + row.unknown
            first = " first answers" if results[0].questions.repetitions else ""
            text = f"{row.kind}, {total}{first}: {', '.join([*counts, *unknown])}"
            yield Statement("" if n else "answers", text, {**row.counts, "unknown": row.unknown})
        for points in abstention_curves(results).values():
            now, best = points[-1], best_point(points)
            yield Statement("abstain", f"as configured: {_point_text(now)}", now._asdict())
            if best != now:
                given = f"with support of {best.threshold:.3g} or more" if best.answered else "without any answer"
                text = f"best in hindsight, {given}: {_point_text(best)}"
                yield Statement("", text, best._asdict())
        yield from _search_lines(results[0].questions)
    thoughts = [text for result in results for text in result.questions.get("answer_thoughts", ())]
    if count := sum(map(bool, thoughts)):
        text = f"in {count} of {counted(len(thoughts), 'answer')}; thoughts are not scored"
        yield Statement("thoughts", text, {"thoughts": count, "answers": len(thoughts)})
    yield from _quadrant_lines(results)


def _search_lines(questions: QuestionResults) -> Iterator[Statement]:
    """Yield statements on searches and keyword coverage: one on questions that need the corpus, one on all others.

    Yield nothing if the results do not record which questions need the corpus, or which questions led to a search.
    """
    needed, searched = (questions.get(name) for name in ("needs_retrieval", "searched"))
    if not needed or not searched:
        return
    keywords = np.array(questions.get("keyword_coverage") or [math.nan] * len(needed))
    weights = np.array(questions.get(WEIGHT) or [1.0] * len(needed))
    for is_needed, kind in ((True, "questions for the corpus"), (False, "conversation")):
        rows = [n for n, one in enumerate(needed) if bool(one) is is_needed]
        scored = [n for n in rows if not math.isnan(keywords[n])]
        found = np.average(keywords[scored], weights=weights[scored]) if scored else math.nan
        mean = f", keyword_coverage {number(float(found))}" if scored else ""
        count = sum(bool(searched[n]) for n in rows)
        text = f"{kind}, {len(rows)}: {count} searched{mean}"
        yield Statement("" if kind == "conversation" else "search", text, {"questions": len(rows), "searched": count})


def answer_files(results: Sequence[Result]) -> dict[str, bytes]:
    """Return the CSV files about answers by name; {} if the results contain no such data."""
    files = {}
    if pairs := against_no_context(results):
        kinds = [kind.replace(" ", "_") for kind in KINDS]
        header = ["config", "base", "metric", "threshold", *kinds, "left_out", "p_value", "base_always_abstains"]
        rows: list[list[Any]] = [
            [
                *(pair.result.name, pair.base.name, *pair.success[:2], *pair.effect.counts.values()),
                *(pair.effect.left_out, pair.effect.p_value, str(pair.effect.always_abstains).lower()),
            ]
            for pair in pairs
        ]
        files["quadrants.csv"] = csv_table(header, rows)
        rows = [[pair.result.name, pair.base.name, *item] for pair in pairs for item in pair.effect.kinds.items()]
        files["quadrants_by_question.csv"] = csv_table(["config", "base", "question_id", "kind"], rows)
    counted = [(result.name, row) for result in results for row in confusion(result.questions)]
    if counted:
        rows = [[name, row.kind, *row.counts.values(), row.unknown] for name, row in counted]
        files["confusion.csv"] = csv_table(["config", "questions", *FATES, "unknown"], rows)
    if curves := abstention_curves(results):
        rows = [[name, *point] for name, points in curves.items() for point in points]
        files["abstention.csv"] = csv_table(["config", *CoveragePoint._fields], rows)
    return files


def distractor_statements(found: DistractorLoss | None) -> Iterator[Statement]:
    """Yield a statement on the effect of a known distractor in the context; nothing if ``found`` is None."""
    if found:
        change = f"{signed(found.change)} [{signed(found.low)}, {signed(found.high)}]"
        text = (
            f"With a known distractor in the context, {found.metric} differs by {change}: {found.questions:,}"
            " questions have a distractor in the context of only some configs."
        )
        yield Statement("", text, found._asdict())


def _gain(found: ContextEffect) -> float:
    if found.weights:
        return found.gain * len(found.kinds)
    return found.counts[context_effect.HELPED] - found.counts[context_effect.HURT]


def _point_text(point: CoveragePoint) -> str:
    invented = (
        "" if math.isnan(point.hallucinated) else f", and {percentage(point.hallucinated)} of the unanswerable ones"
    )
    right = "" if math.isnan(point.score_answered) else f" with a mean token_f1 of {number(point.score_answered)}"
    whole = f"mean over all questions, with refusals: {number(point.score)}"
    return f"answers {percentage(point.coverage)} of all questions{right}{invented}; {whole}"
