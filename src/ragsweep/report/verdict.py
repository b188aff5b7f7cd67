"""Sentences on the limits of a sweep's comparison, and the formats of its scores and differences."""

import math
from collections.abc import Iterator

import numpy as np

from ragsweep.core.data import describe_weights
from ragsweep.core.missing import NO_DISTRACTORS, NO_KEYWORDS, NO_REFERENCE, NO_SECTION
from ragsweep.core.plurals import counted
from ragsweep.report.document import Statement
from ragsweep.report.naming import short
from ragsweep.report.numbers import ROUNDING, least_decimals, number, ratio_with_interval
from ragsweep.stats.comparison import ExcludedConfig, SweepComparison, best_first, plain_lead, plain_size
from ragsweep.stats.inference.estimates import TOO_SHORT, Differences, Slice
from ragsweep.stats.verdict import EQUAL, PairVerdict

MOST_NAMED = 3
MOST_SLICES = 2

LACKING = frozenset({NO_REFERENCE, NO_KEYWORDS, NO_DISTRACTORS, NO_SECTION})
"""Reasons for a missing score: the question lacks a field other than evidence."""


def limits(verdict: SweepComparison, searched: SweepComparison | None = None) -> Iterator[Statement]:
    """Yield sentences on corrections by human labels, and on the limits of the comparison in ``verdict``.

    If ``verdict`` compares only the finalists of a search, ``searched`` is the comparison of all its configs.
    """
    yield from labelled(verdict)
    yield from detectable(verdict)
    yield from luck(verdict)
    yield from variance(verdict)
    yield from slices(verdict, "" if searched else " in verdict/slices.csv")
    yield from rest(verdict, searched)


# --- sentences ---------------------------------------------------------------------------------------------------


def labelled(verdict: SweepComparison) -> Iterator[Statement]:
    """Yield a sentence on each metric corrected by human labels, for the config with the largest change.

    For each labelled metric that could not be corrected, yield the reason.
    """
    for metric, found in verdict.corrections.items():
        matrix, corrected = verdict.others.get(metric, (verdict.matrix, verdict.differences))
        moved = np.where(np.isnan(corrected.low), -1, np.abs(corrected.estimate - found.judged.estimate))
        moved[verdict.reference] = -2
        row = int(moved.argmax())
        unit = verdict.results[row].summaries.metrics[metric].unit
        judged, now = (_change(one, row, unit) for one in (found.judged, corrected))
        means = (_score(float(mean), unit) for mean in (matrix.values[row].mean(), found.means[row]))
        note = f"; {found.note}" if found.note else ""
        text = (
            f"{metric} of {short(matrix.configs[row])}, {' as judged, becomes '.join(means)} with at least"
            f" {found.labels} labels per config; its difference from {name(verdict, verdict.reference)}, {judged},"
            f" becomes {now}{note}."
        )
        yield Statement("", text, {"metric": metric, "labels": found.labels, "mean": float(found.means[row])})
    for metric, why in verdict.uncorrected.items():
        yield Statement("", f"{metric} is as judged, not corrected by labels: {why}.", {"metric": metric})


def luck(verdict: SweepComparison) -> Iterator[Statement]:
    """Yield a sentence on the estimated bias of the best mean: a lower bound if the questions guided a search.

    The sentence states an average over golden sets and no expectation from this one. If the best means are close, the
    estimate from one golden set may exceed their distances, so that the best config would be expected below the others.
    Yield nothing if the bias is unknown or too small to show.
    """
    bias = verdict.selection_bias
    best, value = (score(verdict, one, True) for one in (float(verdict.means[bias.winner]), bias.crossfitted))
    if bias.optimism > ROUNDING and value != best:  # false for NaN
        lucky = score(verdict, bias.optimism, fine=True)
        higher, means, configs = verdict.matrix.higher_is_better, verdict.means, len(verdict.matrix.configs)
        most, end = ("highest", "high") if higher else ("lowest", "low")
        text = f"The {most} of {configs} means is {best}."
        if score(verdict, float(means.max() if higher else means.min()), fine=True) != best:  # ratios are compared
            most = "best"
            text = f"The mean of {name(verdict, bias.winner)}, the best of {configs} configs, is {best}."
        amount, why = f"about {lucky}", f"it is chosen as the {most}"
        if verdict.adaptive:
            amount, why = f"at least {lucky}", "the same questions also guide the search"
        text += f" Over golden sets like this one, such a mean is too {end} by {amount} on average, because {why}."
        yield Statement("", text, {"optimism": bias.optimism, "expected": bias.crossfitted})


def detectable(verdict: SweepComparison) -> Iterator[Statement]:
    """Yield a sentence on the smallest difference that is detected with 80 % power; nothing if the power is unknown.

    If 0 is the lowest score of a metric without a unit, the questions with a score of 0 in every config are counted.
    """
    power, configs = verdict.power, len(verdict.matrix.configs)
    if power.note:
        return
    least, alone = ("" if math.isnan(value) else size(verdict, value) for value in (power.typical, power.alone))
    clusters = f" in {power.clusters:,} clusters (by document)" if power.clusters < power.questions else ""
    between = f", and one of {alone} between two" if alone else ""
    among = f" among {configs:,} configs{between}" if configs > 2 else ""
    what = f"a true difference of {least}" if least else "no simulated difference"
    smaller = f" Smaller ones{_undetected(verdict)} are often missed." if least or alone else ""
    matrix, zeros = verdict.matrix, int((verdict.matrix.values == 0).all(axis=0).sum())
    has_floor = matrix.higher_is_better and not verdict.unit and matrix.values.min() == 0
    scores = f" ({zeros:,} score{'s' * (zeros == 1)} 0 in every config)" if has_floor and zeros else ""
    text = f"With {power.questions:,} questions{scores}{clusters}, {what} is detected with 80 % power{among}.{smaller}"
    yield Statement("", text, {"detectable": plain_size(verdict, power.typical), "questions": power.questions})


def _undetected(verdict: SweepComparison) -> str:
    """Return a phrase if the measured gain over the runner-up is not shown and is too small to detect, else ""."""
    choice, power = verdict.choice, verdict.power
    if choice.row is None or choice.runner_up is None or not verdict.may_be_best[choice.runner_up.row]:
        return ""
    if verdict.differences.by_labels:  # labels correct the means, but not the detectable differences
        return ""
    gain, other = float(verdict.ranked[choice.row] - verdict.ranked[choice.runner_up.row]), choice.runner_up.row
    is_smaller = ROUNDING < gain < np.nanmin([power.typical, power.alone])
    return f", such as the measured gain of {lead(verdict, gain)} over {name(verdict, other)}," if is_smaller else ""


def variance(verdict: SweepComparison) -> Iterator[Statement]:
    """Yield a sentence on the sources of variance in the difference between the reference and the best other config.

    Yield nothing if neither answers nor judgements are repeated.
    """
    rows = best_first(verdict, verdict.variance)
    if rows:
        shares, pair = verdict.variance[rows[0]], f"{name(verdict, rows[0])} against {name(verdict, verdict.reference)}"
        yield Statement("", f"{pair}: {shares}.", vars(shares))


def slices(verdict: SweepComparison, file: str = "") -> Iterator[Statement]:
    """Yield sentences on up to `MOST_SLICES` reversals, those of the choice first.

    A reversal is a slice in which a config that is better than the reference on average is, or may be, worse. ``file``
    is a phrase that names the file with all reversals, or "".
    """
    first = {verdict.choice.row: 0, verdict.selection_bias.winner: 1}
    found = sorted(verdict.reversals, key=lambda one: first.get(one.config, 2))
    for n, one in enumerate(found[:MOST_SLICES]):
        part = next(part for part in verdict.slices if (part.label, part.value) == (one.label, one.value))
        place = verdict.sliced.index(one.config)
        by = _change(part, place, verdict.unit, verdict.differences.ratios)
        what = one.value if one.label == "category" else f"{one.label}={one.value}"
        few = ", a small slice" if one.small else ""
        doubt = f" ({TOO_SHORT}, so this is not shown)" if one.exposed else ""
        worse = "perhaps worse" if doubt else "worse"
        more = f"; {len(found) - n - 1} more{file}" if n == MOST_SLICES - 1 < len(found) - 1 else ""
        where = f"{name(verdict, one.config)} is better on average, {worse} on {what}"
        ends = {key: float(getattr(part, key)[place]) for key in ("estimate", "low", "high")}
        yield Statement(
            "",
            f"{where}: {by}{doubt} ({counted(part.questions, 'question')}{few}){more}.",
            {"label": one.label, "value": one.value, **ends},
        )


def rest(verdict: SweepComparison, searched: SweepComparison | None = None) -> Iterator[Statement]:
    """Yield a sentence on weights, declined answers, and questions and configs that were not compared, if any.

    The configs include those that ``searched`` leaves out, and a declared baseline that is not a finalist.
    """
    parts, questions, scored = list[str](), len(verdict.matrix.questions), verdict.matrix.asked
    left_out = [*verdict.left_out, *(searched.left_out if searched else ())]
    if searched and searched.baseline is not None and verdict.baseline is None:
        left_out.append(ExcludedConfig(searched.matrix.configs[searched.baseline], "that is not a finalist"))
    if verdict.matrix.weights is not None:
        parts.append(describe_weights(verdict.matrix.weights.tolist()))
    if note := verdict.matrix.declined_note:
        parts.append(note)
    parts += _inapplicable(verdict)
    if questions < scored:
        parts.append(f"{questions:,} of {scored:,} scored questions, those with a score in every config")
    whys: dict[str, list[str]] = {}
    for config in left_out:
        mark = ", the baseline" if config.name == verdict.declared else ""
        whys.setdefault(config.why + mark, []).append(short(config.name))
    for why, names in whys.items():
        count, named = len(names), names[:MOST_NAMED]
        parts.append(f"without {count} {why} ({', '.join(named)}{', ...' if count > len(named) else ''})")
    if parts:
        data = {"questions": questions, "scored": scored, "left_out": len(left_out)}
        yield Statement("", f"Compared: {'; '.join(parts)}.", data)


def _inapplicable(verdict: SweepComparison) -> Iterator[str]:
    """Yield, for each reason in `LACKING` that occurs, a phrase on the number of questions to which the metric applies.

    Questions without evidence are counted in the heading of the table instead.
    """
    summary = verdict.results[verdict.reference].summaries.metrics[verdict.metric]
    for why in sorted(LACKING & summary.reasons.keys()):
        applies = f"{summary.n_total - summary.n_skipped:,} of {summary.n_total:,}"
        yield f"{summary.name} applies to {applies} questions ({summary.reasons[why]:,}: {why})"


# --- wording and numbers -------------------------------------------------------------------------------------------


def name(verdict: SweepComparison, row: int) -> str:
    """Return the short name of the config in a row of the comparison."""
    return short(verdict.matrix.configs[row])


def change(verdict: SweepComparison, row: int) -> str:
    """Format a config's value minus the reference's, with its interval; a lower value is negative, even if better.

    If ratios are compared, the ratio to the reference is formatted instead.
    """
    return _change(verdict.differences, row, verdict.unit, verdict.differences.ratios)


def _change(found: Differences | Slice, row: int, unit: str, ratios: bool = False) -> str:
    """Format a difference with its interval or, if ``ratios``, a ratio from its logarithm."""
    estimate, low, high = found.interval(row)
    if ratios:
        return ratio_with_interval(estimate, low, high)
    fine = not high - low >= 0.1
    value = f"{'+' if estimate > 0 else ''}{_score(estimate, unit, fine)}"
    ends = (_score(end, unit, fine, bare=True) for end in (low, high))
    return value if math.isnan(low) else f"{value} [{', '.join(ends)}]"


def size(verdict: SweepComparison, value: float) -> str:
    """Format a difference in the unit of the comparison or, for ratios, as a percentage change."""
    return distance(value, verdict.unit, verdict.differences.ratios)


def lead(verdict: SweepComparison, value: float) -> str:
    """Format a lead in the comparison's unit or, for ratios, as a percentage of the rival's value."""
    return _share(plain_lead(verdict, value)) if verdict.differences.ratios else size(verdict, value)


def deficit(verdict: SweepComparison, value: float) -> str:
    """Format a deficit, given as a positive number, as `lead` formats a lead."""
    return _share(-plain_lead(verdict, -value)) if verdict.differences.ratios else size(verdict, value)


def distance(value: float, unit: str, ratios: bool) -> str:
    """Format a difference in its unit or, if ``ratios``, the logarithm of a ratio as a percentage change."""
    return _share(math.expm1(value)) if ratios else _score(value, unit, fine=True)


def _share(value: float) -> str:
    return f"{number(100 * value, '%')} %"


def score(verdict: SweepComparison, value: float, fine: bool = False) -> str:
    """Format a value of the metric.

    A share has two decimals, or three if ``fine``, and more if it would otherwise be rounded to 0. Any other value is
    followed by its unit.
    """
    return _score(value, verdict.unit, fine)


def _score(value: float, unit: str, fine: bool = False, bare: bool = False) -> str:
    if unit or abs(value) > 1:
        sign = "-" if value < 0 else ""
        return f"{sign}{number(abs(value), unit or '-')}{'' if bare or not unit else ' ' + unit}"
    if abs(value) >= 1:
        return f"{value:.2f}"
    text = f"{value:.{least_decimals(value, 3 if fine else 2)}f}".replace("0.", ".", 1)
    return text.removeprefix("-") if not float(text) else text


def verdict_word(verdict: SweepComparison, row: int) -> str:
    """Return the verdict on the config in a row of the comparison, in a few words."""
    return pair_words(verdict.verdicts[row], verdict.unit, verdict.differences.ratios)


def pair_words(found: PairVerdict, unit: str, ratios: bool) -> str:
    """Return a verdict in a few words; ``unit`` and ``ratios`` describe the differences."""
    return f"equal within {distance(found.within, unit, ratios)}" if found.kind == EQUAL else found.kind
