"""What to ship: the cheapest config that cannot be told from the best, under the user's limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.errors import InputError, nearest
from ragsweep.inference.confidence_set import Kept

Doubles = NDArray[np.float64]

COSTS = ("cost_per_1000", "context_tokens", "latency_p95_ms")
"""What a config costs, and in which order it decides: money, else what money would be paid for, else time."""
WORDS = {"cost_per_1000": "money", "context_tokens": "context tokens", "latency_p95_ms": "latency"}


class Recommendation(NamedTuple):
    """The row of the config to ship, or None for "no winner"; ``why`` is a clause that ends a sentence."""

    config: int | None
    why: str


def recommend(kept: Kept, costs: Mapping[str, Doubles], constraints: Mapping[str, float | None]) -> Recommendation:
    """Choose the cheapest kept config within the limits.

    Args:
        kept: The configs that cannot be told from the best.
        costs: Name of a cost -> one number a config: "cost_per_1000" (money a thousand questions), "context_tokens",
            "latency_p95_ms". NaN where it is not known.
        constraints: Name of a cost -> what a config may cost at most; None for no limit. A config of which a limited
            cost is not known is not within the limit.

    Raises:
        InputError: A limit on something that is no known cost.
    """
    limits = {name: limit for name, limit in constraints.items() if limit is not None}
    for name in limits:
        if name not in COSTS:
            raise InputError(f'a limit on "{name}", which is no cost{nearest(name, COSTS)}')
    allowed = kept.mask.copy()
    for name, limit in limits.items():
        allowed &= _column(costs, name, len(allowed)) <= limit
    members = np.flatnonzero(allowed)
    if not len(members):
        return Recommendation(None, _nobody(kept, limits))
    if len(members) == 1:
        return Recommendation(int(members[0]), "the only one" + _among(kept, limits))
    return _cheapest(members, costs, _among(kept, limits))


def _column(costs: Mapping[str, Doubles], name: str, count: int) -> Doubles:
    return costs.get(name, np.full(count, math.nan))


def _cheapest(members: NDArray[np.int64], costs: Mapping[str, Doubles], among: str) -> Recommendation:
    """Take the first cost that is known of all members and not the same for all; the next ones break ties."""
    known = [name for name in COSTS if name in costs and not np.isnan(costs[name][members]).any()]
    apart = [name for name in known if np.ptp(costs[name][members]) > 0]
    if not apart:
        said = "they cost the same" if known else "what they cost is not known"
        return Recommendation(None, f"{len(members)} configs{among}, and {said}")
    order = np.lexsort([costs[name][members] for name in reversed(known)])
    return Recommendation(int(members[order[0]]), f"the cheapest by {WORDS[apart[0]]} of {len(members)}{among}")


def _among(kept: Kept, limits: Mapping[str, float]) -> str:
    whole = " that cannot be told apart" if kept.mask.all() else " that cannot be told from the best"
    return whole + (f", within {_said(limits)}" if limits else "")


def _nobody(kept: Kept, limits: Mapping[str, float]) -> str:
    return f"none of the {int(kept.mask.sum())} that cannot be told from the best is known to be within {_said(limits)}"


def _said(limits: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {limit:g}" for name, limit in limits.items())
