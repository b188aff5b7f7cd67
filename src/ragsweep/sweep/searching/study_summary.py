"""Read the summary of an Optuna study that the sweeper writes to a folder next to the ledger."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optuna_sweeper.summary import FILE, FORMAT
from optuna_sweeper.trials import read_constraints
from ragsweep.core.results import Result


@dataclass(frozen=True)
class StudySummary:
    """The summary of an Optuna study, read from the files that the sweeper writes."""

    study: str = ""
    sampler: str = ""
    states: Mapping[str, int] = field(default_factory=dict)  # state -> number of trials
    n_trials: int = 0
    stopped: str = ""  # why the search ended early; "" if it did not end early
    stop: Any = None  # the configured stop rule
    directions: Sequence[str] = ()  # "maximize" or "minimize", one per objective
    constraints: Sequence[str] = ()  # of the search, such as "latency <= 800"
    trials: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # job number -> trial, as JSON
    pictures: Mapping[str, bytes] = field(default_factory=dict)  # path, ``plots/NAME`` -> plot

    @property
    def ended(self) -> bool:
        """Whether the study was stopped early, or no trial is running or waiting."""
        return bool(self.stopped) or not {"RUNNING", "WAITING"} & self.states.keys()

    def exhausted(self) -> str:
        """Return a message if a search that was not stopped has fewer than ``n_trials`` trials; "" otherwise."""
        if self.stopped or len(self.trials) >= self.n_trials:
            return ""
        return f"{len(self.trials)} of {self.n_trials} trials: the search found no config that differs from these"

    def broken(self) -> dict[int, str]:
        """Map each job with an infeasible trial to the constraints that it violates, separated by commas."""
        return {job: ", ".join(trial["broken"]) for job, trial in self.trials.items() if trial.get("broken")}

    def broken_on_holdout(self, result: Result) -> str:
        """Return the constraints that a finalist's result violates, as text separated by commas; "" if it meets all."""
        known = {name: summary.value for name, summary in result.summaries.metrics.items()}
        limits = read_constraints([*self.constraints])
        return ", ".join(str(one) for one in limits if not one.violation(known.get(one.name, math.nan)) <= 0)

    def tags(self) -> dict[str, str]:
        """Return the study's tags for the sweep's parent run; tags without a value are omitted."""
        words = {state: "failed" if state == "FAIL" else state.lower() for state in sorted(self.states)}
        counts = ", ".join(f"{self.states[state]} {word}" for state, word in words.items())
        tags = {"study": self.study, "sampler": self.sampler, "trials": counts, "stopped": self.stopped}
        return {f"ragsweep.{name}": value for name, value in tags.items() if value}

    def trial_tags(self) -> dict[int, dict[str, str]]:
        """Map each job to the tags for its run: its trial's number, state and, if known, seconds."""
        tags = {}
        for job, trial in self.trials.items():
            tags[job] = {"ragsweep.trial": str(trial["trial"]), "ragsweep.trial_state": str(trial["state"])}
            if "seconds" in trial:
                tags[job]["ragsweep.trial_seconds"] = f"{trial['seconds']:.3f}"
        return tags


def study_folder(ledger: Path, sweep: str) -> Path:
    """Return the folder of a search's summary; ``ledger`` is the ledger's file, and ``sweep`` is the search's id."""
    return ledger.parent / "searches" / sweep


def read_summary(ledger: Path, sweep: str) -> StudySummary | None:
    """Read the summary of a search; return None if it is missing, unreadable or in another format.

    ``ledger`` is the ledger's file, and ``sweep`` is the search's id.
    """
    folder = study_folder(ledger, sweep)
    try:
        plain = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if plain["format"] != FORMAT:
            return None
        return StudySummary(
            **{key: plain[key] for key in ("study", "states", "n_trials", "stopped", "stop")},
            sampler=str(plain["sampler"].get("name", "")),
            directions=plain.get("directions", ()),
            constraints=plain.get("constraints", ()),
            trials={int(trial["job"]): trial for trial in plain["trials"] if "job" in trial},
            pictures={f"plots/{path.name}": path.read_bytes() for path in sorted((folder / "plots").glob("*.*"))},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def broken_trials(ledger: Path, sweep: str) -> dict[int, str]:
    """Return `StudySummary.broken` of a search; {} if no summary is readable. ``ledger`` is the ledger's file."""
    study = read_summary(ledger, sweep)
    return study.broken() if study else {}
