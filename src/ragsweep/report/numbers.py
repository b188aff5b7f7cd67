"""Formats of displayed numbers: values, differences, intervals, p-values, durations, sizes."""

import math

from ragsweep.core.results import Summary
from ragsweep.stats.inference.matrix import ratio_of

NOT_MEASURED = "-"
SURE = 0.999
"""Probability above which a sentence gives only "more than 99.9 %", without the expected loss."""
ROUNDING = 1e-9
"""Size below which a difference between two means is only a rounding error."""


def cell(summary: Summary | None) -> str:
    """Format a value with its interval, if any: ``.61 [.53, .69]``, ``9.1 ms [8.7, 9.6]``; ``-`` without a value."""
    if summary is None or not math.isfinite(summary.value):
        return NOT_MEASURED
    unit = f" {summary.unit}" if summary.unit not in ("", "tokens") else ""
    value = f"{number(summary.value, summary.unit)}{unit}"
    if not (math.isfinite(summary.low) and math.isfinite(summary.high)):
        return value
    return f"{value} [{number(summary.low, summary.unit)}, {number(summary.high, summary.unit)}]"


def number(value: float, unit: str = "") -> str:
    """Format a number briefly.

    A share (at most 1, no unit) has two decimals and no leading zero; if it is rounded to zero, it has no sign. An
    amount is rounded to an integer or, below 10, to two significant digits. NaN is formatted as ``-``.
    """
    if math.isnan(value):
        return NOT_MEASURED
    if not unit and abs(value) <= 1:
        return f"{value:z.2f}".replace("0.", ".", 1)
    value += 0.0
    limits = ((10, ",.0f"), (1, ".1f"), (0.1, ".2f"), (0, ".2g"))
    return format(value, next(style for limit, style in limits if abs(value) >= limit))


def signed(value: float, unit: str = "") -> str:
    """Format a difference with its sign: ``+.045``, ``-12.3``; ``-`` for NaN and infinity."""
    if not math.isfinite(value):
        return NOT_MEASURED
    if abs(value) < ROUNDING:
        value = 0.0
    if not unit and abs(value) <= 1:
        return f"{value:+.{least_decimals(value, 3)}f}".replace("0.", ".", 1)
    limits = ((100, "+,.0f"), (1, "+,.1f"), (0.1, "+.2f"), (0, "+.2g"))
    return format(value, next(style for limit, style in limits if abs(value) >= limit))


def least_decimals(value: float, digits: int) -> int:
    """Return the smallest number of decimals, at least ``digits``, at which a value does not round to 0.

    If the value itself is only a rounding error (see ROUNDING), return ``digits``.
    """
    while value and abs(value) > ROUNDING and round(value, digits) == 0:
        digits += 1
    return digits


def amount(value: float, unit: str = "") -> str:
    """Format a value as `signed` does, but without a plus sign: ``.234``, ``745``."""
    return signed(value, unit).lstrip("+")


def with_interval(value: float, low: float, high: float, unit: str = "") -> str:
    """Format a difference, with its interval if the ends are finite: ``+.045 [-.010, +.100]``."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return signed(value, unit)
    return f"{signed(value, unit)} [{signed(low, unit)}, {signed(high, unit)}]"


def ratio_with_interval(logarithm: float, low: float, high: float) -> str:
    """Format a ratio with its interval, given as logarithms: ``x 1.30 [1.21, 1.40]``; ``-`` for NaN and infinity."""
    if not math.isfinite(logarithm):
        return NOT_MEASURED
    value, *ends = (f"{ratio_of(one):,.{2 if abs(one) >= 0.1 else 3}f}" for one in (logarithm, low, high))
    return f"x {value} [{', '.join(ends)}]" if math.isfinite(low) and math.isfinite(high) else f"x {value}"


def factor(ratio: float) -> str:
    """Format the ratio of two printed numbers with two significant digits: ``x 1.5``, ``x 940``."""
    return f"x {float(f'{ratio:.2g}'):,.15g}" if math.isfinite(ratio) else NOT_MEASURED


def change_with_interval(estimate: float, low: float, high: float, unit: str, ratios: bool) -> str:
    """Format a difference with its interval or, if ``ratios``, a ratio and its interval from their logarithms."""
    return ratio_with_interval(estimate, low, high) if ratios else with_interval(estimate, low, high, unit)


def chance(p: float) -> str:
    """Format a p-value: ``p .031``, ``p < .001``; ``p -`` for NaN and infinity."""
    if not math.isfinite(p):
        return f"p {NOT_MEASURED}"
    return "p < .001" if p < 0.0005 else f"p {p:.3f}".replace("0.", ".", 1)


def likelihood(probability: float) -> str:
    """Format the probability of a statement: ``71 %``, ``99.4 %``, ``more than 99.9 %``; ``-`` for NaN and infinity."""
    if not math.isfinite(probability):
        return NOT_MEASURED
    if probability > SURE:
        return "more than 99.9 %"
    return f"{100 * probability:.1f} %" if probability > 0.99 else f"{100 * probability:.0f} %"


def spelled(number: float) -> str:
    """Format a size, given in bytes: 412 B, 15.7 kB, 2.3 GB; ``-`` for NaN and infinity."""
    if not math.isfinite(number):
        return NOT_MEASURED
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 99.95 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def duration(seconds: float) -> str:
    """Format a duration, given in seconds: 0.48 s, 12 s, 34 min, 5.2 h; ``-`` for NaN and infinity."""
    if not math.isfinite(seconds):
        return NOT_MEASURED
    if seconds < 9.95:
        return f"{seconds:.2f} s" if seconds < 0.995 else f"{seconds:.1f} s"
    if seconds < 180:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 180 * 60 else f"{seconds / 3600:.1f} h"


def ago(seconds: float) -> str:
    """Format an age, given in seconds, in its largest unit: 40 s, 3 min, 5 h, 12 d; ``-`` for NaN and infinity."""
    if not math.isfinite(seconds):
        return NOT_MEASURED
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:,.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def about(seconds: float | None) -> str:
    """Format an expected duration, given in seconds: ``about 34 min``; ``time unknown`` for None, NaN and infinity."""
    if seconds is None or not math.isfinite(seconds):
        return "time unknown"
    return "less than 1 s" if seconds < 1 else f"about {duration(round(seconds))}"
