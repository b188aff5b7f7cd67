"""The outcome of a trial's job, and the attributes in which Optuna stores it."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException

from optuna_sweeper.race_loop import exception_of

DIRECTIONS = ("maximize", "minimize")

_CONSTRAINT = re.compile(r"\s*([\w./@-]+)\s*(<=|>=)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")


@dataclass(frozen=True)
class Constraint:
    """An upper or lower limit on a measured value."""

    name: str
    upper: bool
    limit: float

    def __str__(self) -> str:
        return f"{self.name} {'<=' if self.upper else '>='} {self.limit:.15g}"

    def violation(self, value: float) -> float:
        """Return by how much a value violates the constraint; 0 or less if the value satisfies the constraint."""
        return value - self.limit if self.upper else self.limit - value


@dataclass(frozen=True)
class TrialOutcome:
    """The values of a trial, one per objective, or the reason why it failed; a pruned trial has neither."""

    values: tuple[float, ...] = ()
    reason: str = ""
    violations: Mapping[str, float] = field(default_factory=dict)  # constraint -> violation; 0 or less: met
    charged: bool = True  # whether the trial counts towards the study's number of trials
    cost: Mapping[str, float] = field(default_factory=dict)  # name -> amount; the name "" for a single number
    differences: tuple[float, ...] = ()  # smallest detectable difference per objective; NaN: unknown
    pruned: bool = False  # dropped by a race before its full evaluation

    @property
    def feasible(self) -> bool:
        """Whether all constraints are met."""
        return all(violation <= 0 for violation in self.violations.values())


def read_directions(setting: Any) -> tuple[str, ...]:
    """Read the key ``direction``, and return one direction per objective; None counts as minimize.

    Raises HydraException for any other value.
    """
    listed = setting if isinstance(setting, list) else ["minimize" if setting is None else setting]
    directions = tuple(str(getattr(direction, "name", direction)) for direction in listed)
    if not directions or any(direction not in DIRECTIONS for direction in directions):
        raise HydraException(f"hydra.sweeper.direction: must be minimize, maximize or a list of these, got {setting!r}")
    return directions


def read_constraints(setting: Any) -> tuple[Constraint, ...]:
    """Read the key ``constraints``: None, or a list such as ["latency <= 800"]. Raises HydraException otherwise."""
    if setting is not None and not isinstance(setting, list):
        raise HydraException(f'hydra.sweeper.constraints: must be a list such as ["latency <= 800"], got {setting!r}')
    constraints = []
    for line in setting or []:
        if not (parts := _CONSTRAINT.fullmatch(str(line))):
            raise HydraException(f'hydra.sweeper.constraints: must be NAME <= NUMBER or NAME >= NUMBER, got "{line}"')
        constraints.append(Constraint(parts[1], parts[2] == "<=", float(parts[3])))
    return tuple(constraints)


def read_outcome(job: JobReturn, objectives: int, constraints: Sequence[Constraint] = ()) -> TrialOutcome:
    """Return the outcome of a trial from its job's result.

    A trial fails if its job failed, if a value is not a finite number, if the number of values differs from the number
    of objectives, or if a constrained metric was not measured.

    A job returns a number, a sequence with one number per objective, or a mapping. The keys of the mapping are
    ``values`` (a number or such a sequence), ``reason`` (why a value is not a number), ``measured`` (name -> number,
    for constraints), ``charged`` (false: not counted as a trial), ``cost`` (a number, or name -> number) and
    ``differences`` (the smallest detectable differences, one per value). An exception that a job raises may have the
    attribute ``cost``.
    """
    if job.status != JobStatus.COMPLETED:
        fault = exception_of(job) if job.status != JobStatus.UNKNOWN else None
        return TrialOutcome(reason=_failure(fault), cost=_read_cost(getattr(fault, "cost", None)))
    returned = job.return_value
    plain = returned if isinstance(returned, Mapping) else {"values": returned}
    differences = plain.get("differences")
    outcome = TrialOutcome(
        charged=plain.get("charged", True) is not False,
        cost=_read_cost(plain.get("cost")),
        differences=tuple(
            math.nan if (number := _number(value)) is None else number
            for value in ([] if differences is None else _to_list(differences))
        ),
    )
    values = _to_list(plain.get("values"))
    if len(values) != objectives:
        count = "1 value" if len(values) == 1 else f"{len(values)} values"
        return replace(outcome, reason=f"the job returned {count}, but the number of objectives is {objectives}")
    numbers = []
    for position, value in enumerate(values):
        if (number := _number(value)) is None:
            objective = f" for objective {position + 1}" if objectives > 1 else ""
            reason = str(plain.get("reason") or "") or f"the job returned {value!r}{objective}, which is not a number"
            return replace(outcome, reason=reason)
        numbers.append(number)
    violations, measured = {}, plain.get("measured")
    for constraint in constraints:
        if (number := _number(measured.get(constraint.name) if isinstance(measured, Mapping) else None)) is None:
            return replace(outcome, reason=f'the job did not measure "{constraint.name}", which a constraint limits')
        violations[str(constraint)] = constraint.violation(number)
    return replace(outcome, values=tuple(numbers), violations=violations)


def _to_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _number(value: Any) -> float | None:
    """Return a finite number as a float; None for anything else, including Booleans and strings."""
    if value is None or isinstance(value, bool | str):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _read_cost(cost: Any) -> dict[str, float]:
    costs = cost if isinstance(cost, Mapping) else {"": cost}
    return {str(name): number for name, value in costs.items() if (number := _number(value))}


def _failure(fault: Exception | None) -> str:
    if fault is None:
        return "the job did not complete"
    lines = str(fault).splitlines()
    return f"{type(fault).__name__}: {lines[0]}" if lines else type(fault).__name__


EVALUATION, TWIN, POINT = "evaluation", "duplicate_of", "point"

OVERRIDES, LOCATED = "overrides", "located"  # of an enqueued config: its overrides, and Optuna's values

REASON, COST, DIFFERENCES, CHARGED = "reason", "cost", "differences", "charged"


@dataclass(frozen=True)
class Evaluation:
    """A trial that this process evaluates: the study's first trial with its config, or a retry of that trial."""

    trial: Any  # Optuna's
    job: int  # index among the study's evaluations
    overrides: tuple[str, ...]
    signature: str
    attempt: int = 1
    retry_of: int | None = None  # trial number of the previous attempt
    config: Any = None  # as composed for the signature; None for a retry, or without a composer

    @property
    def facts(self) -> dict[str, Any]:
        """The fields that are stored in the trial's attributes together with the trial's owner."""
        names = ("job", "overrides", "signature", "attempt", "retry_of")
        return {name: getattr(self, name) for name in names} | {"overrides": list(self.overrides)}


def evaluations(trials: Iterable[Any]) -> dict[int, Any]:
    """Map the number of each job to its last trial; trials without a job are omitted."""
    last = {trial.user_attrs[EVALUATION]["job"]: trial for trial in trials if EVALUATION in trial.user_attrs}
    return dict(sorted(last.items()))


def superseded(trials: Iterable[Any]) -> set[int]:
    """Return the numbers of the trials that were enqueued again as new trials."""
    return {trial.user_attrs.get(EVALUATION, {}).get("retry_of") for trial in trials} - {None}


def is_abandoned(trial: Any) -> bool:
    """Return whether a trial failed before a process claimed it; such a trial is drawn or enqueued again."""
    return trial.state.name == "FAIL" and EVALUATION not in trial.user_attrs and TWIN not in trial.user_attrs


def is_charged(trial: Any) -> bool:
    """Return whether a trial counts towards the study's number of trials."""
    return bool(trial.user_attrs.get(CHARGED, True))


def write_outcome(study: Any, trial: Any, outcome: TrialOutcome) -> None:
    """Report the outcome of a running trial to Optuna, and thereby end the trial."""
    from optuna.trial import TrialState

    if outcome.cost:
        trial.set_user_attr(COST, dict(outcome.cost))
    if outcome.differences:
        trial.set_user_attr(DIFFERENCES, [None if math.isnan(least) else least for least in outcome.differences])
    if not outcome.charged:
        trial.set_user_attr(CHARGED, False)
    if outcome.reason:
        trial.set_user_attr(REASON, outcome.reason)
        study.tell(trial, state=TrialState.FAIL)
    elif outcome.pruned:
        study.tell(trial, state=TrialState.PRUNED)
    else:
        for name, violation in outcome.violations.items():
            trial.set_constraint(name, violation)
        study.tell(trial, list(outcome.values))


def read_trial(trial: Any) -> TrialOutcome | None:
    """Read the outcome of a trial from Optuna; None if the trial is not finished."""
    if not trial.state.is_finished():
        return None
    attributes, state = trial.user_attrs, trial.state.name
    complete = state == "COMPLETE"
    return TrialOutcome(
        values=tuple(trial.values) if complete else (),
        reason=str(attributes.get(REASON, "failed")) if state == "FAIL" else "",
        violations=dict(trial.constraints) if complete else {},
        charged=is_charged(trial),
        cost=attributes.get(COST, {}),
        differences=tuple(math.nan if least is None else least for least in attributes.get(DIFFERENCES, ())),
        pruned=state == "PRUNED",
    )


def count_final_duplicates(trials: Sequence[Any]) -> int:
    """Count the consecutive duplicates at the end of a study, ignoring unfinished trials."""
    count = 0
    for trial in reversed(trials):
        if trial.state.is_finished():
            if TWIN not in trial.user_attrs:
                break
            count += 1
    return count
