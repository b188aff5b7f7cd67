"""Store the owner of a trial as an attribute of the trial, and the owners' heartbeats as attributes of the study."""

import time
from collections.abc import Mapping
from typing import Any

from optuna_sweeper.processes import Holder, Liveness, myself
from optuna_sweeper.trials import EVALUATION, LOCATED, OVERRIDES, POINT, superseded


class TrialClaims(Liveness[Any]):
    """Claims on the running trials of a study.

    The caller must hold the storage's lock, except when it calls ``beat``. ``is_shared``: whether several processes may
    share the study; if not, no heartbeats are sent.
    """

    def __init__(self, study: Any, lapse: float, is_shared: bool) -> None:
        super().__init__(lapse / 6, lapse)
        self._study, self._is_shared = study, is_shared

    def claim(self, work: Any, facts: Mapping[str, Any] = {}) -> Holder | None:
        """Claim a trial as `Liveness.claim` does; record ``facts`` about the trial's evaluation with the claim."""
        if self.is_alive(work) and (owner := trial_owner(work)) != myself():
            return owner
        if self._is_shared and self.start():
            self.beat()
        work.set_user_attr(EVALUATION, {**work.user_attrs.get(EVALUATION, {}), **facts, "owner": [*myself()]})
        return None

    def release(self, work: Any, lost: bool = False) -> None:
        """Re-enqueue a running trial, then mark it as failed.

        If ``lost``, the trial's process died, so the attempt counts towards the maximum number of attempts. A trial
        that was sampled but never claimed is only marked as failed. If this process dies between the two steps, no
        trial is lost: a later call marks the old trial as failed.
        """
        from optuna.trial import TrialState

        attributes = {key: work.user_attrs[key] for key in (OVERRIDES, LOCATED, POINT) if key in work.user_attrs}
        if previous := work.user_attrs.get(EVALUATION):
            again = {"attempt": previous["attempt"] + lost, "retry_of": work.number, "owner": None}
            attributes |= {EVALUATION: previous | again, OVERRIDES: previous["overrides"], LOCATED: dict(work.params)}
        trials = self._study.get_trials(deepcopy=False)
        if attributes and work.number not in superseded(trials):
            self._study.enqueue_trial(attributes.get(LOCATED, {}), user_attrs=attributes)
        self._study.tell(work.number, state=TrialState.FAIL)

    def is_alive(self, work: Any) -> bool:
        """Return whether a living process owns a trial.

        Another process without a recent heartbeat counts as dead, even on this machine.
        """
        owner = trial_owner(work)
        if owner is None or owner == myself():
            return owner is not None
        silent = time.time() - self._study.user_attrs.get(_heartbeat_key(owner), 0.0)
        return silent < self._lapse and owner.lives(silent, self._lapse)

    def beat(self) -> None:
        """Write this process's heartbeat to the study."""
        self._study.set_user_attr(_heartbeat_key(myself()), time.time())


def trial_owner(trial: Any) -> Holder | None:
    """Return the process that has recorded a claim on a trial, or None."""
    owner = trial.user_attrs.get(EVALUATION, {}).get("owner")
    return Holder(*owner) if owner else None


def _heartbeat_key(holder: Holder) -> str:
    return f"heartbeat {holder.host} {holder.process} {holder.started}"
