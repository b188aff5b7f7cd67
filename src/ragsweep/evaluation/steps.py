"""Duration and cost of each question by step, and judges' reasons, as one JSON text a question."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ragsweep.core.results import JUDGE
from ragsweep.core.types import EvaluationView, Usage
from ragsweep.services.usage import Pricing

Step = dict[str, Any]


def step_texts(view: EvaluationView, price: Pricing) -> list[str]:
    """Return one JSON object a question: step -> its known facts; ``{}`` if there are none.

    Steps are the stages whose time is measured, ``query``, ``generate`` and ``judge/METRIC``. Of each: ``ms``, of the
    questions whose latency is probed, and of every answer; ``tokens_in``, ``tokens_out`` and ``money`` of its calls
    when they were first made; ``model``, as the service names it; ``words``, the judge's reasons. Repeated answers:
    those of the first.
    """
    found: list[dict[str, Step]] = [{} for _ in view.questions]
    for name, step in (*_times(view), *_calls(view, price)):
        for n, known in step:
            found[n].setdefault(name, {}).update(known)
    return [json.dumps(one, separators=(",", ":")) for one in found]


def _times(view: EvaluationView) -> Iterator[tuple[str, list[tuple[int, Step]]]]:
    seconds = dict(view.latency)
    if view.answers:
        seconds["generate"] = np.array([answer.seconds for answer in view.answers.answers])
    for name, times in seconds.items():
        yield name, [(n, {"ms": float(f"{1000 * times[n]:.3g}")}) for n in np.flatnonzero(~np.isnan(times)).tolist()]


def _calls(view: EvaluationView, price: Pricing) -> Iterator[tuple[str, list[tuple[int, Step]]]]:
    called: dict[str, Sequence[Any]] = {f"{JUDGE}{name}": some for name, some in view.judgements.items()}
    called |= {"query": view.queries} if view.queries else {}
    called |= {"generate": view.answers.answers} if view.answers else {}
    for name, some in called.items():
        known = ((n, {**_usage(one.usage, price(one.model, one.usage)), **_texts(one)}) for n, one in enumerate(some))
        yield name, [(n, step) for n, step in known if step]


def _usage(usage: Usage, money: float) -> Step:
    if not usage.calls:
        return {}
    tokens = {"tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out}
    return tokens if math.isnan(money) else {**tokens, "money": float(f"{money:.4g}")}


def _texts(one: Any) -> Step:
    return {name: text for name in ("model", "words") if (text := getattr(one, name, ""))}
