"""The preconditions of ``ragsweep gate --sequential``, and the range of a metric that its bets require."""

import argparse
import math
from collections.abc import Sequence

from ragsweep.commands.labels import metric_bounds
from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Result
from ragsweep.golden.partition import ALL

LOST_POWER = (
    "--sequential is valid at any look and takes more questions: with 500 hit-or-miss questions, margin .05 and equal"
    " configs it passes in 51 % of cases, a gate that looks once in 90 %"
)


def check_sequential(options: argparse.Namespace) -> None:
    """Raise ConfigError for options of a gate that are undefined for a suite that grows between looks."""
    for condition in options.conditions:
        if condition.relative:
            fact = f"{condition} is a share of a mean that differs from look to look"
            raise ConfigError(f"--sequential: {fact}; give a margin in the metric's unit")
    if options.each:
        raise ConfigError("--sequential and --each: --each tests questions without sampling; give one of the two")
    if options.labels:
        raise ConfigError("--sequential and --labels: bets need all questions, labels are a sample; give one of them")
    if options.questions is not None:
        fact = "all questions of an earlier look must stay, which a list does not ensure"
        raise ConfigError(f"--sequential and --questions: {fact}; give one of the two")


def metric_range(results: Sequence[Result], metric: str) -> float:
    """Return the width of a metric's range, by the definitions in the configs of some results.

    Raises ConfigError for a metric without bounds, and for a result on questions that change as the set grows.
    """
    for result in results:
        if result.run.dataset.partition != ALL or (result.run.config.get("dataset") or {}).get("limit"):
            fact = f"{result.name} was measured on a part of the golden set, whose questions change as the set grows"
            raise ConfigError(f"--sequential: {fact}; run it with partition=all and no dataset.limit")
    try:
        ends = [metric_bounds(result.run.config, metric) for result in results]
    except ConfigError as fault:
        raise ConfigError(f"--sequential: {fault}") from None
    lowest, highest = [low for low, _ in ends], [high for _, high in ends]
    spread = max(highest) - min(lowest)
    if not math.isfinite(spread):
        raise ConfigError(f"--sequential: {metric} has no bounds, on which its bets depend; gate it without it")
    return spread
