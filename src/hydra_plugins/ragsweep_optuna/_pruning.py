"""Race by one of Optuna's pruners, fed with what jobs report."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from hydra.errors import HydraException

from ragsweep.sweep.race_loop import Rung

PRUNERS: Mapping[str, str] = {"wilcoxon": "WilcoxonPruner", "median": "MedianPruner"}
Steps = Mapping[int, float]
"""What one job measured of each instance."""


class Pruning:
    """A race for jobs that return ``{"values": ..., "steps": {instance: score}}``.

    A job whose config says ``key``=N evaluates its first N instances, in an order that all jobs share; without it all.
    The race ends when a job reports less than it was asked for, or as many as it says there are under ``of``. Jobs of
    earlier batches stay what others are compared with, as far as this process saw them.
    """

    def __init__(self, name: str, key: str, block: int, direction: str, **options: Any) -> None:
        if name not in PRUNERS:
            raise HydraException(f"hydra.sweeper.race.name: no pruner {name!r}; known: {', '.join(PRUNERS)}")
        if isinstance(block, bool) or not isinstance(block, int) or block < 1:
            raise HydraException(f"hydra.sweeper.race.block: must be a whole number of at least 1, given {block!r}")
        if direction not in ("maximize", "minimize"):
            raise HydraException(f"hydra.sweeper.race.direction: must be minimize or maximize, given {direction!r}")
        self.name, self.key, self.block, self.direction, self.options = name, key, block, direction, options
        self._whole: dict[int, Steps] = {}

    def begin(self, jobs: Sequence[int]) -> Rung:
        """Ask every job its first block, where there is anything to compare it with."""
        return Rung(self.block if len(jobs) + len(self._whole) > 1 else None)

    def look(self, until: int, returned: Mapping[int, Any]) -> Rung:
        """Ask the pruner about each job."""
        steps = {number: steps_of(one) for number, one in returned.items()}
        asked = max(map(len, steps.values()), default=0)
        known = {number: {step: one[step] for step in one if step < asked} for number, one in self._whole.items()}
        known = {number: one for number, one in known.items() if len(one) == asked and number not in steps}
        dropped = pruned(self.name, self.options, self.direction, {**known, **steps})
        of = max((int(one.get("of") or 0) for one in returned.values() if isinstance(one, Mapping)), default=0)
        rivals = len(known) + len(steps) - len(set(dropped) & steps.keys())
        over = asked < until or rivals < 2 or 0 < of <= asked + self.block
        return Rung(None if over else asked + self.block, tuple(number for number in dropped if number in steps))

    def end(self, returned: Mapping[int, Any]) -> None:
        """Keep what whole jobs reported: later ones are compared with it."""
        self._whole |= {number: found for number, one in returned.items() if (found := steps_of(one, strict=False))}


def steps_of(returned: Any, strict: bool = True) -> dict[int, float]:
    """Read what a job reports: its instances by number, from 0. Raises HydraException for a job that reports none."""
    steps: Any = returned.get("steps") if isinstance(returned, Mapping) else None
    if isinstance(steps, Sequence) and not isinstance(steps, str):
        steps = dict(enumerate(steps))
    if not steps and strict:
        raise HydraException('hydra.sweeper.race: a job must return {"values": ..., "steps": {instance: score}}')
    return {int(step): float(value) for step, value in (steps or {}).items()}


def pruned(name: str, options: Mapping[str, Any], direction: str, steps: Mapping[int, Steps]) -> tuple[int, ...]:
    """Name the jobs that a pruner would stop, each beside all others, which count as whole as far as they were asked.

    The median pruner compares means so far; the signed-rank test compares instance by instance, without those that any
    job could not be scored on.
    """
    import optuna
    from optuna.trial import TrialState, create_trial

    rows = {number: _reported(name, steps, number) for number in steps}
    if not all(rows.values()):
        return ()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        pruner = getattr(optuna.pruners, PRUNERS[name])(**options)
    better: Any = direction
    study = optuna.create_study(direction=better)
    for row in rows.values():
        mean = sum(row.values()) / len(row)
        study.add_trial(create_trial(state=TrialState.COMPLETE, value=mean, intermediate_values=dict(row)))
    running = {n: create_trial(state=TrialState.RUNNING, intermediate_values=dict(row)) for n, row in rows.items()}
    return tuple(number for number, trial in running.items() if pruner.prune(study, trial))


def _reported(name: str, steps: Mapping[int, Steps], number: int) -> dict[int, float]:
    known = [step for step in steps[number] if all(math.isfinite(one.get(step, math.nan)) for one in steps.values())]
    if name == "wilcoxon" or not known:
        return {step: steps[number][step] for step in known}
    return {len(steps[number]): sum(steps[number][step] for step in known) / len(known)}
