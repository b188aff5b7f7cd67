"""Sum up a study: which trial each job was, why the study ended, and Optuna's plots.

The file ``study.json`` and the folder ``plots`` lie in a folder of the search, beside the ledger; they are derived from
the study whenever a process leaves it, so that a finished search is shown and synchronised without its database.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragsweep.sweep.search.settings import SearchSettings
from ragsweep.sweep.search.study import SharedStudy
from ragsweep.sweep.search.trials import EVALUATION, REASON, TWIN, evaluations, retried

FOLDER, FILE = "searches", "study.json"
FORMAT = "optuna-sweeper.study/1"
STUDY, SAMPLER, TRIALS = "ragsweep.study", "ragsweep.sampler", "ragsweep.trials"
TRIAL, STATE, SECONDS, STOPPED = (
    "ragsweep.trial", "ragsweep.trial_state", "ragsweep.trial_seconds", "ragsweep.stopped"
)  # fmt: skip
WORDS = {"COMPLETE": "complete", "FAIL": "failed", "PRUNED": "pruned", "REPEATED": "repeated", "RUNNING": "running",
         "WAITING": "waiting"}  # fmt: skip


@dataclass(frozen=True)
class StudySummary:
    """The summary of a study."""

    study: str = ""
    sampler: str = ""
    states: Mapping[str, int] = field(default_factory=dict)
    n_trials: int = 0
    stopped: str = ""  # why it ended before it had all of its trials
    stop: Any = None  # the rule under which it did, as configured
    constraints: tuple[str, ...] = ()
    trials: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # by the number of the job
    pictures: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether the study was stopped, or no trial is under way."""
        return bool(self.stopped) or not {"RUNNING", "WAITING"} & self.states.keys()

    def broken(self) -> dict[int, str]:
        """Return the constraints that each infeasible job breaks."""
        names = {job: ", ".join(one.get("broken", ())) for job, one in self.trials.items()}
        return {job: text for job, text in names.items() if text}

    def tags(self) -> dict[str, str]:
        """Return the tags of the parent run."""
        counts = ", ".join(f"{count} {WORDS.get(state, state)}" for state, count in sorted(self.states.items()))
        found = {STUDY: self.study, SAMPLER: self.sampler, TRIALS: counts, STOPPED: self.stopped}
        return {name: value for name, value in found.items() if value}

    def trial_tags(self) -> dict[int, dict[str, str]]:
        """Return the tags of each job's run."""
        found = {}
        for job, one in self.trials.items():
            found[job] = {TRIAL: str(one["trial"]), STATE: str(one["state"])}
            if "seconds" in one:
                found[job][SECONDS] = f"{one['seconds']:.3f}"
        return found


def study_folder(ledger: Path, sweep: str) -> Path:
    """Return the folder of a search's summary; ``ledger`` is the ledger's file."""
    return ledger.parent / FOLDER / sweep


def read_summary(folder: Path) -> StudySummary | None:
    """Read the summary of a search; None where there is none that can be read."""
    try:
        plain = json.loads((folder / FILE).read_text(encoding="utf-8"))
        assert plain["format"] == FORMAT
        return StudySummary(
            plain["study"],
            str(plain["sampler"].get("name", "")),
            plain["states"],
            int(plain["n_trials"]),
            plain["stopped"],
            plain["stop"],
            tuple(plain["constraints"]),
            {int(one["job"]): one for one in plain["trials"] if "job" in one},
            {f"plots/{path.name}": path.read_bytes() for path in sorted((folder / "plots").glob("*.png"))},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError):
        return None


def write_summary(plain: Mapping[str, Any], folder: Path) -> None:
    """Write the summary in one piece."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{FILE}.{os.getpid()}.partial"  # several processes may end at once
    partial.write_text(json.dumps(plain, indent=1, default=str), encoding="utf-8")
    partial.replace(folder / FILE)


def summarise(study: SharedStudy, settings: SearchSettings) -> dict[str, Any]:
    """Describe a study in JSON types.

    A trial has ``job``, its number among the evaluations, and ``overrides``, or ``duplicate_of`` where an earlier trial
    had the same config. ``feasible`` is false where a constraint is broken; a ``best`` trial is not dominated.
    """
    trials = list(_describe_trials(study))
    states = Counter("REPEATED" if TWIN in one else one["state"] for one in trials)
    complete = study.charged() >= study.plan.n_trials  # another process may have gone on where one stopped
    return {
        "format": FORMAT,
        "study": study.plan.name,
        "sampler": dict(study.plan.sampler),
        "directions": list(study.plan.directions),
        "constraints": [str(one) for one in settings.constraints],
        "n_trials": study.plan.n_trials,
        "stop": settings.stop_given,
        "stopped": "" if complete else study.stopped(settings.stop.plain()),
        "states": dict(states),
        "trials": trials,
    }


def best_trials(study: Any) -> list[Any]:
    """Return the feasible trials of an Optuna study that no other one dominates, each config once."""
    found = [trial for trial in study.best_trials if TWIN not in trial.user_attrs]
    return [trial for trial in found if all(value <= 0 for value in trial.constraints.values())]


def optimization_results(study: Any) -> dict[str, Any]:
    """Return the content of ``optimization_results.yaml``, in the form of Hydra's former plugin."""
    best = best_trials(study)
    if len(study.directions) == 1:
        return {"name": "optuna", **({"best_params": best[0].params, "best_value": best[0].value} if best else {})}
    return {"name": "optuna", "solutions": [{"params": one.params, "values": list(one.values)} for one in best]}


def _describe_trials(study: SharedStudy) -> Iterator[dict[str, Any]]:
    trials = study.trials()
    jobs = {trial.number: trial.user_attrs[EVALUATION] for trial in evaluations(trials).values()}
    best, superseded = {trial.number for trial in best_trials(study.optuna)}, retried(trials)
    for trial in trials:
        if trial.number in superseded:
            continue
        found: dict[str, Any] = {"trial": trial.number, "state": trial.state.name}
        if known := jobs.get(trial.number):
            found |= {"job": known["job"], "overrides": known["overrides"]}
        if TWIN in trial.user_attrs:
            found[TWIN] = trial.user_attrs[TWIN]
        if trial.duration is not None:
            found["seconds"] = trial.duration.total_seconds()
        if trial.values is not None:
            broken = [name for name, value in trial.constraints.items() if value > 0]
            found |= {"values": list(trial.values), "feasible": not broken, "best": trial.number in best}
            found |= {"broken": broken} if broken else {}
        if reason := trial.user_attrs.get(REASON):
            found["reason"] = reason
        yield found


def objective_names(given: Sequence[str], objectives: int) -> tuple[str, ...]:
    """Return the names of the objectives: as configured, else by their positions."""
    if len(given) == objectives:
        return tuple(given)
    return ("objective",) if objectives == 1 else tuple(f"objective {number + 1}" for number in range(objectives))
