"""Collect the duration and cost of each step of each question, and the judges' reasons; add up the usage of calls."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ragsweep.core.question_results import JUDGE, StepResults, is_known
from ragsweep.core.types import EvaluationView, Judgement, Usage
from ragsweep.evaluation.answering import QuestionKey
from ragsweep.evaluation.question_table import QuestionTable


def collect_steps(view: EvaluationView) -> dict[str, StepResults]:
    """Return the results of each step (a stage with latency, ``query``, ``generate`` or ``judge/METRIC``), by name.

    If answers are repeated, the results of the first answers are returned. Steps without a known result are omitted.
    """
    columns: dict[str, dict[str, list[Any]]] = {}
    for name, facts in (*_times(view), *_calls(view)):
        known = {fact: column for fact, column in facts.items() if any(map(is_known, column))}
        columns.setdefault(name, {}).update(known)
    return {name: StepResults.of(len(view.questions), facts) for name, facts in columns.items() if facts}


def _times(view: EvaluationView) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    seconds = dict(view.latency)
    if view.answers:
        seconds["generate"] = np.array([answer.seconds for answer in view.answers.answers])
    for name, times in seconds.items():
        yield name, {"ms": [float(f"{1000 * one:.3g}") for one in times.tolist()]}


def _calls(view: EvaluationView) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    called: dict[str, Sequence[Any]] = {f"{JUDGE}{name}": some for name, some in view.judgements.items()}
    called |= {"query": view.queries} if view.queries else {}
    called |= {"generate": view.answers.answers} if view.answers else {}
    for name, some in called.items():
        facts: dict[str, list[Any]] = {
            "tokens_in": [one.usage.tokens_in if one.usage.calls else math.nan for one in some],
            "tokens_out": [one.usage.tokens_out if one.usage.calls else math.nan for one in some],
            "money": [float(f"{one.money:.4g}") if one.usage.calls else math.nan for one in some],
            "model": [one.model for one in some],
            "words": [getattr(one, "words", "") for one in some],
        }
        yield name, facts


def sum_up_usage(table: QuestionTable, views: Sequence[EvaluationView]) -> dict[str, dict[str, float]]:
    """Return the usage and the cost (``money``) of the original calls, summed by stage.

    A result that several questions share (because their keys in ``table`` are equal) counts once. ``money`` is absent
    for routes, for a stage without calls, and for a stage with an unknown price.
    """
    view, items = views[0], list[tuple[str, Sequence[QuestionKey], Sequence[Any]]]()
    for n, one in enumerate(views):
        items += [("judge", table.judged, verdicts) for verdicts in _new_verdicts(views[:n], one)]
        items += [("generate", table.answered, one.answers.answers)] if one.answers else []
    items += [("route", table.wordings, view.routes)] if view.routes else []
    items += [("query", table.wordings, view.queries)] if view.queries else []
    usage: dict[str, dict[str, float]] = {}
    for stage, keys, rows in items:
        total = usage.setdefault(stage, dict.fromkeys(Usage._fields, 0.0))
        distinct = list(dict(zip(keys, rows, strict=True)).values())
        for one in distinct:
            for name, amount in one.usage._asdict().items():
                total[name] = max(total[name], float(amount)) if name == "estimated" else total[name] + amount
        if stage != "route":  # a Route has no price; the sum is NaN if the price of a model is unknown
            total["money"] = total.get("money", 0.0) + sum(one.money for one in distinct if one.usage.calls)
    for total in usage.values():
        if not total["calls"] or np.isnan(total.get("money", 0.0)):
            total.pop("money", None)
    return usage


def _new_verdicts(before: Sequence[EvaluationView], view: EvaluationView) -> Iterator[list[Judgement]]:
    """Yield each metric's verdicts in ``view``, with an empty Judgement for a verdict that was already paid for.

    A verdict counts as paid for if the question has the same answer in one of the views ``before``. Metrics that read
    no answers have the same verdicts in all views, so they are skipped after the first view.
    """
    earlier = [one.answers.answers for one in before if one.answers]
    for name, verdicts in view.judgements.items():
        if any(one.judgements[name] is verdicts for one in before):
            continue
        texts = [{answers[n].text for answers in earlier} for n in range(len(verdicts))]
        assert view.answers is not None or not before
        own = [one.text for one in view.answers.answers] if view.answers else [""] * len(verdicts)
        yield [Judgement() if text in seen else one for one, text, seen in zip(verdicts, own, texts, strict=True)]
