"""Targets: pass/fail thresholds, bands, and suggested actions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Result, Summary, TargetResult

PASS, FAIL, WARN, NOT_JUDGED = "pass", "fail", "warn", "not judged"
ENFORCE = "enforce"
"""A key in the config group ``targets``; if its value is true, a missed target sets the exit status."""


class TargetRule(Protocol):
    """A target: a rule that evaluates one metric."""

    def evaluate(self, summary: Summary) -> TargetResult:
        """Evaluate a measured metric."""


@dataclass(eq=False)
class Target:
    """Evaluate a metric by a threshold and bands; the metric's direction determines which side passes.

    Args:
        threshold: The worst passing value. Bands do not affect whether a value passes.
        good: Value from which the band is "good"; None: the threshold.
        fair: Value from which the band is "fair"; None: the threshold.
        warn: Warn instead of failing.
        action: Suggested action below the best band.
        bands: Name of each band -> the value from which it applies, in place of good and fair.
        below: Name of the band of values that reach no other band.
        ideal: The value to aim at; reports say whether it is reached, and nothing else depends on it.
        improvement, ideal_improvement: The minimal and the ideal lead of a config over its baseline, in the metric's
        unit; ``ragsweep compare --report`` tests both.
    """

    threshold: float
    good: float | None = None
    fair: float | None = None
    warn: bool = False
    action: str = ""
    bands: Mapping[str, float] | None = None
    below: str = "poor"
    ideal: float | None = None
    improvement: float | None = None
    ideal_improvement: float | None = None

    def check(self) -> None:
        """Raise ConfigError for a number that is not finite, and for a band whose value is not a finite number."""
        for key in ("threshold", "good", "fair", "ideal", "improvement", "ideal_improvement"):
            if not math.isfinite(getattr(self, key) or 0):
                raise ConfigError(f"{key} must be a finite number, got {getattr(self, key)}")
        for name, limit in (self.bands or {}).items():
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not math.isfinite(limit):
                raise ConfigError(f"bands: {name} must be the finite number from which the band applies, got {limit!r}")

    def evaluate(self, summary: Summary) -> TargetResult:
        """Evaluate a metric.

        The result is ``sure`` if every known end of the metric's 95 % interval passes or fails as its value does.
        """
        sign = -1.0 if summary.higher_is_better is False else 1.0

        def reaches(limit: float, value: float = summary.value) -> bool:
            return sign * value >= sign * limit

        good, fair = (self.threshold if limit is None else limit for limit in (self.good, self.fair))
        bands = {"good": good, "fair": fair} if self.bands is None else self.bands
        ordered = sorted(bands, key=lambda name: -sign * bands[name])
        band = next((name for name in ordered if reaches(bands[name])), self.below)
        passed = reaches(self.threshold)
        ends = [end for end in (summary.low, summary.high) if not math.isnan(end)]
        sure = all(reaches(self.threshold, end) == passed for end in ends)
        verdict = PASS if passed else WARN if self.warn else FAIL
        action = "" if band in ordered[:1] else self.action
        ideal_met = None if self.ideal is None else reaches(self.ideal)
        return TargetResult(
            summary.name, verdict, summary.value, self.threshold, band, sure, action, self.ideal, ideal_met
        )


@dataclass(eq=False)
class Drop:
    """Warn if a metric gets too much worse than a reference, such as a value observed in production.

    Worse means lower, or higher for a metric where lower is better.

    Args:
        share: The permitted change for the worse as a proportion of the reference, above 0 and below 1.
        reference: The value to compare with; None: no evaluation.
        action: Suggested action after a larger change for the worse.
    """

    share: float
    reference: float | None = None
    action: str = ""

    def check(self) -> None:
        """Raise ConfigError for a share out of range, and for a reference that is not finite."""
        if not 0 < self.share < 1:
            raise ConfigError(f"share must be above 0 and below 1, got {self.share:g}")
        if not math.isfinite(self.reference or 0):
            raise ConfigError(f"reference must be a finite number or null, got {self.reference}")

    def evaluate(self, summary: Summary) -> TargetResult:
        """Warn if the metric is beyond the worst permitted value, else pass; without a reference: "not judged"."""
        if self.reference is None:
            return TargetResult(summary.name, NOT_JUDGED, summary.value, action="it has no reference")
        change = self.share * abs(self.reference)
        worst = self.reference + (change if summary.higher_is_better is False else -change)
        return Target(worst, warn=True, action=self.action).evaluate(summary)


def evaluate_targets(targets: Mapping[str, TargetRule], summaries: Mapping[str, Summary]) -> tuple[TargetResult, ...]:
    """Evaluate every metric that has a target; a metric that is missing from ``summaries`` or NaN is "not judged"."""
    results = []
    for name, target in targets.items():
        if name not in summaries:
            results.append(TargetResult(name, NOT_JUDGED, action="this config does not measure it"))
        elif math.isnan(summaries[name].value):
            results.append(TargetResult(name, NOT_JUDGED, action="it could not be measured"))
        else:
            results.append(target.evaluate(summaries[name]))
    return tuple(results)


def misses_target(result: Result) -> bool:
    """Return whether a config misses an enforced target; a warning does not count."""
    enforced = (result.run.config.get("targets") or {}).get(ENFORCE)
    return bool(enforced) and any(target.verdict == FAIL for target in result.summaries.targets)


def count_ideals(results: Sequence[TargetResult]) -> tuple[int, int]:
    """Return the number of ideals that are reached, and the number that were evaluated."""
    reached = [result.ideal_met for result in results if result.ideal_met is not None]
    return sum(reached), len(reached)


def count_met(results: Sequence[TargetResult]) -> tuple[int, int]:
    """Return the number of targets that passed, and the number that were evaluated."""
    verdicts = [result.verdict for result in results if result.verdict != NOT_JUDGED]
    return verdicts.count(PASS), len(verdicts)
