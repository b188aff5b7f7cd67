"""Measure how busy the machine was, and test whether latencies differ by more than the load explains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragsweep.core.results import Result

BUSY = 2.0
"""Minimum ``slowness`` of a machine that counts as busy (docs/measurements.md, "Latency")."""
DRIFT = 1.5
"""Factor by which ``latency_apart`` widens an interval, because processor speed varies (docs/measurements.md)."""
LEAST_MS = 1.0
"""Minimum difference in milliseconds; smaller differences are within the noise of measuring one config twice."""
CALLED = frozenset({"generate", "query"})
"""Stages that are never probed (timed separately): their latency is measured in the original calls."""


def slowness(result: Result) -> float:
    """Return the factor by which the machine was slower than an idle one while a config's latency was measured.

    Timed calls of a stage alternate with a fixed workload. The mean time of the workload is divided by its shortest
    time on similar machines. The result is the mean of this ratio over the stages, weighted by the stages' mean
    latencies; NaN if no stage was measured in this way.
    """
    stages = [stage for stage in result.summaries.latency.values() if "work_quiet_ms" in stage]
    total = sum(stage["mean_ms"] for stage in stages)
    if not total > 0:
        return math.nan
    return sum(stage["mean_ms"] * stage["work_mean_ms"] / stage["work_quiet_ms"] for stage in stages) / total


def busy_sentence(results: Sequence[Result], what: str) -> str:
    """Return a sentence on the ``slowness`` while ``what`` was measured; "" if no result reaches ``BUSY``.

    Up to three busy configs are named, by the first word of their names (``#3``); more are counted.
    """
    busy = [(found, one.name.partition(" ")[0]) for one in results if (found := slowness(one)) >= BUSY]
    if not busy:
        return ""
    named = ", ".join(name for _, name in busy) if len(busy) <= 3 else f"{len(busy)} of {len(results)} configs"
    which = f" of {named}" if len(results) > 1 else ""
    most = f"{'up to ' if len(busy) > 1 else ''}{max(busy)[0]:.1f} x slower than on an idle machine"
    return f"{what}{which} was measured while the machine was busy: {most}"


def latency_apart(first: Result, second: Result, name: str) -> bool:
    """Return whether two configs differ in the latency ``name`` by more than the varying speed of the machine explains.

    The configs' confidence intervals are widened by the factor ``DRIFT``, and the effect of the machine's load is
    removed from the lower end of the slower config's interval. The configs differ if the two adjusted intervals do not
    overlap. A difference below ``LEAST_MS`` does not count. Return False if either config lacks the interval.
    """
    faster, slower = sorted((first, second), key=lambda one: one.summaries.metrics[name].value)
    least, most = slower.summaries.metrics[name], faster.summaries.metrics[name]
    gap = least.value - most.value
    return bool(gap >= LEAST_MS and least.low * _quiet_share(slower.summaries.latency) / DRIFT > most.high * DRIFT)


def _quiet_share(latency: Mapping[str, Mapping[str, float]]) -> float:
    """Return a lower bound on the share of a config's latency that would remain on an idle machine.

    The bound is 0 if no stage has a latency. The effect of the load on a stage is estimated from the 95th percentile of
    the fixed work's time (see ``slowness``), as a factor or as a delay, whichever is larger. Stages in ``CALLED`` count
    in full. Any other stage without fixed work, as in results of earlier releases, contributes 0.
    """
    total = sum(stage["p95_ms"] for stage in latency.values())
    quiet = sum(stage["p95_ms"] if name in CALLED else _quiet_ms(stage) for name, stage in latency.items())
    return quiet / total if total > 0 else 0.0


def _quiet_ms(stage: Mapping[str, float]) -> float:
    if "work_quiet_ms" not in stage:
        return 0.0
    took, work, quiet = stage["p95_ms"], stage["work_p95_ms"], stage["work_quiet_ms"]
    return max(min(took, took * quiet / work, took - (work - quiet)), 0.0)
