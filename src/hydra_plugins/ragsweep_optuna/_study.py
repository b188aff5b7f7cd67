"""A study: made once, continued by whoever names it again, and asked for the next trial by one process at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from hydra.errors import HydraException

from hydra_plugins.ragsweep_optuna._evaluations import Evaluation, Evaluations
from hydra_plugins.ragsweep_optuna._outcomes import Outcome
from hydra_plugins.ragsweep_optuna._samplers import GRID, seeded
from hydra_plugins.ragsweep_optuna._space import Space
from hydra_plugins.ragsweep_optuna._storage import Storage

ATTEMPTS = 3
"""How often a trial is begun whose process dies."""

REPEATED = 20
"""Duplicates in a row after which trials are drawn at random: the sampler has settled on what is known."""

EXHAUSTED = 200
"""Duplicates in a row after which the space counts as exhausted."""

LISTED = 1000
"""Points of a space that is so small that it is known when it is exhausted."""

_IDENTITY, _OVERRIDES, _PLACED, _POINT, _TWIN = "identity", "overrides", "placed", "point", "duplicate_of"
_STOPPED = "stopped"


@dataclass(frozen=True)
class Asked:
    """What a study is to find out, and how."""

    name: str
    directions: tuple[str, ...]
    subject: str  # what is measured: a study goes on only with the same
    sampler: Mapping[str, Any]
    n_trials: int
    first: tuple[tuple[tuple[str, ...], Mapping[str, Any]], ...] = ()  # overrides, and where that is in the space
    lapse: float = 90.0
    extend: Callable[[Any], None] | None = None  # upstream's custom_search_space, the config given already

    def identity(self, space: Space) -> dict[str, Any]:
        """Spell out what must stay the same when a study is continued."""
        return {"space": space.described(), "direction": list(self.directions), "subject": self.subject}


def digest(plain: Any) -> str:
    """Hash plain values."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


@dataclass
class Study:
    """A study that this process works on."""

    asked: Asked
    space: Space
    storage: Storage
    evaluations: Evaluations
    optuna: Any  # Optuna's own study
    _points: list[dict[str, str]] | None = field(default=None, repr=False)

    def batch(self, most: int, sign: Callable[[Sequence[str]], tuple[str, str]]) -> list[Evaluation]:
        """Take up to ``most`` trials for this process: those of the dead first, then new ones.

        Args:
            most: How many.
            sign: Overrides -> the signature of their config, and why it cannot be composed or an empty text.
        """
        with self.storage.turn():
            self.tell_settled()
            taken = [one for one in self.evaluations.take_over(most, ATTEMPTS) if self._may_run(one)]
            if any(one.token == ATTEMPTS for one in taken):
                return taken
            while len(taken) < most and self.evaluations.charged() < self.asked.n_trials:
                trial = self._next()
                if trial is None:
                    break
                one = self._admit(trial, sign)
                taken += [one] if one else []
            return taken

    def settle(self, one: Evaluation, outcome: Outcome) -> bool:
        """Write an outcome down, then tell Optuna; False where the trial was taken over meanwhile."""
        kept = self.evaluations.settle(one, outcome)
        if kept:
            self._tell(one, outcome)
        return kept

    def report(self, one: Evaluation, step: int, value: float) -> None:
        """Tell Optuna what a trial measured so far."""
        from optuna.exceptions import UpdateFinishedTrialError

        known = self._storage.get_trial_id_from_study_id_trial_number(self.optuna._study_id, one.trial)
        with suppress(UpdateFinishedTrialError):  # it was taken over, and told
            self._storage.set_trial_intermediate_value(known, step, value)

    def tell_settled(self) -> None:
        """Tell Optuna what is settled: a process may have died in between."""
        for one in self.evaluations.untold():
            assert one.outcome is not None
            self._tell(one, one.outcome)

    def busy(self) -> bool:
        """Say whether trials are under way, of whatever process."""
        return any(one.outcome is None for one in self.evaluations.all())

    def stopped(self, by: Mapping[str, Any]) -> str:
        """Say why the study was ended before it had all of its trials, under the same settings; else nothing."""
        known = self.optuna.user_attrs.get(_STOPPED) or {}
        return str(known.get("why", "")) if known.get("by") == by else ""

    def stopped_by(self, why: str, by: Mapping[str, Any]) -> None:
        """Note why the study is ended, and under which settings."""
        self.optuna.set_user_attr(_STOPPED, {"why": why, "by": dict(by)})

    def exhausted(self) -> bool:
        """Say whether nothing new is found any more."""
        if self.asked.sampler.get("name") == GRID:
            return self._next_point() is None
        return self._straight() >= EXHAUSTED or self._all_known()

    def _may_run(self, one: Evaluation) -> bool:
        if one.token <= ATTEMPTS:
            return True
        self.settle(one, Outcome(reason=f"its process died {ATTEMPTS} times: killed, or out of memory"))
        return False

    def _next(self) -> Any:
        """Return the next trial to be evaluated, or None where there is none."""
        import optuna

        known = {one.trial for one in self.evaluations.all()}
        trials = self.optuna.get_trials(deepcopy=False)
        for trial in trials:
            # Only one process asks at a time: this trial's died before it was admitted.
            if trial.state == optuna.trial.TrialState.RUNNING and trial.number not in known:
                return optuna.trial.Trial(self.optuna, trial._trial_id)
        if not any(trial.state == optuna.trial.TrialState.WAITING for trial in trials):
            if self.exhausted():
                return None
            if self.asked.sampler.get("name") == GRID:
                number = self._next_point()
                assert number is not None
                self.optuna.enqueue_trial(self._placed(number), user_attrs={_POINT: number})
        return self.optuna.ask()

    def _admit(self, trial: Any, sign: Callable[[Sequence[str]], tuple[str, str]]) -> Evaluation | None:
        """Take a trial for this process; None for one whose config is known, or cannot be composed."""
        overrides = self._overrides(trial)
        signature, fault = sign(overrides)
        found = self.evaluations.admit(trial.number, signature, overrides)
        if isinstance(found, Evaluation):
            if not fault:
                return found
            self.settle(found, Outcome(reason=fault))
            return None
        twin = next(one for one in self.evaluations.all() if one.trial == found)
        self._set(trial.number, {_TWIN: found})
        known = twin.outcome or Outcome(reason=f"has the config of trial {found}, which is under way")
        self._finish(trial.number, known)
        return None

    def _overrides(self, trial: Any) -> tuple[str, ...]:
        """Let a trial decide its values, and write them out."""
        enqueued = trial.user_attrs.get(_OVERRIDES)
        if enqueued is not None:
            placed = trial.user_attrs[_PLACED]
            for one in self.space.parameters:
                if one.name in placed:
                    one.domain.suggest(trial, one.name)
            return tuple(enqueued)
        values = self.space.suggest(trial)
        if self.asked.extend:
            self.asked.extend(trial)
        more = {key: str(value) for key, value in trial.params.items() if key not in values}
        return self.space.overrides({**values, **more})

    def _tell(self, one: Evaluation, outcome: Outcome) -> None:
        self._set(one.trial, {"evaluation": one.number})
        self._finish(one.trial, outcome)
        self.evaluations.told(one.trial)

    def _finish(self, trial: int, outcome: Outcome) -> None:
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        with suppress(UpdateFinishedTrialError):  # another process told it, as it is written down
            if outcome.reason:
                self._set(trial, {"reason": outcome.reason})
                self.optuna.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
                return
            if outcome.pruned:
                self.optuna.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
                return
            for name, violation in outcome.violations:
                # What Trial.set_constraint does; a Trial, which would ask the sampler again, is not at hand.
                known = self._storage.get_trial_id_from_study_id_trial_number(self.optuna._study_id, trial)
                self._storage.set_trial_system_attr(known, f"constraints:{name}", violation)
            self.optuna.tell(trial, list(outcome.values), skip_if_finished=True)

    def _set(self, trial: int, attributes: Mapping[str, Any]) -> None:
        from optuna.exceptions import UpdateFinishedTrialError

        known = self._storage.get_trial_id_from_study_id_trial_number(self.optuna._study_id, trial)
        with suppress(UpdateFinishedTrialError):
            for key, value in attributes.items():
                self._storage.set_trial_user_attr(known, key, value)

    @property
    def _storage(self) -> Any:
        return self.optuna._storage  # Optuna's own, which remembers what it read

    def _straight(self) -> int:
        """Count the duplicates that the study ends with."""
        count = 0
        for trial in reversed(self.optuna.get_trials(deepcopy=False)):
            if trial.state.is_finished():
                if _TWIN not in trial.user_attrs:
                    break
                count += 1
        return count

    def _all_known(self) -> bool:
        """Say whether each point of a small space has a trial."""
        if self._points is None:
            ends = all(one.domain.listed() is not None for one in self.space.parameters)
            self._points = list(islice(self.space.points(), LISTED + 1)) if ends else []
        if not 0 < len(self._points) <= LISTED:
            return False
        known = {frozenset(trial.params.items()) for trial in self.optuna.get_trials(deepcopy=False)}
        return all(frozenset(self.space.named(point).items()) in known for point in self._points)

    def _next_point(self) -> int | None:
        """Return the number of the first point of the grid that no trial has, or None behind the last."""
        if self._points is None:
            self._points = list(self.space.points())
        made = [trial.user_attrs.get(_POINT, -1) for trial in self.optuna.get_trials(deepcopy=False)]
        number = max(made, default=-1) + 1
        return number if number < len(self._points) else None

    def _placed(self, number: int) -> dict[str, Any]:
        assert self._points is not None
        return self.space.named(self._points[number])


def open_study(asked: Asked, space: Space, storage: Storage) -> Study:
    """Make a study, or take up the one of this name. Raises HydraException where that asked for something else."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = seeded(asked.sampler)
    directions: Any = list(asked.directions)
    with storage.turn():
        made = optuna.create_study(
            study_name=asked.name, storage=storage.optuna, sampler=sampler, directions=directions,
            load_if_exists=True,
        )  # fmt: skip
        identity = asked.identity(space)
        before = made.user_attrs.get(_IDENTITY)
        if before is None:
            made.set_user_attr(_IDENTITY, identity)
        elif differing := list(_differing(before, identity)):
            raise HydraException(
                f'hydra.sweeper.study_name: study "{asked.name}" was begun with another {" and ".join(differing)};'
                " give another name, or the same command"
            )
        there = [trial.user_attrs.get(_OVERRIDES) for trial in made.get_trials(deepcopy=False)]
        for overrides, placed in asked.first:
            if list(overrides) not in there:
                made.enqueue_trial(dict(placed), user_attrs={_OVERRIDES: list(overrides), _PLACED: list(placed)})
    study = Study(asked, space, storage, Evaluations(storage, asked.name, asked.lapse), made)
    sampler.blind = lambda: study._straight() >= REPEATED
    return study


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for key in now:
        if before.get(key) != now[key]:
            yield key
