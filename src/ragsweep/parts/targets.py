"""Evaluate metrics against targets: pass or fail, a band, and a suggested action."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Result, Summary, TargetResult

PASS, FAIL, WARN, NOT_JUDGED = "pass", "fail", "warn", "not judged"
ENFORCE = "enforce"
"""A key in the config group ``targets``; if its value is true, a failed target makes the exit status 1."""


class TargetRule(Protocol):
    """A rule that evaluates one metric."""

    def evaluate(self, summary: Summary) -> TargetResult:
        """Return the result for a metric whose value is not NaN."""


@dataclass(eq=False)
class Target:
    """A threshold and bands for the value of a metric.

    A value reaches a limit if it is at least the limit or, if lower values are better, at most the limit;
    rounding errors are tolerated.

    Args:
        threshold: The limit that a value must reach to pass, in any band.
        good: The limit of the band "good"; None: the threshold.
        fair: The limit of the band "fair"; None: the threshold.
        warn: Whether a value that does not pass counts as a warning instead of a failure.
        action: The action suggested for a value that is not in the best band.
        bands: Name of each band -> its limit, in place of ``good`` and ``fair``; a value is in the best band that it
            reaches.
        below: The name of the band for values that do not reach the limit of any band.
        ideal: A limit to aim for; reports show whether the value reaches it, and nothing else depends on it.
        improvement, ideal_improvement: The minimum and the ideal improvement of a config over its baseline, in the unit
            of the metric; ``ragsweep compare --report`` tests both.
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
        """Raise ConfigError if a setting or the limit of a band is not a finite number."""
        for key in ("threshold", "good", "fair", "ideal", "improvement", "ideal_improvement"):
            if not math.isfinite(getattr(self, key) or 0):
                raise ConfigError(f"{key} must be a finite number, got {getattr(self, key)}")
        for name, limit in (self.bands or {}).items():
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not math.isfinite(limit):
                raise ConfigError(f"bands.{name}, the limit of a band, must be a finite number, got {limit!r}")

    def evaluate(self, summary: Summary) -> TargetResult:
        """Return whether the value of a metric passes, its band, and the suggested action.

        The result is ``sure`` if both ends of the metric's 95 % interval are on the same side of the threshold as the
        value. Ends that are NaN are ignored, so that a result without an interval is sure.
        """
        sign = -1.0 if summary.higher_is_better is False else 1.0

        def reaches(limit: float, value: float = summary.value) -> bool:
            return sign * value >= sign * limit - 1e-9 * max(1, abs(limit))

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
    """A warning if a metric is much worse than a reference, such as a value observed in production.

    Worse means lower or, if lower values are better, higher.

    Args:
        share: The permitted deterioration as a proportion of the reference, above 0 and below 1.
        reference: The value to compare with; None: the metric is not evaluated.
        action: The action suggested if the deterioration is larger.
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
        """Return a warning if the metric is worse than permitted, else a pass; without a reference, "not judged"."""
        if self.reference is None:
            return TargetResult(summary.name, NOT_JUDGED, summary.value, action="it has no reference")
        change = self.share * abs(self.reference)
        worst = self.reference + (change if summary.higher_is_better is False else -change)
        return Target(worst, warn=True, action=self.action).evaluate(summary)


def evaluate_targets(targets: Mapping[str, TargetRule], summaries: Mapping[str, Summary]) -> tuple[TargetResult, ...]:
    """Return one result per target; a metric that is missing from ``summaries`` or NaN is "not judged".

    ``targets`` and ``summaries`` map the name of a metric to its target and its summary.
    """
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
    """Return whether a result fails a target and its config enforces the targets; warnings do not count."""
    enforced = (result.run.config.get("targets") or {}).get(ENFORCE)
    return bool(enforced) and any(target.verdict == FAIL for target in result.summaries.targets)


def count_ideals(results: Sequence[TargetResult]) -> tuple[int, int]:
    """Return the number of metrics that reach their ideal, and the number of metrics that have an ideal."""
    reached = [result.ideal_met for result in results if result.ideal_met is not None]
    return sum(reached), len(reached)


def count_met(results: Sequence[TargetResult]) -> tuple[int, int]:
    """Return the number of targets that passed, and the number of targets that were evaluated."""
    verdicts = [result.verdict for result in results if result.verdict != NOT_JUDGED]
    return verdicts.count(PASS), len(verdicts)
