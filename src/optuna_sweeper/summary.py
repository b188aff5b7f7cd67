"""Summarise a study: its trials, the reason for an early stop, and Optuna's plots.

The file ``study.json`` and the folder ``plots`` are exported whenever a process leaves the study, so that a finished
search can be displayed without its database.
"""

import json
import logging
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from optuna_sweeper import plots
from optuna_sweeper.parameters import parse_override, parse_value
from optuna_sweeper.settings import SearchSettings
from optuna_sweeper.study import SharedStudy
from optuna_sweeper.trials import EVALUATION, OVERRIDES, REASON, TWIN, evaluations, is_abandoned, superseded

FILE = "study.json"
FORMAT = "optuna-sweeper.study/1"

_log = logging.getLogger(__name__)


def write_summary(study: SharedStudy, settings: SearchSettings, folder: Path) -> None:
    """Write a study's best trials, its summary and, with ``settings.plots``, its plots.

    The best trials are written to ``folder``. The summary and the plots are written to ``settings.folder`` or, if it is
    not set, to ``folder``.
    """
    results = OmegaConf.create(optimization_results(study.optuna, study.space.fixed))
    OmegaConf.save(results, folder / "optimization_results.yaml")
    target = Path(settings.folder) if settings.folder else folder
    plain = summarise(study, settings)
    _replace(target / FILE, json.dumps(plain, indent=1, default=str))
    if settings.plots:
        count = len(settings.directions)
        unnamed = ["objective"] if count == 1 else [f"objective {number + 1}" for number in range(count)]
        plots.draw(study.optuna, settings.objectives or unnamed, target / "plots")
    _log.info("study %s: trials %s; stopped early: %s", study.plan.name, plain["states"], plain["stopped"] or "no")


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically, because several processes may export the same study simultaneously."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".unfinished.{uuid.uuid4().hex}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def summarise(study: SharedStudy, settings: SearchSettings) -> dict[str, Any]:
    """Return a description of a study as JSON-compatible values.

    An evaluated trial has ``overrides`` and ``job``, the trial's index among the evaluated trials. A duplicate has
    ``duplicate_of``, the number of the evaluated trial with the same config. A trial with values has ``feasible``
    (false if a constraint is violated) and ``best`` (true for a feasible trial on the Pareto front that is not a
    duplicate). Abandoned trials, and trials that were replaced by another attempt, are omitted.
    """
    trials = list(_describe_trials(study))
    states = Counter("REPEATED" if TWIN in trial else trial["state"] for trial in trials)
    complete = study.count_charged() >= study.plan.n_trials  # another process may have resumed a stopped study
    return {
        "format": FORMAT,
        "study": study.plan.name,
        "sampler": dict(study.plan.sampler),
        "directions": list(study.plan.directions),
        "constraints": list(map(str, settings.constraints)),
        "n_trials": study.plan.n_trials,
        "stop": settings.stop_given,
        "stopped": "" if complete else study.stop_reason(settings.stop.plain()),
        "states": dict(states),
        "trials": trials,
    }


def _describe_trials(study: SharedStudy) -> Iterator[dict[str, Any]]:
    trials = study.trials()
    jobs = {trial.number: trial.user_attrs[EVALUATION] for trial in evaluations(trials).values()}
    best, retried = {trial.number for trial in best_trials(study.optuna)}, superseded(trials)
    for trial in trials:
        if trial.number in retried or is_abandoned(trial):
            continue
        facts: dict[str, Any] = {"trial": trial.number, "state": trial.state.name}
        if job := jobs.get(trial.number):
            facts |= {"job": job["job"], "overrides": job["overrides"]}
        if TWIN in trial.user_attrs:
            facts[TWIN] = trial.user_attrs[TWIN]
        if trial.duration is not None:
            facts["seconds"] = trial.duration.total_seconds()
        if trial.values is not None:
            broken = [name for name, value in trial.constraints.items() if value > 0]
            facts |= {"values": list(trial.values), "feasible": not broken, "best": trial.number in best}
            facts |= {"broken": broken} if broken else {}
        if reason := trial.user_attrs.get(REASON):
            facts["reason"] = reason
        yield facts


def best_trials(study: Any) -> list[Any]:
    """Return the feasible trials on the Pareto front of an Optuna study, one per config."""
    trials = [trial for trial in study.best_trials if TWIN not in trial.user_attrs]
    return [trial for trial in trials if all(value <= 0 for value in trial.constraints.values())]


def optimization_results(study: Any, fixed: Sequence[str] = ()) -> dict[str, Any]:
    """Return the content of ``optimization_results.yaml``, in the format of hydra-optuna-sweeper.

    The overrides in ``fixed``, which all trials share, are omitted.
    """
    found = [(_values(trial, fixed), list(trial.values)) for trial in best_trials(study)]
    if len(study.directions) > 1:
        return {"name": "optuna", "solutions": [{"params": params, "values": values} for params, values in found]}
    return {"name": "optuna", **({"best_params": found[0][0], "best_value": found[0][1][0]} if found else {})}


def _values(trial: Any, fixed: Sequence[str]) -> dict[str, Any]:
    """Map keys to a trial's values, including the values of an enqueued config that are outside the space."""
    lines = [parse_override(line, "") for line in trial.user_attrs.get(OVERRIDES, ()) if line not in fixed]
    drawn = {name: parse_value(value) if isinstance(value, str) else value for name, value in trial.params.items()}
    return {**{one.get_key_element(): one.value() for one in lines}, **drawn}
