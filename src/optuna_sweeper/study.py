"""A study that several processes may share, with the claims on its trials and the choice of the next trial."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from optuna_sweeper.processes import myself
from optuna_sweeper.samplers import GRID
from optuna_sweeper.signatures import Signature
from optuna_sweeper.space import Space
from optuna_sweeper.storage import Storage
from optuna_sweeper.trial_claims import TrialClaims, trial_owner
from optuna_sweeper.trials import (
    EVALUATION,
    LOCATED,
    OVERRIDES,
    POINT,
    TWIN,
    Evaluation,
    TrialOutcome,
    count_final_duplicates,
    evaluations,
    is_charged,
    read_trial,
    write_outcome,
)

ATTEMPTS = 3
"""Maximum number of attempts at a trial whose process dies."""

EXHAUSTED = 200
"""Number of duplicates in a row after which the space counts as exhausted."""

SMALL = 1000
"""Maximum number of points of a space for which the search checks whether every point has been tried."""

_STOPPED = "stopped"
Sign = Callable[[Sequence[str]], Signature]
"""A function from overrides to the signature of their config."""


@dataclass(frozen=True)
class StudyPlan:
    """The name, objectives, first configs and other settings of a study."""

    name: str
    directions: tuple[str, ...]
    subject: str  # identifies what is measured: a study is resumed only with the same subject
    sampler: Mapping[str, Any]
    n_trials: int
    first: tuple[tuple[tuple[str, ...], Mapping[str, Any]], ...] = ()  # to try first: overrides and Optuna's values
    has_zero: bool = False  # whether first[0] is trial 0, which is skipped once any trial has the attribute `OVERRIDES`
    lapse: float = 90.0  # seconds without a heartbeat after which a process is considered dead
    extend: Callable[[Any], None] | None = None  # custom_search_space, bound to the config
    suffix: str = ""  # end of the name, by which a study is found even if the beginning has changed; "": full name
    objectives: tuple[str, ...] = ()  # names of the objectives, for display by other programs
    attributes: Callable[[int], Mapping[str, str]] = lambda _: {}  # set on a job's trial when the trial ends


@dataclass
class SharedStudy:
    """A study shared by this process and possibly others.

    Trials change their state only under the storage's lock; the owner of a trial is recorded in its attributes.
    """

    plan: StudyPlan
    space: Space
    storage: Storage
    optuna: Any  # Optuna's study
    _points: list[dict[str, str]] | None = field(default=None, repr=False)
    _unlisted: Iterator[dict[str, str]] = field(default_factory=lambda: iter(()), repr=False)  # points of a grid

    def __post_init__(self) -> None:
        self.claims = TrialClaims(self.optuna, self.plan.lapse, self.storage.is_shared)

    def trials(self) -> list[Any]:
        """List all trials."""
        return list(self.optuna.get_trials(deepcopy=False))

    def outcomes(self) -> list[TrialOutcome]:
        """List the outcomes of all finished jobs, in the order of job numbers."""
        outcomes = map(read_trial, evaluations(self.trials()).values())
        return [outcome for outcome in outcomes if outcome is not None]

    def count_charged(self) -> int:
        """Return the number of jobs, including running jobs, that count towards the study's number of trials."""
        return sum(map(is_charged, evaluations(self.trials()).values()))

    def is_busy(self) -> bool:
        """Return whether jobs are running or awaiting another attempt."""
        return any(not trial.state.is_finished() for trial in evaluations(self.trials()).values())

    def stop_reason(self, rule: Mapping[str, Any]) -> str:
        """Return why the study was stopped early under ``rule``; "" if it was not stopped under this rule."""
        stopped = self.optuna.user_attrs.get(_STOPPED) or {}
        return str(stopped.get("why", "")) if stopped.get("by") == rule else ""

    def mark_stopped(self, why: str, rule: Mapping[str, Any]) -> None:
        """Record why the study is stopped, and by which rule."""
        self.optuna.set_user_attr(_STOPPED, {"why": why, "by": dict(rule)})

    # --- claiming and finishing trials ---------------------------------------------------------------------------

    def batch(self, most: int, sign: Sign) -> list[Evaluation]:
        """Claim up to ``most`` trials for this process, including trials of dead processes; return them in job order.

        The last attempt at a trial is in a batch of its own, so that another crash can be attributed to this trial.
        Return [] if there is no trial to run.
        """
        batch: list[Evaluation] = []
        with self.storage.exclusive():
            for trial in self._running():
                if not self.claims.is_alive(trial):
                    self.claims.release(trial, lost=True)
            while len(batch) < most:
                trials = self.trials()  # unchanged until the next trial starts, because the lock is held
                jobs = evaluations(trials)
                waiting = next((trial for trial in trials if trial.state.name == "WAITING"), None)  # the next to start
                retry = waiting.user_attrs.get(EVALUATION) if waiting else None
                if retry is None and sum(map(is_charged, jobs.values())) >= self.plan.n_trials:
                    break
                last = retry is not None and retry["attempt"] == ATTEMPTS
                if last and batch:
                    break
                trial = self.optuna.ask() if waiting or self._enqueue_next(trials) else None
                if trial is None:
                    break
                if evaluation := self._admit(trial, jobs, sign):
                    batch.append(evaluation)
                    if last:
                        break
        return sorted(batch, key=lambda evaluation: evaluation.job)

    def _running(self) -> list[Any]:
        return [trial for trial in self.trials() if trial.state.name == "RUNNING"]

    def _enqueue_next(self, trials: Sequence[Any]) -> bool:
        """Enqueue the next untried config of ``plan.first``, else the next grid point; return False if none is left."""
        tried = [trial.user_attrs.get(OVERRIDES) for trial in trials]
        has_begun = any(lines is not None for lines in tried)
        listed = self.plan.first[1:] if self.plan.has_zero and has_begun else self.plan.first
        first = next((config for config in listed if list(config[0]) not in tried), None)
        if first:
            overrides, located = list(first[0]), dict(first[1])
            self.optuna.enqueue_trial(located, user_attrs={OVERRIDES: overrides, LOCATED: located})
            return True
        if self.plan.sampler.get("name") != GRID:
            return count_final_duplicates(trials) < EXHAUSTED and not self._has_all_points(trials)
        number = max((trial.user_attrs.get(POINT, -1) for trial in trials), default=-1) + 1
        if (point := self._grid_point(number)) is None:
            return False
        located = self.space.optuna_values(point)
        self.optuna.enqueue_trial(located, user_attrs={POINT: number, LOCATED: located})
        return True

    def _admit(self, trial: Any, jobs: Mapping[int, Any], sign: Sign) -> Evaluation | None:
        """Claim a trial for this process and return its evaluation; ``jobs`` maps job numbers to earlier trials.

        Return None, after recording the trial's outcome, for a duplicate, for a config that cannot be composed, and for
        a trial with too many attempts.
        """
        overrides, retry = self._overrides(trial), trial.user_attrs.get(EVALUATION)
        if retry:
            attempt = retry["attempt"]
            evaluation = Evaluation(trial, retry["job"], overrides, retry["signature"], attempt, retry["retry_of"])
            fault = (
                f"its process died {ATTEMPTS} times: it was killed, or ran out of memory" if attempt > ATTEMPTS else ""
            )
        else:
            digest, fault, config = sign(overrides)
            twin = next((t for t in jobs.values() if t.user_attrs[EVALUATION]["signature"] == digest), None)
            if twin:
                trial.set_user_attr(TWIN, twin.number)
                underway = TrialOutcome(reason=f"has the same config as trial {twin.number}, which is running")
                write_outcome(self.optuna, trial, read_trial(twin) or underway)
                return None
            evaluation = Evaluation(trial, len(jobs), overrides, digest, config=config)
        self.claims.claim(trial, evaluation.facts)
        if fault:
            write_outcome(self.optuna, trial, TrialOutcome(reason=fault))
            return None
        return evaluation

    def _overrides(self, trial: Any) -> tuple[str, ...]:
        """Return the overrides with which a trial was enqueued, or else overrides with values that Optuna suggests."""
        enqueued = trial.user_attrs.get(OVERRIDES)
        if enqueued is None:
            values = self.space.suggest(trial)
            if self.plan.extend:
                self.plan.extend(trial)
            more = {key: value for key, value in trial.params.items() if key not in values}
            texts = {key: "null" if value is None else str(value) for key, value in more.items()}
            return self.space.overrides({**values, **texts})
        for parameter in self.space.parameters:
            if parameter.name in trial.user_attrs[LOCATED]:
                parameter.domain.suggest(trial, parameter.name)
        if EVALUATION in trial.user_attrs and self.plan.extend:
            self.plan.extend(trial)
        return tuple(enqueued)

    def report(self, evaluation: Evaluation, step: int, value: float) -> None:
        """Report an intermediate value of a trial; do nothing if another process has taken over the trial."""
        from optuna.exceptions import UpdateFinishedTrialError

        with suppress(UpdateFinishedTrialError):
            evaluation.trial.report(value, step)

    def finish(self, evaluation: Evaluation, outcome: TrialOutcome) -> bool:
        """Record the outcome of a trial and return True; return False if another process has taken over the trial."""
        with self.storage.exclusive():
            if evaluation.trial.number not in {trial.number for trial in self._running()}:
                return False
            for name, value in self.plan.attributes(evaluation.job).items():
                evaluation.trial.set_user_attr(name, value)
            write_outcome(self.optuna, evaluation.trial, outcome)
            return True

    def release(self, lost: bool) -> None:
        """Re-enqueue this process's running trials.

        If ``lost``, a worker died, so the current attempts count towards `ATTEMPTS`.
        """
        with self.storage.exclusive():
            for trial in self._running():
                if trial_owner(trial) == myself():
                    self.claims.release(trial, lost)

    # --- finite spaces -------------------------------------------------------------------------------------------

    def _grid_point(self, number: int) -> dict[str, str] | None:
        """Return a point by its number in the order of the grid, or None if the space has fewer points."""
        if self._points is None:
            self._points, self._unlisted = [], self.space.points()
        self._points += islice(self._unlisted, max(number + 1 - len(self._points), 0))
        return self._points[number] if number < len(self._points) else None

    def _has_all_points(self, trials: Sequence[Any]) -> bool:
        """Return whether the config of every point of a small space (see `SMALL`) has been tried.

        Return False for any other space, and for a ``custom_search_space``, whose points are unknown.
        """
        if self._points is None:
            listed = self.space.is_finite and not self.plan.extend
            self._points = list(islice(self.space.points(), SMALL + 1)) if listed else []
        if not 0 < len(self._points) <= SMALL:
            return False
        # Comparing an enqueued trial's values is not enough: its config may differ from the point in other keys.
        tried = {frozenset(trial.user_attrs[EVALUATION]["overrides"]) for trial in evaluations(trials).values()}
        repeated = (trial for trial in trials if TWIN in trial.user_attrs and OVERRIDES not in trial.user_attrs)
        drawn = {frozenset(trial.params.items()) for trial in repeated}
        if self.plan.has_zero and frozenset(self.plan.first[0][0]) in tried:
            drawn.add(frozenset(self.plan.first[0][1].items()))
        return all(
            frozenset(self.space.overrides(point)) in tried
            or frozenset(self.space.optuna_values(point).items()) in drawn
            for point in self._points
        )
