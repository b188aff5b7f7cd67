"""Collect the duration and cost of each step of each question, and the judges' reasons."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ragsweep.core.question_results import JUDGE, StepResults, is_known
from ragsweep.core.types import EvaluationView


def collect_steps(view: EvaluationView) -> dict[str, StepResults]:
    """Return the facts of each step by name: a stage with latency, ``query``, ``generate`` or ``judge/METRIC``.

    If answers are repeated, these are the facts of the first answers. Steps without a known fact are omitted.
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
            "model": [getattr(one, "model", "") for one in some],
            "words": [getattr(one, "words", "") for one in some],
        }
        yield name, facts
