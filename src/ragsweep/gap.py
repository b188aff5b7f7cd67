"""How much a config that was chosen on the tune questions loses on the holdout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragsweep.results import Result, Summary


class Gap(NamedTuple):
    """The best on the tune questions, and what it does on the holdout; in the metric's unit and direction.

    ``change`` is holdout less tune, ``low`` to ``high`` its 95 % interval: other questions, so nothing is paired.
    """

    config: str
    metric: str
    tune: float
    holdout: float
    change: float
    low: float
    high: float


def holdout_gap(results: Sequence[Result], tuned: Sequence[Result], metric: str) -> Gap | None:
    """Compare the best of the tune questions with itself on the holdout; None where it was not measured on both.

    Args:
        results: Configs on the holdout.
        tuned: Configs on the tune questions; the same config has the same parameters but ``partition``. Only those are
            looked at that were measured on the holdout: which of them a search would have sent there.
        metric: What "best" means.
    """
    known = {_identity(one): one for one in tuned if _usable(one, metric)}
    pairs = [(known[_identity(one)], one) for one in results if _usable(one, metric) and _identity(one) in known]
    if not pairs:
        return None
    sign = -1.0 if results[0].summaries[metric].higher_is_better is False else 1.0
    before, after = max(pairs, key=lambda pair: sign * pair[0].summaries[metric].value)
    first, second = before.summaries[metric], after.summaries[metric]
    change, half = second.value - first.value, math.hypot(_half(first), _half(second))
    return Gap(after.name, metric, first.value, second.value, change, change - half, change + half)


def _identity(result: Result) -> frozenset[tuple[str, str]]:
    parameters: Mapping[str, str] = result.parameters
    return frozenset((name, value) for name, value in parameters.items() if name != "partition")


def _usable(result: Result, metric: str) -> bool:
    return metric in result.summaries and math.isfinite(result.summaries[metric].value)


def _half(summary: Summary) -> float:
    return (summary.high - summary.low) / 2
