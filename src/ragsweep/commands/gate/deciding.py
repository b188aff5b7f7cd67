"""Decide a gate: every margin, over all questions and in every slice that was asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from ragsweep.commands.command_line import Named
from ragsweep.commands.gate.arguments import GAIN, LEAST, MARGIN, MOST, Margin, read_questions
from ragsweep.core.errors import ConfigError, InputError, nearest
from ragsweep.core.missing import ABSTAINED, NOTHING_SAID, UNDEFINED, failed
from ragsweep.core.results import Result
from ragsweep.stats import comparable
from ragsweep.stats.inference import noninferiority
from ragsweep.stats.inference.matrix import Matrix, score_matrix
from ragsweep.stats.inference.power import estimate_power, questions_needed
from ragsweep.stats.inference.slices import SMALL

Decision = Literal["pass", "fail", "inconclusive", "refused"]
EXIT_STATUS: Mapping[Decision, int] = {"pass": 0, "fail": 1, "inconclusive": 3, "refused": 3}

UNSCORED = UNDEFINED | {ABSTAINED, NOTHING_SAID}
"""Reasons why a question has no score that lie with the config, not with the question."""
_NAMED = 5
_ROUNDING = 1e-9
_ONE_SIDED = 0.90
"""A two-sided level whose ends are bounds at 95 % each."""


@dataclass(frozen=True)
class Check:
    """One margin, for all questions or in one slice.

    ``needed`` is how many such questions would decide in four of five cases, were the two equal; None if unknown, or if
    there are as many.
    """

    margin: Margin
    unit: str
    label: str
    value: str
    found: noninferiority.Gate
    small: bool
    needed: int | None = None

    @property
    def counts(self) -> bool:
        """Whether it counts: a small slice only where it fails."""
        return not self.small or self.found.decision == "fail"

    @property
    def where(self) -> str:
        """Name the questions."""
        return f"{self.label} {self.value}" if self.label else "all"


@dataclass(frozen=True)
class Decided:
    """The decision of a gate, and its basis. A refused pair has no checks, but a reason."""

    decision: Decision
    baseline: Named | None
    candidate: Named
    checks: tuple[Check, ...] = ()
    factors: tuple[comparable.Factor, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""
    questions: int = field(default=0)  # that were chosen; of those a metric may apply to a part only


@dataclass(frozen=True)
class GateRules:
    """The rules of a gate: margins, labels to slice by, a file of questions, and whether each one counts."""

    margins: Sequence[Margin]
    labels: Sequence[str] = ()
    chosen: Path | None = None
    each: bool = False


def decide(baseline: Named | None, candidate: Named, asked: GateRules) -> Decided:
    """Decide whether the candidate is within each margin of the baseline, and keeps each bound.

    All checks must pass for the gate to pass, so that none needs a correction for the others (an intersection-union
    test: Berger, Technometrics 24, 1982); it fails where any of them fails.

    Raises:
        RagsweepError: A metric, a label or a question is unknown, or a metric cannot be gated.
    """
    one, other = (baseline or candidate).result, candidate.result
    try:
        comparable.check_same_questions(one, other)
        _check_same_coverage(one, other)
        for result in (one, other):
            comparable.check_whole(result)
    except InputError as fault:
        return Decided("refused", baseline, candidate, reason=str(fault))
    metrics = comparable.shared_metrics([one, other], [margin.metric for margin in asked.margins], ())
    for margin in asked.margins:
        _check_direction(margin, other)
    for label in asked.labels:
        if label not in one.groups or label not in one.outcomes:
            raise ConfigError(f'--slice: no label "{label}"{nearest(label, one.groups)}')
    ids = list(map(str, one.outcomes["question_id"]))
    kept = read_questions(asked.chosen, set(ids)) if asked.chosen else ids
    checks = tuple(check for margin in asked.margins for check in _checks(margin, one, other, asked, kept))
    notes = (
        *(_notes(one, other, metrics) if baseline else ()),
        *_notes_on_worst_cases(asked.margins, one, other, set(kept)),
        *_notes_on_checks(checks, asked.labels, len(kept)),
    )
    differing = comparable.factors(one, other)
    return Decided(_all(checks), baseline, candidate, checks, differing, notes, questions=len(kept))


def _all(checks: Sequence[Check]) -> Decision:
    found = {check.found.decision for check in checks if check.counts}
    if "fail" in found:
        return "fail"
    return "inconclusive" if "inconclusive" in found else "pass"


def _check_same_coverage(one: Result, other: Result) -> None:
    """Raise InputError where one config may leave more questions unscored than the other."""
    given = [result.config.get("coverage") for result in (one, other)]
    if given[0] != given[1]:
        raise InputError(
            f"rebaseline: coverage is {given[0]} in {one.name} and {given[1]} in {other.name}: one may leave questions"
            " out that the other may not; run both with the same"
        )


def _check_direction(margin: Margin, result: Result) -> None:
    if not margin.paired and (margin.kind == MOST) == bool(result.summaries[margin.metric].higher_is_better):
        right, more = (LEAST, "more") if margin.kind == MOST else (MOST, "less")
        raise ConfigError(f"{margin.metric}: {more} of it is better; bound it by --{right.replace(' ', '-')}")


def _checks(margin: Margin, one: Result, other: Result, asked: GateRules, kept: Sequence[str]) -> Iterator[Check]:
    metric, chosen = margin.metric, set(kept)
    filled = _with_worst_cases(one if margin.paired else None, other, metric)
    matrix = score_matrix([one, filled] if margin.paired else [filled], metric)
    matrix = matrix.select_questions(np.array([name in chosen for name in matrix.questions], dtype=bool))
    unit, same = one.summaries[metric].unit, margin.paired and one.signature == other.signature
    lost = [name for name in _lost(one if margin.paired else None, filled, metric) if name in chosen]
    if asked.each:
        yield Check(margin, unit, "each", "by itself", each(matrix, margin, lost), small=False)
        return
    yield _check(margin, unit, ("", ""), matrix, lost, same)
    values = comparable.labels_of(one, matrix.questions)
    for label in asked.labels:
        for value in sorted({one for one in values[label] if one}):
            part = matrix.select_questions(np.array([one == value for one in values[label]]))
            yield _check(margin, unit, (label, value), part, (), same)


def _check(margin: Margin, unit: str, where: tuple[str, str], matrix: Matrix, lost: Sequence[str], same: bool) -> Check:
    found = _found(margin, matrix)
    if same and found.note == noninferiority.SAME and margin.kind == MARGIN:  # no sample: it is the same config
        found = replace(found, decision="pass")
    elif lost and found.decision == "pass":
        found = replace(found, decision="inconclusive", note=f"not scored in the candidate: {_listed(lost)}")
    small = bool(where[0]) and len(matrix.questions) < SMALL
    needed = _needed(matrix, found.margin) if found.decision == "inconclusive" and margin.kind == MARGIN else None
    return Check(margin, unit, *where, found, small, needed)


def _found(margin: Margin, matrix: Matrix) -> noninferiority.Gate:
    if margin.kind == MARGIN:
        return noninferiority.gate(matrix, margin.size, relative=margin.relative)
    if margin.kind == GAIN:
        return noninferiority.superior(matrix, margin.size)
    return noninferiority.reaches(matrix, margin.size)


def _lost(one: Result | None, other: Result, metric: str) -> list[str]:
    """Name the questions that the candidate was not scored on though it should have been.

    It should where the baseline was; without one, where measuring failed, nothing was there to be measured, or the
    candidate declined to answer.
    """
    ids, scores = other.outcomes["question_id"], other.outcomes[metric]
    missing = [n for n, score in enumerate(scores) if math.isnan(score)]
    if one is not None:
        known = dict(zip(one.outcomes["question_id"], one.outcomes[metric], strict=True))
        return [ids[n] for n in missing if not math.isnan(known.get(ids[n], math.nan))]
    why = [json.loads(other.outcomes["unscored"][n]).get(metric, "") for n in missing]
    return [ids[n] for n, reason in zip(missing, why, strict=True) if failed(reason) or reason in UNSCORED]


def _with_worst_cases(one: Result | None, other: Result, metric: str) -> Result:
    """Give the candidate the worst score where it failed or declined; scores within 0 and 1 have one."""
    scores = np.array(other.outcomes[metric], dtype=np.float64)
    known = scores[~np.isnan(scores)]
    lost = set(_lost(one, other, metric))
    if not lost or other.summaries[metric].unit or not len(known) or known.min() < 0 or known.max() > 1:
        return other
    worst = 0.0 if other.summaries[metric].higher_is_better else 1.0
    rows = [name in lost for name in other.outcomes["question_id"]]
    return replace(other, outcomes={**other.outcomes, metric: np.where(rows, worst, scores).tolist()})


def _notes_on_worst_cases(
    margins: Sequence[Margin], one: Result, other: Result, chosen: Collection[str]
) -> Iterator[str]:
    for margin in margins:
        base = one if margin.paired else None
        before = _lost(base, other, margin.metric)
        left = set(_lost(base, _with_worst_cases(base, other, margin.metric), margin.metric))
        if filled := [name for name in before if name in chosen and name not in left]:
            yield f"{margin.metric}: failed or declined, counted as the worst case: {len(filled)} ({_listed(filled)})"


def each(matrix: Matrix, margin: Margin, lost: Sequence[str] = ()) -> noninferiority.Gate:
    """Decide question by question: none may be worse by more than the margin.

    It is inconclusive without questions, and where some that the baseline was scored on are ``lost`` in the candidate.
    ``slack`` is that of the question that is nearest to the margin, or furthest beyond it.
    """
    baseline, candidate = matrix.values
    allowed = margin.size * np.abs(baseline) if margin.relative else np.full(len(baseline), margin.size)
    slack = matrix.better[1] - matrix.better[0] + allowed
    beyond = [n for n in np.argsort(slack, kind="stable").tolist() if slack[n] < -_ROUNDING]
    known = len(slack) > 0 and not lost
    note = (
        "" if known else f"not scored in the candidate: {_listed(lost)}" if lost else "no question was scored in both"
    )
    if beyond:
        moved = [f"{matrix.questions[n]} {candidate[n] - baseline[n]:+.3g}" for n in beyond]
        note = f"{len(beyond)} worse by more: {_listed(moved)}"
    before, after = (float(row.mean()) if len(row) else math.nan for row in matrix.values)
    return noninferiority.Gate(
        "fail" if beyond else "pass" if known else "inconclusive", before, after, after - before, margin.size,
        float(slack.min()) if len(slack) else math.nan, math.nan, math.nan, len(slack), math.nan, note,
    )  # fmt: skip


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:_NAMED], *(["..."] if len(names) > _NAMED else [])])


def _needed(matrix: Matrix, margin: float) -> int | None:
    """Return how many questions would show that an equal candidate is within the margin; None of no more than now."""
    if not matrix.questions:
        return None
    found = questions_needed(margin, float(estimate_power(matrix).spread[1]), level=_ONE_SIDED)
    return found if found and found > len(matrix.questions) else None


def _notes(one: Result, other: Result, metrics: Sequence[str]) -> Iterator[str]:
    if one.signature == other.signature:
        yield "the config of both is one and the same"
    if otherwise := comparable.redefined_metrics(one, other, metrics):
        yield f"not measured in the same way in both: {', '.join(otherwise)}"


def _notes_on_checks(checks: Sequence[Check], labels: Sequence[str], kept: int) -> Iterator[str]:
    """Return notes on the checks: questions and slices that are missing, or do not count."""
    for check in checks:
        if not check.label and check.found.questions < kept:
            yield f"{check.margin.metric}: {check.found.questions:,} of {kept:,} questions have it in both"
    for label in labels:
        for metric in dict.fromkeys(check.margin.metric for check in checks):
            if not any(check.label == label and check.margin.metric == metric for check in checks):
                yield f"{metric}: no question that has it has a {label}, so that there is no slice"
    if small := [check for check in checks if check.small and not check.counts]:
        yield f"{len(small)} slices of fewer than {SMALL} questions have no say, as they do not fail"
