"""Decide a gate: every margin, over all questions and in every slice that was asked for."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from ragsweep import comparable
from ragsweep.commands.command_line import Named
from ragsweep.commands.gate.arguments import Margin, read_questions
from ragsweep.errors import ConfigError, InputError, nearest
from ragsweep.inference import noninferiority
from ragsweep.inference.matrix import Matrix, paired
from ragsweep.inference.power import detectable, questions_needed
from ragsweep.inference.slices import SMALL
from ragsweep.results import Result

Decision = Literal["pass", "fail", "inconclusive", "refused"]
EXIT_STATUS: Mapping[Decision, int] = {"pass": 0, "fail": 1, "inconclusive": 3, "refused": 3}

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
        """Whether it has a say: a small slice only where it fails."""
        return not self.small or self.found.decision == "fail"

    @property
    def where(self) -> str:
        """Name the questions."""
        return f"{self.label} {self.value}" if self.label else "all"


@dataclass(frozen=True)
class Decided:
    """What a gate decides, and what it rests on. Of a pair that is refused there are no checks, but a reason."""

    decision: Decision
    baseline: Named
    candidate: Named
    checks: tuple[Check, ...] = ()
    factors: tuple[comparable.Factor, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""
    questions: int = field(default=0)  # that were chosen; of those a metric may apply to a part only


@dataclass(frozen=True)
class Asked:
    """What a gate is asked: margins, labels to slice by, a file of questions, and whether each question counts."""

    margins: Sequence[Margin]
    labels: Sequence[str] = ()
    chosen: Path | None = None
    each: bool = False


def decide(baseline: Named, candidate: Named, asked: Asked) -> Decided:
    """Decide whether the candidate is not worse than the baseline by more than each margin.

    All checks must pass for the gate to pass, so that none needs a correction for the others (an intersection-union
    test: Berger, Technometrics 24, 1982); it fails where any of them fails.

    Raises:
        RagsweepError: A metric, a label or a question is unknown, or a metric cannot be gated.
    """
    one, other = baseline.result, candidate.result
    try:
        comparable.check_same_questions(one, other)
        for result in (one, other):
            comparable.check_whole(result)
    except InputError as fault:
        return Decided("refused", baseline, candidate, reason=str(fault))
    metrics = comparable.shared_metrics([one, other], [margin.metric for margin in asked.margins], ())
    for label in asked.labels:
        if label not in one.groups or label not in one.outcomes:
            raise ConfigError(f'--slice: no label "{label}"{nearest(label, one.groups)}')
    ids = list(map(str, one.outcomes["question_id"]))
    kept = read_questions(asked.chosen, set(ids)) if asked.chosen else ids
    checks = tuple(check for margin in asked.margins for check in _checks(margin, baseline, candidate, asked, kept))
    notes = (*_notes(baseline, candidate, metrics), *_notes_on_checks(checks, asked.labels, len(kept)))
    differing = comparable.factors(one, other)
    return Decided(_all(checks), baseline, candidate, checks, differing, notes, questions=len(kept))


def _all(checks: Sequence[Check]) -> Decision:
    found = {check.found.decision for check in checks if check.counts}
    if "fail" in found:
        return "fail"
    return "inconclusive" if "inconclusive" in found else "pass"


def _checks(margin: Margin, baseline: Named, candidate: Named, asked: Asked, kept: Sequence[str]) -> Iterator[Check]:
    matrix = paired([baseline.result, candidate.result], margin.metric)
    chosen = set(kept)
    matrix = matrix.only(np.array([name in chosen for name in matrix.questions], dtype=bool))
    unit = baseline.result.summaries[margin.metric].unit
    if asked.each:
        lost = _lost(baseline.result, candidate.result, margin.metric, chosen)
        yield Check(margin, unit, "each", "by itself", each(matrix, margin, lost), small=False)
        return
    yield _check(margin, unit, "", "", matrix)
    values = comparable.labels_of(baseline.result, matrix.questions)
    for label in asked.labels:
        for value in sorted({one for one in values[label] if one}):
            yield _check(margin, unit, label, value, matrix.only(np.array([one == value for one in values[label]])))


def _check(margin: Margin, unit: str, label: str, value: str, matrix: Matrix) -> Check:
    found = noninferiority.gate(matrix, margin.size, relative=margin.relative)
    small = bool(label) and len(matrix.questions) < SMALL
    needed = _needed(matrix, found.margin) if found.decision == "inconclusive" else None
    return Check(margin, unit, label, value, found, small, needed)


def _lost(one: Result, other: Result, metric: str, chosen: Collection[str]) -> list[str]:
    """Name the chosen questions that were scored in the baseline, and could not be in the candidate."""
    scores = [
        dict(zip(result.outcomes["question_id"], result.outcomes[metric], strict=True)) for result in (one, other)
    ]
    return [
        name
        for name, score in scores[0].items()
        if name in chosen and not math.isnan(score) and math.isnan(scores[1].get(name, math.nan))
    ]


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
    found = questions_needed(margin, float(detectable(matrix).spread[1]), level=_ONE_SIDED)
    return found if found and found > len(matrix.questions) else None


def _notes(baseline: Named, candidate: Named, metrics: Sequence[str]) -> Iterator[str]:
    if baseline.result.signature == candidate.result.signature:
        yield "the config of both is one and the same"
    if otherwise := comparable.measured_otherwise(baseline.result, candidate.result, metrics):
        yield f"not measured in the same way in both: {', '.join(otherwise)}"


def _notes_on_checks(checks: Sequence[Check], labels: Sequence[str], kept: int) -> Iterator[str]:
    """Say what the checks rest on: questions and slices that are not there, or have no say."""
    for check in checks:
        if not check.label and check.found.questions < kept:
            yield f"{check.margin.metric}: {check.found.questions:,} of {kept:,} questions have it in both"
    for label in labels:
        for metric in dict.fromkeys(check.margin.metric for check in checks):
            if not any(check.label == label and check.margin.metric == metric for check in checks):
                yield f"{metric}: no question that has it has a {label}, so that there is no slice"
    if small := [check for check in checks if check.small and not check.counts]:
        yield f"{len(small)} slices of fewer than {SMALL} questions have no say, as they do not fail"
