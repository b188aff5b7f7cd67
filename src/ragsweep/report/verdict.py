"""The verdict in a few lines: what the scores of a sweep show, and what they cannot show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from ragsweep.golden.golden_set import weighted_by_traffic
from ragsweep.golden.partition import HOLDOUT
from ragsweep.report.naming import ranges, short
from ragsweep.report.numbers import ROUNDING, number, ratio_with_interval, signed, telling
from ragsweep.stats.comparison import NoComparison, SweepComparison
from ragsweep.stats.holdout_gap import Gap
from ragsweep.stats.inference.differences import TOO_SHORT, UNSEEN, Differences
from ragsweep.stats.inference.power import GUARDED

MOST_NAMED = 3
LONGEST_LIST = 80
"""Characters of names in a list, beyond which only the numbers of configs are given."""
MOST_SLICES = 2
SHORT_LIST = 10
"""Configs that may be evaluated on the holdout without a remark: to choose among more is to search there."""

Lines = Iterator[tuple[str, str]]


def verdict_lines(verdict: SweepComparison | NoComparison) -> Iterator[str]:
    """Yield the comparison with the baseline and what limits it, as sentences."""
    if isinstance(verdict, NoComparison):
        yield f"{verdict.why}."
        return
    yield f"{against_baseline(verdict)}."
    yield from best(verdict)
    yield from limits(verdict)


def limits(verdict: SweepComparison) -> Iterator[str]:
    """Yield what people's labels corrected, and what the comparison cannot show, as sentences."""
    yield from labelled(verdict)
    yield from detectable(verdict)
    yield from luck(verdict)
    yield from variance(verdict)
    yield from slices(verdict)
    yield from rest(verdict)


def holdout_use(views: int, configs: int = 1) -> Iterator[str]:
    """Describe how often the holdout was used; nothing where it was not."""
    if views:
        times = {1: "once", 2: "twice"}.get(views, f"{views} times")
        many = f" {configs:,} configs are no short list: choose among them on tune." if configs > SHORT_LIST else ""
        yield f"The holdout was used {times}; each use that leads to a choice makes the next one worth less.{many}"


def gap_line(gap: Gap | None) -> Lines:
    """Describe how much of the best tune config's lead remains on the holdout; nothing where unknown."""
    if gap is not None:
        change = f"{signed(gap.change)} [{signed(gap.low)}, {signed(gap.high)}]"
        config, over = (short(one.removesuffix(f" partition={HOLDOUT}")) for one in (gap.config, gap.over))
        leads = f"{signed(gap.tune)} over {over} there and leads by {signed(gap.holdout)} here"
        yield "", f"gap: {config}, the best on the tune questions, led by {leads}, a change of {change}"


# --- sentences ---------------------------------------------------------------------------------------------------


def against_baseline(verdict: SweepComparison) -> str:
    """Describe which configs are better than the first, and by how much, with simultaneous intervals."""
    found, others = verdict.differences, len(verdict.matrix.configs) - 1
    base = f"{name(verdict, 0)} (the first {'that is compared' if verdict.left_out else 'config'})"
    if not found.apart.any():
        they = "both configs have" if others == 1 else f"all {others + 1} configs have"
        return f"{_metric(verdict)}: {they} the same score on every question"
    if math.isnan(found.critical):
        return f"{_metric(verdict)}: no conclusion, there are {found.notes[1 - found.baseline]}"
    better, worse = (_ordered(verdict, mask) for mask in (found.better, verdict.worse))
    exposed = f"; {UNSEEN}" if found.exposed.any() and not better else ""
    if others == 1:
        word = "is better than" if better else "is worse than" if worse else "cannot be told from"
        return f"{_metric(verdict)}: {name(verdict, 1)} {word} {base}: {change(verdict, 1)}{exposed}"
    if not better:
        fewer = f"; {len(worse)} are worse" if worse else ""
        return f"{_metric(verdict)}: none of the {others} others is shown to be better than {base}{fewer}{exposed}"
    listed = ", ".join(f"{name(verdict, row)} {change(verdict, row)}" for row in better[:MOST_NAMED])
    more = f" and {len(better) - MOST_NAMED} more" if len(better) > MOST_NAMED else ""
    fewer = f"; worse: {len(worse)}" if worse else ""
    return f"{_metric(verdict)}: better than {base}: {listed}{more}, of {others} others{fewer}"


def labelled(verdict: SweepComparison) -> Iterator[str]:
    """Describe what people's labels changed, metric by metric: mean and difference of the config they change most."""
    for metric, found in verdict.corrections.items():
        matrix, corrected = verdict.others.get(metric, (verdict.matrix, verdict.differences))
        moved = np.where(np.isnan(corrected.low), -1, np.abs(corrected.estimate - found.judged.estimate))
        row = 1 + int(moved[1:].argmax())
        judged, now = (_change(verdict, *_ends(one, row), matrix.higher_is_better) for one in (found.judged, corrected))
        means = (score(verdict, float(mean)) for mean in (matrix.values[row].mean(), found.means[row]))
        note = f"; {found.note}" if found.note else ""
        yield (
            f"{metric} of {short(matrix.configs[row])}, {' as judged, becomes '.join(means)} by {found.labels} labels a"
            f" config; its difference from {name(verdict, 0)}, {judged}, becomes {now}{note}."
        )
    yield from (
        f"{metric} is as judged, not corrected by labels: {why}." for metric, why in verdict.uncorrected.items()
    )


def best(verdict: SweepComparison) -> Iterator[str]:
    """Describe which configs may be the best."""
    configs = len(verdict.matrix.configs)
    if math.isnan(verdict.differences.critical) or not verdict.differences.apart.any():
        return
    top = verdict.selection_bias.winner
    value = f"{name(verdict, top)} ({score(verdict, float(verdict.means[top]))})"
    members = [row for row in _ordered(verdict, verdict.may_be_best) if row != top]
    if len(members) == configs - 1 and configs > 2:
        yield f"Any of the {configs} configs may be the best; the highest is {value}."
        return
    if members:
        yield f"The highest is {value}; it cannot be told from {_others(verdict, members, top)}."
    else:
        yield f"The best is {value}: every other config is worse, beyond chance."
    if verdict.losses_unseen:
        yield "Rare losses may be unseen: those left out may be as good."


def luck(verdict: SweepComparison) -> Iterator[str]:
    """Describe the selection bias of the best config's lead; a lower bound where the scores also chose the configs."""
    bias = verdict.selection_bias
    highest, value = (score(verdict, one, True) for one in (float(verdict.means[bias.winner]), bias.crossfitted))
    if bias.optimism > ROUNDING and value != highest:  # which NaN is not
        lucky = score(verdict, bias.optimism, fine=True)
        text = f"The highest of {len(verdict.matrix.configs)} means is {highest}, too high by"
        if verdict.adaptive:
            yield f"{text} {lucky} at least: the same questions chose which settings were tried."
        else:
            yield f"{text} about {lucky}, because it was chosen as the highest; expect {value} on new questions."


def detectable(verdict: SweepComparison) -> Iterator[str]:
    """Describe the smallest difference that these questions can show."""
    power, configs = verdict.power, len(verdict.matrix.configs)
    if math.isnan(power.typical):
        if power.note == GUARDED:
            yield f"{power.note[0].upper()}{power.note[1:]}."
        return
    least, alone = (size(verdict, value) for value in (power.typical, power.alone))
    clusters = f" in {power.clusters:,} clusters" if power.clusters < power.questions else ""
    among = f" among {configs:,} configs, and one of {alone} between two" if configs > 2 else ""
    yield (
        f"With {power.questions:,} questions{clusters} a true difference of {least} is detected with 80 % power{among}."
        " Smaller ones are often missed."
    )


def variance(verdict: SweepComparison) -> Iterator[str]:
    """Describe where the variance of the best other config's difference comes from, if answers are repeated."""
    rows = [row for row in _ordered(verdict, np.ones(len(verdict.matrix.configs), dtype=bool)) if row]
    if found := next((row for row in rows if row in verdict.variance), None):
        yield f"{name(verdict, found)} against {name(verdict, 0)}: {verdict.variance[found]}."


def slices(verdict: SweepComparison) -> Iterator[str]:
    """Name the configs that are better on average and worse somewhere; those that matter most first."""
    first = {verdict.recommendation.config: 0, verdict.selection_bias.winner: 1}
    found = sorted(verdict.reversals, key=lambda one: first.get(one.config, 2))
    for n, one in enumerate(found[:MOST_SLICES]):
        part = next(part for part in verdict.slices if (part.label, part.value) == (one.label, one.value))
        place = verdict.sliced.index(one.config)
        estimate, low, high = (float(numbers[place]) for numbers in (part.estimate, part.low, part.high))
        by = _change(verdict, estimate, low, high, verdict.matrix.higher_is_better)
        what = one.value if one.label == "category" else f"{one.label}={one.value}"
        few = ", a small slice" if one.small else ""
        doubt = f" ({TOO_SHORT}, so this is not shown)" if one.exposed else ""
        worse = "perhaps worse" if doubt else "worse"
        yield (
            f"{name(verdict, one.config)} is better on average, {worse} on {what}: {by}{doubt}"
            f" ({part.questions} questions{few})"
            + (f"; {len(found) - n - 1} more in verdict/slices.csv" if n == MOST_SLICES - 1 < len(found) - 1 else "")
            + "."
        )


def rest(verdict: SweepComparison) -> Iterator[str]:
    """Describe how questions were weighted, and what was not compared."""
    parts, questions, scored = list[str](), len(verdict.matrix.questions), verdict.matrix.asked
    if verdict.matrix.weights is not None:
        parts.append(weighted_by_traffic(verdict.matrix.weights.tolist()))
    if questions < scored:
        parts.append(f"{questions:,} of {scored:,} scored questions, those that every config was scored on")
    for why, count in Counter(config.why for config in verdict.left_out).items():
        named = [short(config.name) for config in verdict.left_out if config.why == why][:MOST_NAMED]
        parts.append(f"without {count} {why} ({', '.join(named)}{', ...' if count > len(named) else ''})")
    if verdict.objective in verdict.skipped:
        parts.append(f"not by {verdict.objective}: {verdict.skipped[verdict.objective]}")
    if parts:
        yield f"Compared: {'; '.join(parts)}."


# --- words and numbers -------------------------------------------------------------------------------------------


def name(verdict: SweepComparison, row: int) -> str:
    """Return a config's short name."""
    return short(verdict.matrix.configs[row])


def _metric(verdict: SweepComparison) -> str:
    return verdict.metric if verdict.matrix.higher_is_better else f"{verdict.metric} (less is better)"


def change(verdict: SweepComparison, row: int) -> str:
    """Write how much better a config is than the baseline (negative: worse), or the ratio of amounts, with interval."""
    found = verdict.differences
    return _change(verdict, *_ends(found, row), verdict.matrix.higher_is_better) + found.doubt(row)


def _ends(found: Differences, row: int) -> tuple[float, float, float]:
    return float(found.estimate[row]), float(found.low[row]), float(found.high[row])


def _change(verdict: SweepComparison, estimate: float, low: float, high: float, higher_is_better: bool) -> str:
    if not higher_is_better:
        estimate, low, high = -estimate, -high, -low
    return between(verdict, estimate, low, high)


def between(verdict: SweepComparison, estimate: float, low: float, high: float) -> str:
    """Write an improvement with its interval, positive where it is better; of amounts the ratio, in their direction."""
    if verdict.differences.ratios:
        ends = (low, high) if verdict.matrix.higher_is_better else (-high, -low)
        return ratio_with_interval(estimate if verdict.matrix.higher_is_better else -estimate, *ends)
    fine = not high - low >= 0.1
    sign = "+" if estimate > 0 else ""
    value = sign + score(verdict, estimate, fine)
    if math.isnan(low):
        return value
    return f"{value} [{score(verdict, low, fine, bare=True)}, {score(verdict, high, fine, bare=True)}]"


def size(verdict: SweepComparison, value: float) -> str:
    """Write the size of a difference; of amounts in per cent."""
    return f"{number(100 * math.expm1(value), '%')} %" if verdict.differences.ratios else score(verdict, value, True)


def score(verdict: SweepComparison, value: float, fine: bool = False, bare: bool = False) -> str:
    """Write a number of the metric: shares with two decimals, or three where they are small, and no leading zero."""
    if verdict.unit or abs(value) > 1:
        sign = "-" if value < 0 else ""
        return (
            f"{sign}{number(abs(value), verdict.unit or '-')}{'' if bare or not verdict.unit else ' ' + verdict.unit}"
        )
    if abs(value) >= 1:
        return f"{value:.2f}"
    text = f"{value:.{telling(value, 3 if fine else 2)}f}".replace("0.", ".", 1)
    return text.removeprefix("-") if not float(text) else text


def _ordered(verdict: SweepComparison, mask: np.ndarray) -> list[int]:
    """List the rows of a mask, the best mean first."""
    means = verdict.ranked
    return sorted(np.flatnonzero(mask).tolist(), key=lambda row: (-means[row], row))


def _others(verdict: SweepComparison, rows: Sequence[int], top: int) -> str:
    """Name all but the best, neighbouring values of a parameter as a range; the baseline first, if it is among them."""
    named = ranges(verdict.matrix.configs, [*sorted(rows, key=bool), top])  # a range may hold the best
    named = [text for text in named if text != name(verdict, top)]
    count = f"{len(rows)} others: " if len(rows) > 1 else ""
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    listed = ", ".join(named[:MOST_NAMED])
    if len(listed) > LONGEST_LIST:  # the table has their names
        listed = ", ".join(one.partition(" ")[0] if one.startswith("#") else one for one in named[:MOST_NAMED])
    return count + listed + more
