"""Attributes of trials: the job that evaluates a trial, the process that owns it, and the outcome.

A trial of Optuna's is all that is kept of an evaluation. ``evaluation`` is written in one piece when a process begins
it. The trial of a dead process is failed, and enqueued again under the same job number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ragsweep.core.locks import Holder, myself
from ragsweep.sweep.search.outcomes import TrialOutcome

EVALUATION, TWIN, POINT = "evaluation", "duplicate_of", "point"
OVERRIDES, LOCATED = "overrides", "located"  # of an enqueued config: its overrides, and Optuna's values
REASON, COST, DIFFERENCES, CHARGED = "reason", "cost", "differences", "charged"


@dataclass(frozen=True)
class Evaluation:
    """A trial that this process evaluates: the first with its config, or another attempt at it."""

    trial: Any  # Optuna's
    job: int  # among the study's evaluations, from 0
    overrides: tuple[str, ...]
    signature: str
    attempt: int = 1
    retry_of: int | None = None  # the number of the trial of the previous attempt

    def own(self) -> None:
        """Write into the trial that this process evaluates it."""
        me = myself()
        self.trial.set_user_attr(
            EVALUATION,
            {"job": self.job, "overrides": list(self.overrides), "signature": self.signature, "attempt": self.attempt,
             "retry_of": self.retry_of, "owner": [me.host, me.process, me.started]},
        )  # fmt: skip


def owner(trial: Any) -> Holder | None:
    """Return the process that began a trial; None where it ended before it could write that."""
    given = trial.user_attrs.get(EVALUATION, {}).get("owner")
    return Holder(*given) if given else None


def retry_attributes(trial: Any, lost: bool) -> dict[str, Any]:
    """Return the attributes of the next attempt at a trial; ``lost``: the previous one counts as an attempt."""
    attributes = {key: trial.user_attrs[key] for key in (OVERRIDES, LOCATED, POINT) if key in trial.user_attrs}
    if EVALUATION in trial.user_attrs:
        known = trial.user_attrs[EVALUATION]
        again = {"attempt": known["attempt"] + lost, "retry_of": trial.number, "owner": None}
        attributes |= {EVALUATION: known | again, OVERRIDES: known["overrides"], LOCATED: dict(trial.params)}
    return attributes


def evaluations(trials: Iterable[Any]) -> dict[int, Any]:
    """Return the last trial of each job, by the number of the job."""
    found = {one.user_attrs[EVALUATION]["job"]: one for one in trials if EVALUATION in one.user_attrs}
    return dict(sorted(found.items()))


def retried(trials: Iterable[Any]) -> set[int]:
    """Return the numbers of the trials that were enqueued again."""
    return {one.user_attrs[EVALUATION]["retry_of"] for one in trials if EVALUATION in one.user_attrs} - {None}


def is_charged(trial: Any) -> bool:
    """Return whether a trial counts as one of the study's trials."""
    return bool(trial.user_attrs.get(CHARGED, True))


def write_outcome(study: Any, trial: Any, outcome: TrialOutcome) -> None:
    """Report the outcome of a running trial to Optuna."""
    from optuna.trial import TrialState

    if outcome.cost:
        trial.set_user_attr(COST, dict(outcome.cost))
    if outcome.differences:
        trial.set_user_attr(DIFFERENCES, [one if math.isfinite(one) else None for one in outcome.differences])
    if not outcome.charged:
        trial.set_user_attr(CHARGED, False)
    if outcome.reason:
        trial.set_user_attr(REASON, outcome.reason)
        study.tell(trial, state=TrialState.FAIL)
    elif outcome.pruned:
        study.tell(trial, state=TrialState.PRUNED)
    else:
        for name, violation in outcome.violations:
            trial.set_constraint(name, violation)
        study.tell(trial, list(outcome.values))


def read_outcome_of(trial: Any) -> TrialOutcome | None:
    """Read the outcome of a trial; None while it runs."""
    from optuna.trial import TrialState

    if not trial.state.is_finished():
        return None
    known = trial.user_attrs
    complete = trial.state == TrialState.COMPLETE
    return TrialOutcome(
        tuple(trial.values) if complete else (),
        str(known.get(REASON, "failed")) if trial.state == TrialState.FAIL else "",
        tuple(trial.constraints.items()) if complete else (),
        is_charged(trial),
        tuple(known.get(COST, {}).items()),
        tuple(math.nan if one is None else one for one in known.get(DIFFERENCES, ())),
        trial.state == TrialState.PRUNED,
    )


def duplicates_at_end(trials: Sequence[Any]) -> int:
    """Count the duplicates that a study ends with."""
    count = 0
    for trial in reversed(trials):
        if trial.state.is_finished():
            if TWIN not in trial.user_attrs:
                break
            count += 1
    return count


def draw_number(trials: Sequence[Any], number: int) -> int:
    """Return the number of a trial among those that were drawn: without retries, and without abandoned trials."""
    from optuna.trial import TrialState

    again = {one.number for one in trials if one.user_attrs.get(EVALUATION, {}).get("retry_of") is not None}
    lost = {
        one.number
        for one in trials
        if one.state == TrialState.FAIL and EVALUATION not in one.user_attrs and TWIN not in one.user_attrs
    }
    return number - sum(1 for one in again | lost if one < number)
