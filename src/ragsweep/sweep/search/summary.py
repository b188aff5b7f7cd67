"""Summarise a study: the trial of each job, the reason for its end, and Optuna's plots.

The file ``study.json`` and the folder ``plots`` are in a folder of the search, beside the ledger; they are exported
whenever a process leaves the study, so that a finished search is shown and synchronised without its database.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ragsweep.core.replacing import replace_file
from ragsweep.sweep.search import plots
from ragsweep.sweep.search.settings import SearchSettings
from ragsweep.sweep.search.study import SharedStudy
from ragsweep.sweep.search.trials import EVALUATION, REASON, TWIN, evaluations, superseded

FILE = "study.json"
FORMAT = "optuna-sweeper.study/1"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StudySummary:
    """The summary of a study."""

    study: str = ""
    sampler: str = ""
    states: Mapping[str, int] = field(default_factory=dict)
    n_trials: int = 0
    stopped: str = ""  # why it ended early
    stop: Any = None  # the configured rule of the early end
    trials: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # by job number
    pictures: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether the study was stopped, or no trial is running."""
        return bool(self.stopped) or not {"RUNNING", "WAITING"} & self.states.keys()

    def broken(self) -> dict[int, str]:
        """Return the constraints that each infeasible job violates."""
        return {job: ", ".join(trial["broken"]) for job, trial in self.trials.items() if trial.get("broken")}

    def tags(self) -> dict[str, str]:
        """Return the tags of the parent run."""
        words = {state: "failed" if state == "FAIL" else state.lower() for state in sorted(self.states)}
        counts = ", ".join(f"{self.states[state]} {word}" for state, word in words.items())
        tags = {"study": self.study, "sampler": self.sampler, "trials": counts, "stopped": self.stopped}
        return {f"ragsweep.{name}": value for name, value in tags.items() if value}

    def trial_tags(self) -> dict[int, dict[str, str]]:
        """Return the tags of each job's run."""
        tags = {}
        for job, trial in self.trials.items():
            tags[job] = {"ragsweep.trial": str(trial["trial"]), "ragsweep.trial_state": str(trial["state"])}
            if "seconds" in trial:
                tags[job]["ragsweep.trial_seconds"] = f"{trial['seconds']:.3f}"
        return tags


def study_folder(ledger: Path, sweep: str) -> Path:
    """Return the folder of a search's summary; ``ledger`` is the ledger's file."""
    return ledger.parent / "searches" / sweep


def read_summary(folder: Path) -> StudySummary | None:
    """Read the summary of a search; None if it is missing or unreadable."""
    try:
        plain = json.loads((folder / FILE).read_text(encoding="utf-8"))
        assert plain["format"] == FORMAT
        return StudySummary(
            **{key: plain[key] for key in ("study", "states", "n_trials", "stopped", "stop")},
            sampler=str(plain["sampler"].get("name", "")),
            trials={int(trial["job"]): trial for trial in plain["trials"] if "job" in trial},
            pictures={f"plots/{path.name}": path.read_bytes() for path in sorted((folder / "plots").glob("*.*"))},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError):
        return None


def write_summary(study: SharedStudy, settings: SearchSettings, folder: Path) -> None:
    """Write a study's best trials to the sweep's folder, and its summary and plots to the search's folder."""
    OmegaConf.save(OmegaConf.create(optimization_results(study.optuna)), folder / "optimization_results.yaml")
    target = Path(settings.folder) if settings.folder else folder
    plain = summarise(study, settings)
    replace_file(target / FILE, json.dumps(plain, indent=1, default=str).encode())
    if settings.plots:
        names, count = settings.objectives, len(settings.directions)
        if len(names) != count:
            names = ("objective",) if count == 1 else tuple(f"objective {number + 1}" for number in range(count))
        plots.draw(study.optuna, names, target / "plots")
    _log.info("study %s: %s %s", study.plan.name, plain["states"], plain["stopped"])


def summarise(study: SharedStudy, settings: SearchSettings) -> dict[str, Any]:
    """Describe a study in JSON types.

    A trial has ``job``, its number among the evaluations, and ``overrides``, or ``duplicate_of`` if an earlier trial
    had the same config. ``feasible`` is false if a constraint is violated; a ``best`` trial is not dominated.
    """
    trials = list(_describe_trials(study))
    states = Counter("REPEATED" if TWIN in trial else trial["state"] for trial in trials)
    complete = study.count_charged() >= study.plan.n_trials  # another process may have continued a stopped study
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
        if trial.number in retried:
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
    """Return the feasible, non-dominated trials of an Optuna study, each config once."""
    trials = [trial for trial in study.best_trials if TWIN not in trial.user_attrs]
    return [trial for trial in trials if all(value <= 0 for value in trial.constraints.values())]


def optimization_results(study: Any) -> dict[str, Any]:
    """Return the content of ``optimization_results.yaml``, in the format of Hydra's former plugin."""
    best = best_trials(study)
    if len(study.directions) == 1:
        return {"name": "optuna", **({"best_params": best[0].params, "best_value": best[0].value} if best else {})}
    return {"name": "optuna", "solutions": [{"params": each.params, "values": list(each.values)} for each in best]}
