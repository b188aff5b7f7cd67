"""Trials: the outcome of a job, and the attributes by which Optuna keeps it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException

from ragsweep.core.locks import Holder, myself
from ragsweep.sweep.race_loop import exception_of

DIRECTIONS = ("maximize", "minimize")

_CONSTRAINT = re.compile(r"\s*([\w./@-]+)\s*(<=|>=)\s*([-+.\deE]+)\s*")


@dataclass(frozen=True)
class Constraint:
    """An upper or lower limit on a measured value."""

    name: str
    upper: bool
    limit: float

    def __str__(self) -> str:
        return f"{self.name} {'<=' if self.upper else '>='} {self.limit:g}"

    def violation(self, value: float) -> float:
        """Return by how much a value breaks the constraint; 0 or less where it is met."""
        return value - self.limit if self.upper else self.limit - value


@dataclass(frozen=True)
class TrialOutcome:
    """The values of a trial, one an objective, or the reason why there are none."""

    values: tuple[float, ...] = ()
    reason: str = ""
    violations: tuple[tuple[str, float], ...] = ()  # of each constraint; 0 or less: it is met
    charged: bool = True  # whether it counts as one of the study's trials
    cost: tuple[tuple[str, float], ...] = ()  # by name; a single number has an empty name
    differences: tuple[float, ...] = ()  # the smallest detectable, an objective; NaN: unknown
    pruned: bool = False  # dropped by a race before it was evaluated in full

    @property
    def feasible(self) -> bool:
        """Whether all constraints are met."""
        return all(violation <= 0 for _, violation in self.violations)


def read_directions(given: Any) -> tuple[str, ...]:
    """Read the key ``direction``: one, or a list with one for each objective. Raises HydraException."""
    given = "minimize" if given is None else given
    listed = tuple(str(getattr(one, "name", one)) for one in (given if isinstance(given, list) else [given]))
    if not listed or any(one not in DIRECTIONS for one in listed):
        raise HydraException(f"hydra.sweeper.direction: must be minimize, maximize or a list of these, given {given!r}")
    return listed


def read_constraints(given: Any) -> tuple[Constraint, ...]:
    """Read the key ``constraints``: a list such as ["latency <= 800"]. Raises HydraException."""
    if given is not None and not isinstance(given, list):
        raise HydraException(f'hydra.sweeper.constraints: must be a list such as ["latency <= 800"], given {given!r}')
    constraints = []
    for line in given or []:
        found = _CONSTRAINT.fullmatch(str(line))
        try:
            assert found is not None
            constraints.append(Constraint(found[1], found[2] == "<=", float(found[3])))
        except (AssertionError, ValueError):
            raise HydraException(
                f'hydra.sweeper.constraints: must be NAME <= NUMBER or NAME >= NUMBER, given "{line}"'
            ) from None
    return tuple(constraints)


def read_outcome(job: JobReturn, objectives: int, constraints: Sequence[Constraint] = ()) -> TrialOutcome:
    """Read a job's result.

    A job returns a number, or a sequence with one for each objective; or a mapping with ``values`` (one of these),
    ``reason`` (why one of them is no number), ``measured`` (name -> number, for constraints), ``charged`` (false: it
    does not count as one of the trials), ``cost`` (a number, or name -> number) and ``differences`` (the smallest that
    its data could show, as many as there are values).
    """
    if job.status != JobStatus.COMPLETED:
        return TrialOutcome(reason=_failure(job))
    returned = job.return_value
    plain = returned if isinstance(returned, Mapping) else {"values": returned}
    spent = TrialOutcome(
        charged=plain.get("charged", True) is not False,
        cost=_cost(plain.get("cost")),
        differences=tuple(math.nan if one is None else one for one in map(_number, _listed(plain.get("differences")))),
    )
    values = _listed(plain["values"]) if plain.get("values") is not None else [None]
    if len(values) != objectives:
        return replace(spent, reason=f"returned {len(values)} values for {objectives} objectives")
    numbers = [_number(value) for value in values]
    for position, (value, number) in enumerate(zip(values, numbers, strict=True)):
        if number is None:
            which = f" for objective {position + 1}" if objectives > 1 else ""
            given = str(plain.get("reason") or "")
            return replace(spent, reason=given or f"returned {value!r}{which}, which is no number")
    violations = []
    for constraint in constraints:
        measured = _number((plain.get("measured") or {}).get(constraint.name))
        if measured is None:
            return replace(spent, reason=f'did not measure "{constraint.name}", which is constrained')
        violations.append((str(constraint), constraint.violation(measured)))
    found = tuple(number for number in numbers if number is not None)
    return replace(spent, values=found, violations=tuple(violations))


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def _cost(given: Any) -> tuple[tuple[str, float], ...]:
    named = given if isinstance(given, Mapping) else {"": given}
    numbers = {str(name): _number(value) for name, value in named.items()}
    return tuple((name, number) for name, number in numbers.items() if number)


def _number(value: Any) -> float | None:
    """Return a value as a finite number, else None."""
    try:
        number = float(value) if not isinstance(value, bool | str) and value is not None else math.nan
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _failure(job: JobReturn) -> str:
    fault = exception_of(job) if job.status != JobStatus.UNKNOWN else None
    if fault is None:
        return "its job did not complete"
    lines = str(fault).splitlines()
    return f"{type(fault).__name__}: {lines[0]}" if lines else type(fault).__name__


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
