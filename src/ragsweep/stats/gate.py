"""The checks of a gate: each tests a condition on a metric over all questions, in a slice, or question by question."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.results import Result
from ragsweep.stats import comparable
from ragsweep.stats.human_labels import (
    RunLabels,
    check_corrected,
    correct_difference,
    correct_mean,
    match_labels,
    reason_uncorrected,
)
from ragsweep.stats.inference import noninferiority
from ragsweep.stats.inference.cluster_errors import FEW
from ragsweep.stats.inference.matrix import FilledCandidate, Matrix, score_matrix
from ragsweep.stats.inference.noninferiority import correct_gate
from ragsweep.stats.inference.power import estimate_power, questions_needed
from ragsweep.stats.inference.slices import SMALL
from ragsweep.stats.repetition import VarianceShares, variance_shares

MARGIN, GAIN, LEAST, MOST = "margin", "gain", "at least", "at most"

EACH = "each"
"""The label of a question-by-question check."""
_MOST_LISTED = 5
_ROUNDING = 1e-9
_ONE_SIDED = 0.90
"""Level of a two-sided interval whose ends are one-sided 95 % bounds."""


class Condition(NamedTuple):
    """A condition on one metric.

    The meaning of ``size`` depends on ``kind``. For "margin", it is how much worse the candidate may be, in the
    metric's unit or, if ``relative``, as a share of the baseline's mean. For "gain", it is how much better the
    candidate must be. For "at least" and "at most", it is a bound on the candidate's mean, and there is no baseline.
    """

    metric: str
    size: float
    kind: str = MARGIN
    relative: bool = False

    def __str__(self) -> str:
        """Format the condition as it is typed."""
        return f"{self.metric}={self.written_size}"

    @property
    def written_size(self) -> str:
        """The size as it is typed: ``0.02``, ``5%``, ``+0.1``."""
        return f"{self.size * 100:g}%" if self.relative else f"{'+' if self.kind == GAIN else ''}{self.size:.15g}"

    @property
    def paired(self) -> bool:
        """Whether the candidate is compared with a baseline."""
        return self.kind in (MARGIN, GAIN)


@dataclass(frozen=True)
class Check:
    """The check of one condition on all questions, in one slice, or question by question.

    ``needed``, for an inconclusive margin, is the number of questions with which equal configs would pass with a
    probability of .8. It is None for other checks, if the number is unknown or already reached, if the candidate lacks
    scores, or if the check is sequential or corrected by labels. ``needed_repetitions`` is the number of repetitions
    per answer that would narrow the interval equally without new questions. It is None if no number would, or if
    ``needed`` or ``variance`` is None. ``against`` names the baseline if there are several, else "". If human labels
    correct a judge, ``judged`` is the decision by the judge's scores alone, and ``labels`` is the smallest number of
    labels of any config. ``lost`` describes the questions that do not pass a question-by-question check.
    """

    condition: Condition
    unit: str
    label: str  # label of the slice; "" for all questions, ``EACH`` for a question-by-question check
    value: str
    found: noninferiority.Gate
    small: bool = False  # whether the questions are a slice of fewer than 20
    needed: int | None = None
    needed_repetitions: int | None = None
    against: str = ""
    variance: VarianceShares | None = None  # of the difference or the mean; None in a slice, or if nothing is repeated
    judged: noninferiority.Gate | None = None
    labels: int = 0
    lost: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The metric and, if there are several baselines, the one to which the check refers."""
        return f"{self.condition.metric} against the {self.against}" if self.against else self.condition.metric

    @property
    def counts(self) -> bool:
        """Whether the check counts towards the gate; on a small slice, a check counts only if it fails."""
        return not self.small or self.found.decision == "fail"


def check_same_coverage(before: Result, after: Result) -> None:
    """Raise InputError if ``coverage``, the required share of scored questions, differs between two configs."""
    first, second = (result.run.config.get("coverage") for result in (before, after))
    if first != second:
        raise InputError(
            f"rebaseline: coverage is {first} in {before.name} and {second} in {after.name}, so one config may"
            " have more questions without a score; run both with the same coverage"
        )


def check_direction(condition: Condition, result: Result) -> None:
    """Raise ConfigError for an upper bound where higher is better, and for a lower bound where lower is better."""
    higher = bool(result.summaries.metrics[condition.metric].higher_is_better)
    if not condition.paired and (condition.kind == MOST) == higher:
        option, better = ("--at-least", "higher") if higher else ("--at-most", "lower")
        raise ConfigError(f"{condition.metric}: {better} values are better; use {option} instead")


def check_reachable(condition: Condition, result: Result, bounds: tuple[float, float]) -> None:
    """Raise ConfigError for a margin that no loss exceeds, a gain that no score reaches, or a bound out of range.

    ``bounds`` are the lowest and the highest value of the metric. A margin that is a share of the baseline's mean is
    rejected only if it is 100 % or more, higher values are better, and no value is below 0.
    """
    low, high = bounds
    size, known = condition.written_size, f"{condition.metric} ranges from {low:g} to {high:g}"
    if condition.relative:
        if condition.size >= 1 and low >= 0 and result.summaries.metrics[condition.metric].higher_is_better:
            raise ConfigError(f"--margin: {known}; a percentage of the baseline's mean must be below 100%, got {size}")
    elif condition.kind == MARGIN and condition.size >= high - low:
        raise ConfigError(
            f"--margin: {known}; a margin must be smaller than the metric's range ({high - low:g}), got {size}"
        )
    elif condition.kind == GAIN and condition.size > high - low:
        raise ConfigError(
            f"--at-least: {known}; a gain must be at most the metric's range ({high - low:g}), got {size}"
        )
    elif not condition.paired and not low <= condition.size <= high:
        raise ConfigError(f"--{condition.kind.replace(' ', '-')}: {known}; a bound must be in this range, got {size}")


class Scope(NamedTuple):
    """The questions on which a condition is checked.

    These are the ``chosen`` questions, together and in the slices of ``labels``, or one by one if ``each`` is set.
    ``spread``, for ``noninferiority.sequential_gate``, is the metric's highest value minus its lowest; None for a gate
    that is not sequential. ``people`` has human labels that correct the metric on all chosen questions together, but
    not in slices.
    """

    chosen: Collection[str]
    labels: Sequence[str] = ()
    each: bool = False
    spread: float | None = None
    people: RunLabels | None = None


def run_checks(condition: Condition, before: Result, filled: FilledCandidate, scope: Scope) -> Iterator[Check]:
    """Check a condition on all chosen questions of the scope and in each slice, or question by question.

    Raises:
        InputError: Some config has no usable label for the metric, the run of a label matches both configs, or a
        test in ``noninferiority`` raises InputError, for example for a relative margin of a mean that is not above 0. A
        slice with such a mean is inconclusive instead.
    """
    unit = before.summaries.metrics[condition.metric].unit
    compared = [before, filled.result] if condition.paired else [filled.result]
    matrix = score_matrix(compared, condition.metric)
    matrix = matrix.select_questions(np.array([name in scope.chosen for name in matrix.questions], dtype=bool))
    missing = [name for name in filled.missing if name in scope.chosen]
    if scope.each:
        yield _check_each(matrix, condition, missing, before)
        return
    parts = [("", "", matrix, missing)]
    values = comparable.labels_of(before, matrix.questions)
    for label in scope.labels:
        for value in sorted(set(values[label]) - {""}):
            part = matrix.select_questions(np.array([one == value for one in values[label]]))
            parts.append((label, value, part, []))
    same = condition.kind == MARGIN and before.run.signature == filled.result.run.signature
    for label, value, part, lost in parts:
        found, labels, judged = _decide(condition, part, scope.spread, sliced=bool(label)), 0, None
        if scope.people and not label and not math.isnan(found.low):
            judged = found
            found, labels = _correct(judged, condition, part, compared, filled.worst, scope.people)
        equal = same and not lost and found.note in (noninferiority.SAME, FEW) and np.array_equal(*part.values)
        if equal:  # a config against itself cannot differ on other questions
            found = replace(found, decision="pass", note=noninferiority.SAME)
        elif lost and found.decision == "pass":
            found = replace(found, decision="inconclusive", note=f"not scored in the candidate: {list_first(lost)}")
        needed = None if scope.spread or judged or lost else _questions_needed(condition, part, found)
        shares = None if label else variance_shares(compared, part, _share_of_baseline(condition, part))
        repetitions = shares.repetitions_for(needed / len(part.questions)) if shares and needed else None
        small = bool(label) and len(part.questions) < SMALL
        numbers = (small, needed, repetitions)
        yield Check(condition, unit, label, value, found, *numbers, variance=shares, judged=judged, labels=labels)


def _decide(condition: Condition, matrix: Matrix, spread: float | None, *, sliced: bool) -> noninferiority.Gate:
    """Decide a condition by a test that is applied once or, with a ``spread``, by the sequential test.

    If the questions are a slice (``sliced``) whose mean allows no relative margin, the condition is inconclusive.
    """
    size = (-1 if condition.kind == GAIN else 1) * condition.size
    if not condition.paired:
        if spread is None:
            return noninferiority.reaches(matrix, size)
        return noninferiority.sequential_gate(noninferiority.beside_bound(matrix, size), 0.0, spread)
    if spread is not None:
        return noninferiority.sequential_gate(matrix, size, spread)
    try:
        return noninferiority.gate(matrix, size, relative=condition.relative)
    except InputError as fault:
        if not sliced:
            raise
        return noninferiority.undecided(matrix, math.nan, str(fault).removeprefix(f"{matrix.metric}: "))


def _correct(
    judged: noninferiority.Gate,
    condition: Condition,
    matrix: Matrix,
    results: Sequence[Result],
    worst: Sequence[str],
    people: RunLabels,
) -> tuple[noninferiority.Gate, int]:
    """Decide by the corrected mean or difference; return the gate, and the smallest number of labels of any config."""
    size = condition.size
    matched = match_labels(RunLabels(people.given, people.runs[-len(results) :]), results, matrix)
    sign, declined = matrix.sign, np.zeros(matrix.values.shape, dtype=bool)
    declined[-1] = np.isin(matrix.questions, worst)
    matrix = replace(matrix, declined=declined if matrix.declined is None else declined | matrix.declined)
    if not condition.paired:
        mean = correct_mean(matrix, matched, 0, _ONE_SIDED)
        found = correct_gate(judged, mean, sign, -sign * size)
        found = replace(found, candidate=mean.value, difference=mean.value - size)
    else:
        first = correct_mean(matrix, matched, 0, _ONE_SIDED).value
        before = judged.baseline if math.isnan(first) else first
        mean = correct_difference(matrix, matched, (0, 1), _ONE_SIDED)
        found = replace(judged, baseline=before, candidate=before + mean.value, difference=mean.value)
        if condition.relative:
            share = _share_of_baseline(condition, matrix)
            less = correct_difference(matrix, matched, (0, 1), _ONE_SIDED, share)
            found = correct_gate(replace(found, margin=size * before), less, sign, 0.0)
        else:
            found = correct_gate(found, mean, sign, judged.margin)
    check_corrected(matched, mean)
    unused = matched.why_unused() if condition.paired else ""  # an unpaired condition needs no labels of the baseline
    notes = [found.note, reason_uncorrected(matched, mean) or unused, matched.marks]
    return replace(found, note="; ".join(filter(None, notes))), mean.labels


def _share_of_baseline(condition: Condition, matrix: Matrix) -> float:
    """Return the factor by which a relative margin multiplies the baseline's scores; 1 for other conditions."""
    return 1 - matrix.sign * condition.size * condition.relative


def _questions_needed(condition: Condition, matrix: Matrix, found: noninferiority.Gate) -> int | None:
    if found.decision != "inconclusive" or condition.kind != MARGIN or not matrix.questions:
        return None
    values = matrix.values * [[_share_of_baseline(condition, matrix)], [1.0]]
    spread = float(estimate_power(replace(matrix, values=values)).spread[1])
    needed = questions_needed(found.margin, spread, level=_ONE_SIDED)
    return needed if needed and needed > len(matrix.questions) else None


def _check_each(matrix: Matrix, margin: Condition, missing: Sequence[str], before: Result) -> Check:
    """Decide question by question: the check fails if any question is worse by more than the margin.

    Otherwise it is inconclusive if there are no questions, or if the candidate lacks scores (``missing``); else it
    passes. The ``slack`` of the check is the smallest slack of any question; NaN if there are none.
    """
    baseline, candidate = matrix.scores
    unit, names = before.summaries.metrics[margin.metric].unit, before.questions["question_id"]
    texts = {name: f'{name} "{text}"' for name, text in zip(names, before.questions["question"], strict=True)}
    allowed = margin.size * np.abs(baseline) if margin.relative else np.full(len(baseline), margin.size)
    slack, near = (candidate - baseline) * matrix.sign + allowed, _ROUNDING * np.abs(matrix.scores).max(axis=0)
    beyond = [n for n in np.argsort(slack, kind="stable").tolist() if slack[n] < -near[n]]
    note = "" if len(slack) else "no question was scored in both configs"
    if missing:
        note = f"not scored in the candidate: {list_first(missing)}"
    decision: noninferiority.Decision = "inconclusive" if note else "pass"
    if beyond:
        moved = [f"{matrix.questions[n]} {candidate[n] - baseline[n]:+.3g}" for n in beyond]
        decision, note = "fail", f"margin exceeded on {len(beyond)} of {len(slack)} questions: {list_first(moved)}"
    lost = [f"{baseline[n]:.3g} -> {candidate[n]:.3g} in {texts[matrix.questions[n]]}" for n in beyond]
    lost += [f"not scored in the candidate: {texts[name]}" for name in missing]
    nearest_slack = float(slack.min()) if len(slack) else math.nan
    found = noninferiority.Gate.of(matrix, decision, margin.size, (nearest_slack, math.nan, math.nan), note)
    return Check(margin, unit, EACH, "by itself", found, lost=[f"{margin.metric} {one}" for one in lost])


def list_first(names: Sequence[str]) -> str:
    """Join the first five names with commas; "..." replaces the rest."""
    return ", ".join([*names[:_MOST_LISTED], *(["..."] if len(names) > _MOST_LISTED else [])])
