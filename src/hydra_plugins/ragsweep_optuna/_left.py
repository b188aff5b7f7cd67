"""What a search leaves behind for whoever launched it: one JSON file about the study and its trials, and pictures."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hydra_plugins.ragsweep_optuna._settings import Settings
from hydra_plugins.ragsweep_optuna._study import Study

STUDY_FORMAT = "optuna-sweeper.study/1"
FILE = "study.json"


def describe(study: Study, settings: Settings) -> dict[str, Any]:
    """Put the study into JSON types: what was asked, why it ended early, how many trials ended how, and each of them.

    A trial has ``job``, the number under which it was launched, and its ``overrides``, or ``duplicate_of`` where an
    earlier trial had the same config. ``feasible`` is false where a constraint is broken; ``best``: no other one is
    better in everything.
    """
    trials = list(_trials(study))
    states = Counter("REPEATED" if "duplicate_of" in one else one["state"] for one in trials)
    whole = study.evaluations.charged() >= study.asked.n_trials  # another process may have gone on where one stopped
    return {
        "format": STUDY_FORMAT,
        "study": study.asked.name,
        "sampler": dict(study.asked.sampler),
        "directions": list(study.asked.directions),
        "constraints": [str(bound) for bound in settings.bounds],
        "n_trials": study.asked.n_trials,
        "stop": settings.stop_given,
        "stopped": "" if whole else study.stopped(settings.stop.plain()),
        "states": dict(states),
        "trials": trials,
    }


def best_trials(study: Any) -> list[Any]:
    """List what no other trial of Optuna's study beats, of those that keep all constraints, each config once."""
    found = [trial for trial in study.best_trials if "duplicate_of" not in trial.user_attrs]
    return [trial for trial in found if all(value <= 0 for value in trial.constraints.values())]


def summary(study: Any) -> dict[str, Any]:
    """Say what came of Optuna's study, in the words of Hydra's former plugin."""
    best = best_trials(study)
    if len(study.directions) == 1:
        return {"name": "optuna", **({"best_params": best[0].params, "best_value": best[0].value} if best else {})}
    return {"name": "optuna", "solutions": [{"params": one.params, "values": list(one.values)} for one in best]}


def write(described: Mapping[str, Any], folder: Path) -> None:
    """Write the file, all of it or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{FILE}.{os.getpid()}.partial"  # several processes may end at once
    partial.write_text(json.dumps(described, indent=1, default=str), encoding="utf-8")
    partial.replace(folder / FILE)


def _trials(study: Study) -> Iterator[dict[str, Any]]:
    numbers = {one.trial: one for one in study.evaluations.all()}
    best = {trial.number for trial in best_trials(study.optuna)}
    for trial in study.optuna.get_trials(deepcopy=False):
        found: dict[str, Any] = {"trial": trial.number, "state": trial.state.name}
        if (evaluated := numbers.get(trial.number)) is not None:
            found |= {"job": evaluated.number, "overrides": list(evaluated.overrides)}
        if "duplicate_of" in trial.user_attrs:
            found["duplicate_of"] = trial.user_attrs["duplicate_of"]
        if trial.duration is not None:
            found["seconds"] = trial.duration.total_seconds()
        if trial.values is not None:
            broken = [name for name, value in trial.constraints.items() if value > 0]
            found |= {"values": list(trial.values), "feasible": not broken, "best": trial.number in best}
            found |= {"broken": broken} if broken else {}
        if reason := trial.user_attrs.get("reason"):
            found["reason"] = reason
        yield found
