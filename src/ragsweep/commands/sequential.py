"""The preconditions of ``ragsweep gate --sequential``, and the metric range required by its bets."""

import argparse
import math
from collections.abc import Sequence

from ragsweep.commands.labels import widest_bounds
from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Result
from ragsweep.golden.partition import ALL

LOST_POWER = (
    "--sequential is valid at any look but needs more questions: with 500 hit-or-miss questions, margin .05 and equal"
    " configs it passes in 51 % of cases, and a single-look gate in 90 %"
)


def check_sequential(options: argparse.Namespace) -> None:
    """Raise ConfigError for options of a gate that cannot be combined with ``--sequential``."""
    for condition in options.conditions:
        if condition.relative:
            fact = f"{condition} is a share of a mean, which changes between looks"
            raise ConfigError(f"--sequential: {fact}; use a margin in the metric's unit")
    if options.each:
        raise ConfigError("--sequential and --each: --each tests questions without sampling; use only one of them")
    if options.labels:
        fact = "labels are a sample, but bets need all questions"
        raise ConfigError(f"--sequential and --labels: {fact}; use only one of them")
    if options.questions is not None:
        fact = "all questions of an earlier look must be kept, which a list does not ensure"
        raise ConfigError(f"--sequential and --questions: {fact}; use only one of them")


def metric_range(results: Sequence[Result], metric: str) -> float:
    """Return the width of a metric's range, by the definitions in the results' configs.

    Raises ConfigError for a metric without bounds, and for a result on questions that change as the set grows.
    """
    for result in results:
        if result.run.dataset.partition != ALL or (result.run.config.get("dataset") or {}).get("limit"):
            fact = f"{result.name} was measured on a part of the golden set, which changes as the set grows"
            raise ConfigError(f"--sequential: {fact}; rerun it with partition=all and without dataset.limit")
    try:
        lowest, highest = widest_bounds(results, metric)
    except ConfigError as fault:
        raise ConfigError(f"--sequential: {fault}; gate it without --sequential") from None
    if not math.isfinite(highest - lowest):
        raise ConfigError(f"--sequential: {metric} has no bounds, which the bets require; gate it without --sequential")
    return highest - lowest
